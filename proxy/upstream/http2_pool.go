package upstream

import (
	"container/list"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxIdleHTTP2 bounds the idle connections over HTTP/2, some 40 KB each.
	maxIdleHTTP2 = 512
	// maxFirstDialWait is how long a request waits for another's connection before it
	// dials itself. It is longer than a handshake with a distant origin takes.
	maxFirstDialWait = 2 * time.Second
	// maxHTTP1Hosts bounds the hosts that are known to have no HTTP/2.
	maxHTTP1Hosts = 1024
)

// http2Pool asks origins over HTTP/2. It does two things that net/http does not:
//
// It bounds the idle connections. When there are too many, it closes those of the origin
// that has been idle longest. Each origin has its own [http.Transport] for that, which no
// request uses any more when its connections are closed: so no request loses its own.
//
// Requests to a cold origin wait until the first of them has a connection. net/http would
// dial once for each and then use one.
//
// Origins without HTTP/2 share one transport.
type http2Pool struct {
	*http.Transport // for http, and for origins without HTTP/2
	newTransport    func(dialFunc) *http.Transport
	dial            dialFunc
	maxIdle         int // connections over HTTP/2

	mu         sync.Mutex
	http1Hosts map[string]bool // the hosts without HTTP/2
	origins    map[string]*pooledOrigin
	byUse      list.List // of origins; the idle ones among themselves by the end of their last request, the latest first
	idle       int       // connections of origins that are idle
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func newHTTP2Pool(dial dialFunc, newTransport func(dialFunc) *http.Transport) *http2Pool {
	return &http2Pool{
		Transport: newTransport(dial), newTransport: newTransport, dial: dial, maxIdle: maxIdleHTTP2,
		http1Hosts: map[string]bool{}, origins: map[string]*pooledOrigin{},
	}
}

// pooledOrigin is an origin that is being asked or has connections. The pool's lock guards
// the fields that change.
type pooledOrigin struct {
	host      string
	transport *http.Transport
	element   *list.Element // in byUse
	asking    int           // requests whose responses have not been read
	conns     int
	idle      int        // of conns, how many http2Pool.idle counts
	retired   bool       // no request will come
	dial      *firstDial // nil: the origin is cold
}

// firstDial is the first connection to a cold origin, for which its requests wait.
type firstDial struct {
	ready   chan struct{} // closed when nobody needs to wait any more
	open    func()        // closes ready
	isHTTP1 atomic.Bool   // the origin has no HTTP/2
}

func newFirstDial() *firstDial {
	ready := make(chan struct{})
	return &firstDial{ready: ready, open: sync.OnceFunc(func() { close(ready) })}
}

func (d *firstDial) wait(ctx context.Context) error {
	select {
	case <-d.ready:
		return nil
	default:
	}
	late := time.NewTimer(maxFirstDialWait)
	defer late.Stop()
	select {
	case <-d.ready:
	case <-late.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// RoundTrip implements [http.RoundTripper].
func (p *http2Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return p.Transport.RoundTrip(r)
	}
	o, dial, first := p.begin(r.URL.Host)
	if o == nil {
		return p.roundTripHTTP1(r)
	}
	goesOn := false
	defer func() { // after a panic too
		if !goesOn {
			p.end(o)
		}
	}()
	if first {
		defer p.endFirst(o, dial)
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), p.traceFirst(o.host, dial)))
	} else if err := dial.wait(r.Context()); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	} else if dial.isHTTP1.Load() {
		return p.roundTripHTTP1(r)
	}
	resp, err := o.transport.RoundTrip(r)
	if err != nil || resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	goesOn = true
	resp.Body = &pooledBody{ReadCloser: resp.Body, pool: p, origin: o}
	return resp, nil
}

// roundTripHTTP1 asks an origin that had no HTTP/2, and notices if it has it now.
func (p *http2Pool) roundTripHTTP1(r *http.Request) (*http.Response, error) {
	resp, err := p.Transport.RoundTrip(r)
	if err == nil && resp.ProtoMajor == 2 {
		p.mu.Lock()
		delete(p.http1Hosts, r.URL.Host)
		p.mu.Unlock()
	}
	return resp, err
}

// pooledBody is a response's body. Its request ends when it is closed.
type pooledBody struct {
	io.ReadCloser
	pool   *http2Pool
	origin *pooledOrigin
	closed atomic.Bool
}

func (b *pooledBody) Close() error {
	err := b.ReadCloser.Close()
	if !b.closed.Swap(true) {
		b.pool.end(b.origin)
	}
	return err
}

