package seal

import (
	"net"
	"net/netip"

	"robotsproxy/internal/redirected"
)

// A caught listener gives the connections of a sealed network. A client's address there may be
// any, so they have a better one.
type caught struct{ redirected.Listener }

func (l caught) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &caughtConn{conn.(*redirected.Conn)}, nil
}

type caughtConn struct{ *redirected.Conn }

// RemoteAddr is a loopback address with the client's port.
func (c *caughtConn) RemoteAddr() net.Addr {
	loopback := net.IPv6loopback
	if c.LocalAddr().(*net.TCPAddr).IP.To4() != nil {
		loopback = net.IPv4(127, 0, 0, 1)
	}
	return &net.TCPAddr{IP: loopback, Port: c.Conn.RemoteAddr().(*net.TCPAddr).Port}
}

// localDestination is for listeners at wildcard addresses of a sealed network, which
// holds all addresses. Connections to loopback were meant for the command itself.
func localDestination(c *net.TCPConn) (netip.AddrPort, error) {
	local := redirected.Local(c)
	if local.Addr().IsLoopback() {
		return netip.AddrPort{}, redirected.ErrNotRedirected
	}
	return local, nil
}
