package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"robotsproxy/internal/loopback"
	"robotsproxy/proxy/access"
	"robotsproxy/proxy/opaque"
)

// settings are what [Server.SetAccess] has set. It replaces them as a whole.
type settings struct {
	clients access.Options
	users   *access.Users // nil: any user is believed
	tunnels opaque.Options
}

// SetAccess sets, from the next request on, who may use the proxy and which tunnels are
// read. It returns an error, and changes nothing, if the file of users cannot be read.
func (s *Server) SetAccess(clients access.Options, tunnels opaque.Options) error {
	known, err := access.Read(clients.Htpasswd)
	if err != nil {
		return fmt.Errorf("clients.htpasswd: %w", err)
	}
	s.settings.Store(&settings{clients, known, tunnels})
	return nil
}

type refusedKey struct{}

// withClient is the outer server's ConnContext. The first request of a connection asks
// [access.Options.Connections] about it.
func (s *Server) withClient(ctx context.Context, conn net.Conn) context.Context {
	ctx = loopback.WithPeer(ctx, conn)
	if refused := s.refusalOf(conn); refused != nil {
		ctx = context.WithValue(ctx, refusedKey{}, refused)
	}
	return ctx
}

// refusalOf returns what asks [access.Options.Connections] about a connection, once; nil if that is
// nil.
func (s *Server) refusalOf(conn net.Conn) func() error {
	admit := s.settings.Load().clients.Connections
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

// refused says why [access.Options.Connections] refuses a request's connection; nil if it does not.
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
