package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
)

// destinations knows where the proxy must not go: addresses that the operator
// denies, and its own.
type destinations struct {
	deny []netip.Prefix
	own  atomic.Pointer[[]netip.AddrPort]
}

// errDenied and errOwn say why an address is not dialled.
var (
	errDenied = errors.New("the operator denies this address")
	errOwn    = errors.New("this is the proxy's own address: ask it directly, without the proxy")
)

// check says why an address must not be dialled, nil if it may.
func (d *destinations) check(addr netip.AddrPort) error {
	ip := underlying(addr.Addr())
	if slices.ContainsFunc(d.deny, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return fmt.Errorf("%s: %w", ip, errDenied)
	}
	if own := d.own.Load(); own != nil {
		for _, listening := range *own {
			if listening.Port() == addr.Port() && (listening.Addr() == ip || listening.Addr().IsUnspecified() && isOfThisMachine(ip)) {
				return fmt.Errorf("%s: %w", netip.AddrPortFrom(ip, addr.Port()), errOwn)
			}
		}
	}
	return nil
}

// control is the check at the last moment: after name resolution, for the very
// address that is dialled.
func (d *destinations) control(_, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dialling %s: %w", address, err)
	}
	return d.check(addr)
}

// forbids says why an origin cannot be dialled at all: nil if one of its addresses
// can be, or if it has none.
func (d *destinations) forbids(ctx context.Context, host, port string) (forbidden error) {
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	for _, addr := range addrs {
		if forbidden = d.check(netip.AddrPortFrom(addr, uint16(number))); forbidden == nil {
			return nil
		}
	}
	return forbidden
}

// nat64 is the well-known prefix of RFC 6052 2.1, under which IPv6 networks reach
// IPv4 addresses.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// underlying is the IPv4 address that an IPv6 one stands for, else the address
// itself, without a zone.
func underlying(ip netip.Addr) netip.Addr {
	if nat64.Contains(ip) {
		b := ip.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip.Unmap().WithZone("")
}

// isOfThisMachine reports whether an address reaches this machine.
func isOfThisMachine(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(addrs, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap().WithZone("") == ip
	})
}
