// Package loopback decides which requests may reach this machine's loopback addresses:
// only those of clients on this machine. What listens there trusts everyone who can reach
// it, so the proxy must not be a way in for others. A request's context carries its
// [Client].
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

// Why a request must not reach this machine's loopback.
var (
	// ErrElsewhere is about the client, and says nothing about the origin.
	ErrElsewhere = errors.New("only clients on this machine are led to its loopback addresses")
	// ErrRedirect is about a site on another machine that redirects there.
	ErrRedirect = errors.New("a redirect from elsewhere is not followed to this machine's loopback addresses")
)

// A Client is the one on whose behalf a request is made. Nil is a client on another
// machine.
type Client struct {
	here  func() bool
	fetch *Fetch // nil: the request belongs to no fetch
}

// A Fetch is a run of requests that follows redirects. Its first request decides where the
// others may lead: if it went to another machine, they must not come back to this one's
// loopback. Its methods may be called on nil, which is no fetch.
type Fetch struct{ first atomic.Int32 }

// Where the first request of a fetch led.
const (
	notSent int32 = iota
	toOtherMachine
	toLoopback
)

// Here is the client that is this program's own user.
var Here = &Client{here: func() bool { return true }}

// Check says why a request of c must not reach this machine's loopback; nil if it may.
func (c *Client) Check() error {
	switch {
	case c != nil && c.fetch != nil && c.fetch.first.Load() == toOtherMachine:
		return ErrRedirect
	case c == nil || !c.here():
		return ErrElsewhere
	}
	return nil
}

// WithFetch returns c for the requests of a new [Fetch].
func (c *Client) WithFetch() *Client {
	if c == nil {
		c = &Client{here: func() bool { return false }}
	}
	return &Client{here: c.here, fetch: new(Fetch)}
}

// Fetch is the fetch that c's requests belong to; nil if they belong to none.
func (c *Client) Fetch() *Fetch {
	if c == nil {
		return nil
	}
	return c.fetch
}

// IsFirst reports whether the next request is the first of the fetch.
func (f *Fetch) IsFirst() bool { return f != nil && f.first.Load() == notSent }

// NoteFirst notes whether the first request has led to this machine's loopback.
func (f *Fetch) NoteFirst(loopback bool) {
	led := toOtherMachine
	if loopback {
		led = toLoopback
	}
	f.first.Store(led)
}

type clientKey struct{}

// With returns a context for requests on behalf of c.
func With(ctx context.Context, c *Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// Of is the client that ctx carries; nil if it carries none.
func Of(ctx context.Context) *Client {
	c, _ := ctx.Value(clientKey{}).(*Client)
	return c
}

// WithPeer is [With] for the client at the other end of a connection. It fits
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
		// Somebody on another link may have the same link-local address as this machine
		// has on one of its links.
		return !addr.IsLinkLocalUnicast() && Reaches(addr)
	})})
}

// Reaches reports whether an address is one of this machine's. The address must have no
// zone and, if it is an IPv4 one, must not be mapped into IPv6.
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
