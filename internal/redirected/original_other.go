//go:build !linux

package redirected

import (
	"errors"
	"net"
	"net/netip"
)

// Supported reports whether this system tells where connections were to go.
const Supported = false

// Original fails: this system doesn't tell.
func Original(*net.TCPConn) (netip.AddrPort, error) {
	return netip.AddrPort{}, errors.ErrUnsupported
}
