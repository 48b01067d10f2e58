// Package loopback knows which requests may lead to this machine's loopback
// addresses: those of clients on this machine. What listens there trusts whoever
// reaches it, so a proxy must not be the way for others.
package loopback

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// Why a request is not led to this machine's loopback.
var (
	// ErrElsewhere speaks of the client alone, and says nothing about the origin.
	ErrElsewhere = errors.New("only clients on this machine are led to its loopback addresses")
	// ErrRedirect is for a site elsewhere whose redirect leads there.
	ErrRedirect = errors.New("a redirect from elsewhere is not followed to this machine's loopback addresses")
)

// A Client is on whose behalf a request is made. Nil is a client elsewhere.
type Client struct {
	here func() bool
	led  *atomic.Int32 // where the first request of a fetch led; nil: no fetch
}

const (
	ledNowhere int32 = iota // there was none yet
	ledAway
	ledToLoopback
)

// Here is this program's user.
var Here = &Client{here: func() bool { return true }}

// Bar says why a request of c is not led to this machine's loopback; nil if it may
// be.
func (c *Client) Bar() error {
	switch {
	case c != nil && c.led != nil && c.led.Load() == ledAway:
		return ErrRedirect
	case c == nil || !c.here():
		return ErrElsewhere
	}
	return nil
}

// Fetching is c for the requests of one fetch, which follows redirects. Where the
// first of them leads away from this machine, the others don't come back to it.
func (c *Client) Fetching() *Client {
	if c == nil {
		c = &Client{here: func() bool { return false }}
	}
	return &Client{here: c.here, led: new(atomic.Int32)}
}

// Begins reports whether a fetch has yet to learn where its first request leads.
func (c *Client) Begins() bool { return c != nil && c.led != nil && c.led.Load() == ledNowhere }

// Led notes where the first request of a fetch led.
func (c *Client) Led(toLoopback bool) {
	led := ledAway
	if toLoopback {
		led = ledToLoopback
	}
	c.led.Store(led)
}

type clientKey struct{}

// With is ctx for requests on behalf of c.
func With(ctx context.Context, c *Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// Of is the client on whose behalf ctx is.
func Of(ctx context.Context) *Client {
	c, _ := ctx.Value(clientKey{}).(*Client)
	return c
}

// WithPeer is With for the client at the other end of a connection. It fits
// [net/http.Server.ConnContext].
func WithPeer(ctx context.Context, conn net.Conn) context.Context {
	peer, isTCP := conn.RemoteAddr().(*net.TCPAddr)
	if !isTCP {
		return ctx
	}
	addr := peer.AddrPort().Addr().Unmap()
	if addr.IsLoopback() {
		return With(ctx, Here)
	}
	return With(ctx, &Client{here: sync.OnceValue(func() bool {
		if local, isTCP := conn.LocalAddr().(*net.TCPAddr); isTCP && local.AddrPort().Addr().Unmap() == addr {
			return true
		}
		// On each link anybody may have a link-local address that is this machine's on
		// another link.
		return !addr.IsLinkLocalUnicast() && Reaches(addr)
	})})
}

// Reaches reports whether an address is one of this machine's, which is to be had
// without zone and not in IPv6 where it is IPv4.
func Reaches(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(addrs, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap().WithZone("") == ip
	})
}
