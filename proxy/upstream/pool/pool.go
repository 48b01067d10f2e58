// Package pool keeps connections to origins for later requests, within bounds. A [Pool]
// sends requests; it is made with [New], or with [NewHTTP2] for HTTP/2.
package pool

import (
	"container/list"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// An idle connection takes some 40 KB. A crowd of clients that ask one origin may need many
// of them again, but of a crawl's many origins most are asked once.
const (
	// MaxIdleConns bounds a pool's idle connections. One origin may have all of them.
	MaxIdleConns = 2048
	// maxIdleOrigins bounds the origins that have idle connections and are not being asked.
	maxIdleOrigins = 256
)

// DialFunc opens a connection.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Pool sends requests to origins. In two ways it is unlike an [http.Transport]:
//
// It bounds both the idle connections and the origins that have some, and then closes those
// of the origin that has been idle longest. net/http bounds connections alone, and those
// over HTTP/2 not at all. Each origin has an [http.Transport] for this, whose connections
// are closed when no request uses it, so that no request loses its own.
//
// Over HTTP/2, requests to a cold origin wait until the first of them has a connection.
// net/http would open one for each, and then use one.
type Pool struct {
	newTransport   func(DialFunc) *http.Transport
	dial           DialFunc
	waitForFirst   bool
	maxIdleOrigins int

	mu          sync.Mutex
	origins     map[string]*origin
	byUse       list.List // of *origin; the idle ones among themselves by the end of their last request, the latest first
	idleConns   int       // of origins that are not being asked
	idleOrigins int       // those that have some
}

// New returns a pool of connections that carry a request at a time. It dials by dial.
// newTransport makes the transport of an origin, with the function by which that must dial.
func New(dial DialFunc, newTransport func(DialFunc) *http.Transport) *Pool {
	return &Pool{newTransport: newTransport, dial: dial, maxIdleOrigins: maxIdleOrigins, origins: map[string]*origin{}}
}

// NewHTTP2 returns a pool of connections that carry many requests at once. The transports
// may speak HTTP/1.1 with origins that don't have HTTP/2.
func NewHTTP2(dial DialFunc, newTransport func(DialFunc) *http.Transport) *Pool {
	p := New(dial, newTransport)
	p.waitForFirst = true
	return p
}

// origin is one that is being asked or has connections. The pool's lock guards the fields
// that change.
type origin struct {
	key       string
	transport *http.Transport
	element   *list.Element // in byUse
	asking    int           // requests whose responses have not been read
	conns     int
	idleConns int        // of conns, how many the pool counts as idle
	retired   bool       // no request will come
	firstDial *firstDial // over HTTP/2; nil: the origin is cold
}

// RoundTrip sends a request as [http.RoundTripper] does. Requests with the same key share
// connections: it names the origin, or the proxy that is asked for it.
func (p *Pool) RoundTrip(key string, r *http.Request) (*http.Response, error) {
	o, dial, isFirst := p.begin(key)
	goesOn := false
	defer func() { // after a panic too
		if !goesOn {
			p.end(o)
		}
	}()
	switch {
	case isFirst:
		defer p.endFirst(o, dial)
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { dial.open() }, // the transport's pool has it by now
		}))
	case dial != nil:
		if err := dial.wait(r.Context()); err != nil {
			if r.Body != nil {
				r.Body.Close()
			}
			return nil, err
		}
	}
	resp, err := o.transport.RoundTrip(r)
	if err != nil || resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	goesOn = true
	resp.Body = &body{ReadCloser: resp.Body, pool: p, origin: o}
	return resp, nil
}

// body is a response's body. Its request ends when it is closed.
type body struct {
	io.ReadCloser
	pool   *Pool
	origin *origin
	closed atomic.Bool
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	if !b.closed.Swap(true) {
		b.pool.end(b.origin)
	}
	return err
}

