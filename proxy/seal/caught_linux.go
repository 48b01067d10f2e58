package seal

import (
	"net"
	"net/netip"

	"robotsproxy/internal/redirected"
)

// localDestination is for listeners at wildcard addresses of a sealed network, which
// holds all addresses. Connections to loopback were meant for the command itself.
func localDestination(c *net.TCPConn) (netip.AddrPort, error) {
	local := redirected.Local(c)
	if local.Addr().IsLoopback() {
		return netip.AddrPort{}, redirected.ErrNotRedirected
	}
	return local, nil
}