// begin returns the origin for a request, nil if it is known to have no HTTP/2, and the
// dial that the request must wait for. If first, it is this request that dials. Callers
// must call end.
func (p *http2Pool) begin(host string) (o *pooledOrigin, dial *firstDial, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.http1Hosts[host] {
		return nil, nil, false
	}
	o = p.origins[host]
	if o == nil {
		o = &pooledOrigin{host: host}
		o.transport = p.newTransport(p.dialFor(o))
		o.element = p.byUse.PushFront(o)
		p.origins[host] = o
	}
	o.asking++
	p.settle(o)
	if first = o.dial == nil; first {
		o.dial = newFirstDial()
	}
	return o, o.dial, first
}

// end says that a request and its response are over.
func (p *http2Pool) end(o *pooledOrigin) {
	p.mu.Lock()
	o.asking--
	if o.asking == 0 {
		p.byUse.MoveToFront(o.element)
	}
	p.settle(o)
	surplus := p.retireSurplus()
	p.mu.Unlock()
	for _, o := range surplus {
		o.transport.CloseIdleConnections()
	}
}

// traceFirst ends the wait for a dial as soon as the first request has a connection, which
// is in its transport's pool by then.
func (p *http2Pool) traceFirst(host string, dial *firstDial) *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if conn, isTLS := got.Conn.(*tls.Conn); isTLS && conn.ConnectionState().NegotiatedProtocol != "h2" {
			dial.isHTTP1.Store(true)
			p.mu.Lock()
			if len(p.http1Hosts) >= maxHTTP1Hosts {
				clear(p.http1Hosts)
			}
			p.http1Hosts[host] = true
			p.mu.Unlock()
		}
		dial.open()
	}}
}

// endFirst is called when the first request to an origin has been answered or has failed.
func (p *http2Pool) endFirst(o *pooledOrigin, dial *firstDial) {
	dial.open()
	if dial.isHTTP1.Load() {
		o.transport.CloseIdleConnections() // now, and the one in use afterwards
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.conns == 0 {
		o.dial = nil
	}
}

// dialFor returns a dial function that counts the connections of o.
func (p *http2Pool) dialFor(o *pooledOrigin) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := p.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if !p.count(o, 1) {
			conn.Close()
			return nil, net.ErrClosed // to nobody: the dial went on when its request had gone
		}
		return &pooledConn{conn, sync.OnceFunc(func() { p.count(o, -1) })}, nil
	}
}

// pooledConn calls a function when it is closed.
type pooledConn struct {
	net.Conn
	closed func()
}

func (c *pooledConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// count notes that a connection to o has been opened or closed. It reports false if no
// request will use o any more.
func (p *http2Pool) count(o *pooledOrigin, change int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.retired {
		return false
	}
	o.conns += change
	if o.conns == 0 {
		o.dial = nil
	}
	p.settle(o)
	return true
}

// settle counts the connections of o after a change, and forgets it if it has none and
// is not being asked. The caller holds the lock.
func (p *http2Pool) settle(o *pooledOrigin) {
	idle := 0
	if o.asking == 0 {
		idle = o.conns
	}
	p.idle += idle - o.idle
	o.idle = idle
	if o.asking == 0 && o.conns == 0 {
		p.retire(o)
	}
}

// retire forgets an origin, which must not be being asked. The caller holds the lock.
func (p *http2Pool) retire(o *pooledOrigin) {
	p.idle -= o.idle
	p.byUse.Remove(o.element)
	delete(p.origins, o.host)
	o.retired = true
}

// retireSurplus retires the origins that have been idle longest until there are no longer
// too many idle connections. The caller holds the lock. It must release it before it
// closes the connections, which may take a while.
func (p *http2Pool) retireSurplus() (retired []*pooledOrigin) {
	for p.idle > p.maxIdle {
		o := p.byUse.Back().Value.(*pooledOrigin)
		if o.asking > 0 {
			p.byUse.MoveToFront(o.element)
			continue
		}
		p.retire(o)
		retired = append(retired, o)
	}
	return retired
}

// CloseIdleConnections closes the connections that no request uses.
func (p *http2Pool) CloseIdleConnections() {
	p.Transport.CloseIdleConnections()
	var idle []*pooledOrigin
	p.mu.Lock()
	for _, o := range p.origins {
		if o.asking == 0 {
			p.retire(o)
			idle = append(idle, o)
		}
	}
	p.mu.Unlock()
	for _, o := range idle {
		o.transport.CloseIdleConnections()
	}
}