// begin returns the origin for a request and, over HTTP/2, the first dial. If isFirst, this
// request makes that dial; others must wait for it. Callers must call end.
func (p *Pool) begin(key string) (o *origin, dial *firstDial, isFirst bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o = p.origins[key]
	if o == nil {
		o = &origin{key: key}
		o.transport = p.newTransport(p.dialFor(o))
		o.element = p.byUse.PushFront(o)
		p.origins[key] = o
	}
	o.asking++
	p.settle(o)
	if p.waitForFirst && o.firstDial == nil {
		o.firstDial, isFirst = newFirstDial(), true
	}
	return o, o.firstDial, isFirst
}

// end notes that a request and its response are over.
func (p *Pool) end(o *origin) {
	p.mu.Lock()
	o.asking--
	if o.asking == 0 {
		p.byUse.MoveToFront(o.element)
	}
	p.settle(o)
	surplus := p.retireSurplus(o)
	p.mu.Unlock()
	for _, o := range surplus {
		o.transport.CloseIdleConnections()
	}
}

// endFirst is called when the first request to a cold origin has been answered or has
// failed.
func (p *Pool) endFirst(o *origin, dial *firstDial) {
	dial.open()
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.conns == 0 {
		o.firstDial = nil
	}
}

// dialFor returns a dial function that counts the connections of o.
func (p *Pool) dialFor(o *origin) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := p.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if !p.count(o, 1) {
			c.Close()
			return nil, net.ErrClosed // nobody sees it: the dial outlasted its request
		}
		return &conn{c, sync.OnceFunc(func() { p.count(o, -1) })}, nil
	}
}

// conn calls a function when it is closed.
type conn struct {
	net.Conn
	onClose func()
}

func (c *conn) Close() error {
	defer c.onClose()
	return c.Conn.Close()
}

// count notes that a connection to o has been opened or closed. It reports false if no
// request will use o any more.
func (p *Pool) count(o *origin, change int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.retired {
		return false
	}
	o.conns += change
	if o.conns == 0 {
		o.firstDial = nil
	}
	p.settle(o)
	return true
}

// settle corrects the counts of idle connections after a change of o, and forgets o if it
// has no connections and is not being asked. The caller holds the lock.
func (p *Pool) settle(o *origin) {
	idle := 0
	if o.asking == 0 {
		idle = o.conns
	}
	p.countIdle(o, idle)
	if o.asking == 0 && o.conns == 0 {
		p.retire(o)
	}
}

// countIdle counts so many connections of o as idle. The caller holds the lock.
func (p *Pool) countIdle(o *origin, conns int) {
	p.idleConns += conns - o.idleConns
	switch {
	case o.idleConns == 0 && conns > 0:
		p.idleOrigins++
	case o.idleConns > 0 && conns == 0:
		p.idleOrigins--
	}
	o.idleConns = conns
}

// retire forgets an origin, which must not be being asked. The caller holds the lock.
func (p *Pool) retire(o *origin) {
	p.countIdle(o, 0)
	p.byUse.Remove(o.element)
	delete(p.origins, o.key)
	o.retired = true
}

// retireSurplus retires the origins that have been idle longest until the idle ones are
// within bounds, but never the one that was asked last. The caller holds the lock. It must
// release it before it closes their connections, which may take a while.
func (p *Pool) retireSurplus(last *origin) (retired []*origin) {
	for p.idleConns > MaxIdleConns || p.idleOrigins > p.maxIdleOrigins {
		o := p.byUse.Back().Value.(*origin)
		switch {
		case o == last && o.asking == 0:
			return retired // the others are being asked
		case o.asking > 0:
			p.byUse.MoveToFront(o.element)
		default:
			p.retire(o)
			retired = append(retired, o)
		}
	}
	return retired
}

// CloseIdleConnections closes the connections that no request uses; over HTTP/2 those of
// origins that are not being asked.
func (p *Pool) CloseIdleConnections() {
	var idle []*origin
	p.mu.Lock()
	for _, o := range p.origins {
		if o.asking == 0 {
			p.retire(o)
		} else if p.waitForFirst {
			continue // a request may be about to use one
		}
		idle = append(idle, o)
	}
	p.mu.Unlock()
	for _, o := range idle {
		o.transport.CloseIdleConnections()
	}
}
