package access

import (
	"net"
	"net/netip"

	"robotsproxy/internal/keyerr"
)

// Options say who may use the proxy. In a configuration they are the section "clients". The
// zero value admits nobody.
type Options struct {
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

// Defaults admit only this machine's loopback addresses.
func Defaults() Options {
	return Options{Allow: []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("::1/128"),
	}}
}

// Validate reports what is wrong with o as a [keyerr.Error].
func (o Options) Validate() error {
	if _, err := Read(o.Htpasswd); err != nil {
		return keyerr.Wrap("htpasswd", err)
	}
	return nil
}

// Warning says what is wrong with listening on an address for these clients, else "".
func (o Options) Warning(listening net.Addr) string {
	tcp, ok := listening.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return ""
	}
	local, everyone := true, false
	for _, p := range o.Allow {
		local = local && p.Addr().IsLoopback()
		everyone = everyone || p.Bits() == 0
	}
	switch {
	case local:
		return "the proxy listens beyond this machine, but other machines get 403: admit them by their addresses in clients.allow"
	case everyone && o.Htpasswd == "":
		return "this is an open proxy: everyone who can reach it may use it; name the networks that may in clients.allow, or a file of users in clients.htpasswd"
	}
	return ""
}

// Admits reports whether a client at addr may use the proxy.
func (o Options) Admits(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, p := range o.Allow {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
