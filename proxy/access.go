package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"robotsproxy/internal/keyerr"
	"robotsproxy/internal/loopback"
	"robotsproxy/proxy/opaque"
	"robotsproxy/proxy/users"
)

// Clients says who may use the proxy. In a configuration it is the section "clients". The
// zero value admits nobody.
type Clients struct {
	// Allow holds the source addresses that are served; others get 403.
	Allow []netip.Prefix `yaml:"allow"`
	// Htpasswd is a file of users with bcrypt hashes of their passwords. With it,
	// every client must send Proxy-Authorization. Without it, the proxy believes any
	// user name.
	Htpasswd string `yaml:"htpasswd,path"`
	// Connections returns why a connection from client to proxy is refused although Allow
	// holds its address, else nil. It is called once for each connection, by many
	// goroutines at once. A nil function refuses none.
	Connections func(client, proxy netip.AddrPort) error `yaml:"-"`
}

// DefaultClients admits only this machine's loopback addresses.
func DefaultClients() Clients {
	return Clients{Allow: []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("::1/128"),
	}}
}

// Validate reports what is wrong with c as a [keyerr.Error].
func (c Clients) Validate() error {
	if _, err := users.Read(c.Htpasswd); err != nil {
		return keyerr.Wrap("htpasswd", err)
	}
	return nil
}

// Warning says what is wrong with listening on an address for these clients, else "".
func (c Clients) Warning(listening net.Addr) string {
	tcp, ok := listening.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return ""
	}
	local, everyone := true, false
	for _, p := range c.Allow {
		local = local && p.Addr().IsLoopback()
		everyone = everyone || p.Bits() == 0
	}
	switch {
	case local:
		return "the proxy listens beyond this machine, but other machines get 403: admit them by their addresses in clients.allow"
	case everyone && c.Htpasswd == "":
		return "this is an open proxy: everyone who can reach it may use it; name the networks that may in clients.allow, or a file of users in clients.htpasswd"
	}
	return ""
}

// admits reports whether a client at addr may use the proxy.
func (c Clients) admits(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, p := range c.Allow {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// access is what [Server.SetAccess] has set. SetAccess replaces it as a whole.
type access struct {
	clients Clients
	users   *users.Users // nil: any user is believed
	tunnels opaque.Options
}

// SetAccess sets, from the next request on, who may use the proxy and which tunnels are
// read. It returns an error, and changes nothing, if the file of users cannot be read.
func (s *Server) SetAccess(clients Clients, tunnels opaque.Options) error {
	known, err := users.Read(clients.Htpasswd)
	if err != nil {
		return fmt.Errorf("clients.htpasswd: %w", err)
	}
	s.access.Store(&access{clients, known, tunnels})
	return nil
}

type refusedKey struct{}

// withClient is the outer server's ConnContext. The first request of a connection asks
// [Clients.Connections] about it.
func (s *Server) withClient(ctx context.Context, conn net.Conn) context.Context {
	ctx = loopback.WithPeer(ctx, conn)
	if refused := s.refusalOf(conn); refused != nil {
		ctx = context.WithValue(ctx, refusedKey{}, refused)
	}
	return ctx
}

// refusalOf returns what asks [Clients.Connections] about a connection, once; nil if that is
// nil.
func (s *Server) refusalOf(conn net.Conn) func() error {
	admit := s.access.Load().clients.Connections
	if admit == nil {
		return nil
	}
	return sync.OnceValue(func() error {
		err := admit(addrPort(conn.RemoteAddr()), addrPort(conn.LocalAddr()))
		if err != nil {
			s.logRefused.Do(func() { s.log.Warn().Err(err).Msg("refused a connection; the next ones are not logged") })
		}
		return err
	})
}

// refused says why [Clients.Connections] refuses a request's connection; nil if it does not.
func refused(ctx context.Context) error {
	if err, ok := ctx.Value(refusedKey{}).(func() error); ok {
		return err()
	}
	return nil
}

func addrPort(a net.Addr) netip.AddrPort {
	ap, _ := netip.ParseAddrPort(a.String())
	return ap
}
