package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"robotsproxy/internal/loopback"
	"robotsproxy/robots"
)

// destinations knows which addresses must not be dialled: those that the operator denies,
// the proxy's own and, for clients on other machines, this machine's loopback.
type destinations struct {
	deny []netip.Prefix
	own  atomic.Pointer[[]netip.AddrPort]
}

// Reasons why an address is not dialled; [loopback.Client.Check] has more.
var (
	errDenied      = errors.New("the operator denies this address (upstream.deny)")
	errUnspecified = errors.New("the unspecified address names no origin")
	errOwn         = errors.New("this is the proxy's own address: ask it directly, without the proxy")
)

// check returns why an address must not be dialled for a client; nil if it may be.
func (d *destinations) check(addr netip.AddrPort, client *loopback.Client) error {
	written, ip := addr.Addr().WithZone(""), underlying(addr.Addr())
	switch {
	case ip.IsUnspecified(): // operating systems dial their loopback instead
		return fmt.Errorf("%s: %w", ip, errUnspecified)
	case slices.ContainsFunc(d.deny, func(p netip.Prefix) bool { return p.Contains(ip) || p.Contains(written) }):
		return fmt.Errorf("%s: %w", ip, errDenied)
	case ip.IsLoopback():
		if err := client.Check(); err != nil {
			return fmt.Errorf("%s: %w", ip, err)
		}
	}
	if own := d.own.Load(); own != nil {
		for _, listening := range *own {
			if listening.Port() == addr.Port() && (listening.Addr() == ip || listening.Addr().IsUnspecified() && loopback.Reaches(ip)) {
				return fmt.Errorf("%s: %w", netip.AddrPortFrom(ip, addr.Port()), errOwn)
			}
		}
	}
	return nil
}

// control checks an address that is about to be dialled, after name resolution. It is a
// [net.Dialer]'s ControlContext.
func (d *destinations) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dialling %s: %w", address, err)
	}
	return d.check(addr, loopback.Of(ctx))
}

// checkAll resolves a host and returns why none of its addresses may be dialled. It returns
// nil if one may be, or if the host has none.
func (d *destinations) checkAll(ctx context.Context, host, port string) (forbidden error) {
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	for _, addr := range addrs {
		if forbidden = d.check(netip.AddrPortFrom(addr, uint16(number)), loopback.Of(ctx)); forbidden == nil {
			return nil
		}
	}
	return forbidden
}

// CheckLoopback returns why the client of ctx must not reach an origin on this machine's
// loopback. It returns nil if the client may, and for any other origin. It resolves no names.
func CheckLoopback(ctx context.Context, origin robots.Origin) error {
	if namesLoopback(origin.Host) {
		if err := loopback.Of(ctx).Check(); err != nil {
			return fmt.Errorf("%s: %w", origin.Host, err)
		}
	}
	return nil
}

// namesLoopback reports whether a host is a loopback address, or a name that always stands
// for one (RFC 6761 6.3).
func namesLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && underlying(addr).IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// nat64 is the well-known prefix of RFC 6052 2.1, under which IPv6 networks reach
// IPv4 addresses.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// underlying returns the IPv4 address that an IPv6 one stands for, else the address itself;
// without a zone in either case.
func underlying(ip netip.Addr) netip.Addr {
	if nat64.Contains(ip) {
		b := ip.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip.Unmap().WithZone("")
}
