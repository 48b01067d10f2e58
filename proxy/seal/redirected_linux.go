package seal

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Redirected returns a listener whose connections have the address that their client
// wanted as LocalAddr. It closes connections that the kernel has not redirected to it,
// since those could lead from the proxy to itself. The listener must be of TCP.
func Redirected(l net.Listener) (net.Listener, error) {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, errors.New("only TCP connections can be redirected")
	}
	return redirected{tcp, originalDestination}, nil
}

// redirected is a listener that finds out where a connection was to go.
type redirected struct {
	*net.TCPListener
	destination func(*net.TCPConn) (netip.AddrPort, error)
}

func (l redirected) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		if destination, err := l.destination(conn); err == nil {
			return &redirectedConn{conn, net.TCPAddrFromAddrPort(destination)}, nil
		}
		conn.SetLinger(0) // refused, not ended
		conn.Close()
	}
}

type redirectedConn struct {
	*net.TCPConn
	destination *net.TCPAddr
}

func (c *redirectedConn) LocalAddr() net.Addr { return c.destination }

// caught is a redirected listener in a sealed network, where a client's address may be
// any. It is on this machine.
type caught struct{ redirected }

func (l caught) Accept() (net.Conn, error) {
	conn, err := l.redirected.Accept()
	if err != nil {
		return nil, err
	}
	return &caughtConn{conn.(*redirectedConn)}, nil
}

type caughtConn struct{ *redirectedConn }

// RemoteAddr is a loopback address with the client's port.
func (c *caughtConn) RemoteAddr() net.Addr {
	loopback := net.IPv4(127, 0, 0, 1)
	if c.destination.IP.To4() == nil {
		loopback = net.IPv6loopback
	}
	return &net.TCPAddr{IP: loopback, Port: c.TCPConn.RemoteAddr().(*net.TCPAddr).Port}
}

var errNotRedirected = errors.New("the connection was not redirected")

// localDestination is for listeners at wildcard addresses of a sealed network. Only
// connections to loopback addresses were meant for the command itself.
func localDestination(c *net.TCPConn) (netip.AddrPort, error) {
	local := unmapped(c.LocalAddr())
	if local.Addr().IsLoopback() {
		return netip.AddrPort{}, errNotRedirected
	}
	return local, nil
}

// originalDestination asks the kernel's connection tracking where a connection was to
// go before it was redirected.
func originalDestination(c *net.TCPConn) (netip.AddrPort, error) {
	local := unmapped(c.LocalAddr())
	raw, err := c.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	var original netip.AddrPort
	controlErr := raw.Control(func(fd uintptr) {
		if local.Addr().Is4() {
			original, err = originalDestination4(fd)
		} else {
			original, err = originalDestination6(fd)
		}
	})
	switch {
	case controlErr != nil:
		return netip.AddrPort{}, controlErr
	case err != nil:
		return netip.AddrPort{}, err
	case original == local:
		return netip.AddrPort{}, errNotRedirected
	}
	return original, nil
}

// originalDestination4 asks for SO_ORIGINAL_DST. Its struct sockaddr_in has the size of
// the multicast address for which this function was made.
func originalDestination4(fd uintptr) (netip.AddrPort, error) {
	request, err := unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, unix.SO_ORIGINAL_DST)
	if err != nil {
		return netip.AddrPort{}, err
	}
	address := request.Multiaddr // family, port, address
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(address[4:8])), binary.BigEndian.Uint16(address[2:4])), nil
}

// originalDestination6 asks for IP6T_SO_ORIGINAL_DST, which has the same number. The
// structure of an MTU begins with a struct sockaddr_in6.
func originalDestination6(fd uintptr) (netip.AddrPort, error) {
	info, err := unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, unix.SO_ORIGINAL_DST)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port := binary.NativeEndian.AppendUint16(nil, info.Addr.Port) // in the network's order
	return netip.AddrPortFrom(netip.AddrFrom16(info.Addr.Addr), binary.BigEndian.Uint16(port)), nil
}

// unmapped is a TCP address, as IPv4 if it is an IPv4 address in IPv6 form.
func unmapped(a net.Addr) netip.AddrPort {
	address := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(address.Addr().Unmap(), address.Port())
}
