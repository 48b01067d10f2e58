//go:build !linux

package redirected

import (
	"errors"
	"net"
	"net/netip"
)

// Original fails: this system doesn't tell.
func Original(*net.TCPConn) (netip.AddrPort, error) {
	return netip.AddrPort{}, errors.ErrUnsupported
}
