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
	// AllHere says that all clients are on this machine. Otherwise those are whose
	// connections arrive at a loopback address.
	AllHere bool
}

// A Conn is a connection of a Listener.
type Conn struct {
	*net.TCPConn
	destination *net.TCPAddr
	here        bool
}

// LocalAddr is the address that the client wanted, a *net.TCPAddr.
func (c *Conn) LocalAddr() net.Addr { return c.destination }

// RemoteAddr is the client's address, a *net.TCPAddr. If the client is on this machine, the
// kernel has chosen an address for it by its destination: RemoteAddr is then a loopback
// address, with the client's port.
func (c *Conn) RemoteAddr() net.Addr {
	client := c.TCPConn.RemoteAddr()
	if !c.here {
		return client
	}
	loopback := net.IPv6loopback
	if c.destination.IP.To4() != nil {
		loopback = net.IPv4(127, 0, 0, 1)
	}
	return &net.TCPAddr{IP: loopback, Port: client.(*net.TCPAddr).Port}
}

// Accept returns the next connection, a *Conn.
func (l Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		if destination, err := l.Destination(conn); err == nil {
			return &Conn{conn, net.TCPAddrFromAddrPort(destination), l.AllHere || Local(conn).Addr().IsLoopback()}, nil
		}
		conn.SetLinger(0) // refused, not ended
		conn.Close()
	}
}

// Client is the client's address as the kernel knows it.
func (c *Conn) Client() netip.AddrPort {
	address := c.TCPConn.RemoteAddr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(address.Addr().Unmap().WithZone(""), address.Port())
}

// Local is the address by which a connection came to its listener. An IPv4 address has
// its own form, even if the listener is for both families.
func Local(c *net.TCPConn) netip.AddrPort {
	address := c.LocalAddr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(address.Addr().Unmap(), address.Port())
}
