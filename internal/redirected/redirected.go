// Package redirected tells where a TCP connection was to go before the kernel redirected
// it to a listener of ours, as nftables and iptables do on Linux.
package redirected

import (
	"errors"
	"net"
	"net/netip"
)

// ErrNotRedirected is the error of a connection that came to its listener by itself.
var ErrNotRedirected = errors.New("the connection was not redirected")

// A Listener accepts connections, each with the address that its client wanted as
// LocalAddr. It closes those for which Destination fails, among them those that came to
// the listener by its own address: a proxy could otherwise connect to itself.
type Listener struct {
	*net.TCPListener
	// Destination is where a connection was to go: [Original], or what the user of the
	// listener knows better.
	Destination func(*net.TCPConn) (netip.AddrPort, error)
}

// A Conn is a connection of a Listener.
type Conn struct {
	*net.TCPConn
	destination *net.TCPAddr
}

// LocalAddr is the address that the client wanted, a *net.TCPAddr.
func (c *Conn) LocalAddr() net.Addr { return c.destination }

// Accept returns the next connection, a *Conn.
func (l Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		if destination, err := l.Destination(conn); err == nil {
			return &Conn{conn, net.TCPAddrFromAddrPort(destination)}, nil
		}
		conn.SetLinger(0) // refused, not ended
		conn.Close()
	}
}

// Local is the address by which a connection came to its listener. An IPv4 address has
// its own form, even if the listener is for both families.
func Local(c *net.TCPConn) netip.AddrPort {
	address := c.LocalAddr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(address.Addr().Unmap(), address.Port())
}
