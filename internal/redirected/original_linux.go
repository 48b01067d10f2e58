package redirected

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Supported reports whether this system tells where connections were to go.
const Supported = true

// Original asks the kernel's connection tracking where a connection was to go. The error
// is [ErrNotRedirected] if it was to go to its listener.
func Original(c *net.TCPConn) (netip.AddrPort, error) {
	local := Local(c)
	raw, err := c.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	var original netip.AddrPort
	controlErr := raw.Control(func(fd uintptr) {
		if local.Addr().Is4() {
			original, err = original4(fd)
		} else {
			original, err = original6(fd)
		}
	})
	switch {
	case controlErr != nil:
		return netip.AddrPort{}, controlErr
	case err != nil:
		return netip.AddrPort{}, err
	case original == local:
		return netip.AddrPort{}, ErrNotRedirected
	}
	return original, nil
}

// original4 asks for SO_ORIGINAL_DST. Its struct sockaddr_in has the size of
// the multicast address for which this function was made.
func original4(fd uintptr) (netip.AddrPort, error) {
	request, err := unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, unix.SO_ORIGINAL_DST)
	if err != nil {
		return netip.AddrPort{}, err
	}
	address := request.Multiaddr // family, port, address
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(address[4:8])), binary.BigEndian.Uint16(address[2:4])), nil
}

// original6 asks for IP6T_SO_ORIGINAL_DST, which has the same number. The
// structure of an MTU begins with a struct sockaddr_in6.
func original6(fd uintptr) (netip.AddrPort, error) {
	info, err := unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, unix.SO_ORIGINAL_DST)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port := binary.NativeEndian.AppendUint16(nil, info.Addr.Port) // in the network's order
	return netip.AddrPortFrom(netip.AddrFrom16(info.Addr.Addr), binary.BigEndian.Uint16(port)), nil
}
