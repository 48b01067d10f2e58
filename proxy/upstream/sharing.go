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
	// maxIdleShared bounds the idle connections over HTTP/2, some 40 KB each.
	maxIdleShared = 512
	// maxFirstWait is how long a request waits for another's connection before it
	// dials by itself: longer than a handshake takes with an origin far away.
	maxFirstWait = 2 * time.Second
	// maxAlone bounds the hosts without HTTP/2 that are known.
	maxAlone = 1024
)

// sharing asks origins over HTTP/2, with two things that net/http does not do:
//
// Idle connections are bounded. When there are too many, those of the origin that has
// been idle for longest are closed. Each origin has an [http.Transport] of its own for
// that, which nobody uses any more when it is told to close them: no request can lose
// its connection.
//
// Requests to a cold origin wait for the connection of the first of them. net/http
// would dial for each, and then need one.
//
// Origins that turn out to have no HTTP/2 have one transport together.
type sharing struct {
	*http.Transport // for http, and for origins without HTTP/2
	newTransport    func(dialFunc) *http.Transport
	dial            dialFunc
	maxIdle         int // connections over HTTP/2

	mu      sync.Mutex
	alone   map[string]bool // the hosts without HTTP/2
	origins map[string]*sharedOrigin
	byUse   list.List // of origins; the idle ones among themselves by the end of their last request, the latest first
	idle    int       // connections of origins that are idle
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func newSharing(dial dialFunc, newTransport func(dialFunc) *http.Transport) *sharing {
	return &sharing{
		Transport: newTransport(dial), newTransport: newTransport, dial: dial, maxIdle: maxIdleShared,
		alone: map[string]bool{}, origins: map[string]*sharedOrigin{},
	}
}

// sharedOrigin is an origin that is being asked or has connections. The lock of its
// sharing guards what changes.
type sharedOrigin struct {
	host      string
	transport *http.Transport
	place     *list.Element // in byUse
	asking    int           // requests whose responses have not been read
	conns     int
	idle      int      // of conns, how many sharing.idle counts
	retired   bool     // no request will come
	opening   *opening // nil: it is cold
}

// opening is the wait for the first connection to an origin.
type opening struct {
	ready chan struct{} // closed when nobody need wait any more
	open  func()        // closes ready
	alone atomic.Bool   // the origin has no HTTP/2
}

func newOpening() *opening {
	ready := make(chan struct{})
	return &opening{ready: ready, open: sync.OnceFunc(func() { close(ready) })}
}

func (o *opening) wait(ctx context.Context) error {
	select {
	case <-o.ready:
		return nil
	default:
	}
	late := time.NewTimer(maxFirstWait)
	defer late.Stop()
	select {
	case <-o.ready:
	case <-late.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// RoundTrip implements [http.RoundTripper].
func (s *sharing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return s.Transport.RoundTrip(r)
	}
	o, opening, first := s.begin(r.URL.Host)
	if o == nil {
		return s.roundTripAlone(r)
	}
	goesOn := false
	defer func() { // after a panic too
		if !goesOn {
			s.end(o)
		}
	}()
	if first {
		defer s.opened(o, opening)
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), s.noting(o.host, opening)))
	} else if err := opening.wait(r.Context()); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	} else if opening.alone.Load() {
		return s.roundTripAlone(r)
	}
	resp, err := o.transport.RoundTrip(r)
	if err != nil || resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	goesOn = true
	resp.Body = &sharedBody{ReadCloser: resp.Body, sharing: s, origin: o}
	return resp, nil
}

// roundTripAlone asks an origin without HTTP/2, and notices when it has got it.
func (s *sharing) roundTripAlone(r *http.Request) (*http.Response, error) {
	resp, err := s.Transport.RoundTrip(r)
	if err == nil && resp.ProtoMajor == 2 {
		s.mu.Lock()
		delete(s.alone, r.URL.Host)
		s.mu.Unlock()
	}
	return resp, err
}

// sharedBody is a response's body, with which its request ends.
type sharedBody struct {
	io.ReadCloser
	sharing *sharing
	origin  *sharedOrigin
	closed  atomic.Bool
}

func (b *sharedBody) Close() error {
	err := b.ReadCloser.Close()
	if !b.closed.Swap(true) {
		b.sharing.end(b.origin)
	}
	return err
}

// begin finds the origin for a request, nil if it is known to have no HTTP/2, and what
// the request waits for. The first to a cold origin opens that instead. Callers must
// call end.
func (s *sharing) begin(host string) (o *sharedOrigin, _ *opening, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alone[host] {
		return nil, nil, false
	}
	o = s.origins[host]
	if o == nil {
		o = &sharedOrigin{host: host}
		o.transport = s.newTransport(s.dialFor(o))
		o.place = s.byUse.PushFront(o)
		s.origins[host] = o
	}
	o.asking++
	s.settle(o)
	if first = o.opening == nil; first {
		o.opening = newOpening()
	}
	return o, o.opening, first
}

// end is called when nothing of a request or its response is under way any more.
func (s *sharing) end(o *sharedOrigin) {
	s.mu.Lock()
	o.asking--
	if o.asking == 0 {
		s.byUse.MoveToFront(o.place)
	}
	s.settle(o)
	surplus := s.retireSurplus()
	s.mu.Unlock()
	for _, o := range surplus {
		o.transport.CloseIdleConnections()
	}
}

// noting opens to all what the first request to an origin waits for, as soon as it has
// a connection. It is in the pool by then.
func (s *sharing) noting(host string, opening *opening) *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if conn, isTLS := got.Conn.(*tls.Conn); isTLS && conn.ConnectionState().NegotiatedProtocol != "h2" {
			opening.alone.Store(true)
			s.mu.Lock()
			if len(s.alone) >= maxAlone {
				clear(s.alone)
			}
			s.alone[host] = true
			s.mu.Unlock()
		}
		opening.open()
	}}
}

// opened is called when the first request to an origin has been answered or has failed.
func (s *sharing) opened(o *sharedOrigin, opening *opening) {
	opening.open()
	if opening.alone.Load() {
		o.transport.CloseIdleConnections() // now, and the one in use afterwards
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.conns == 0 {
		o.opening = nil
	}
}

// dialFor has the connections of o counted.
func (s *sharing) dialFor(o *sharedOrigin) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := s.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if !s.count(o, 1) {
			conn.Close()
			return nil, net.ErrClosed // to nobody: the dial went on when its request had gone
		}
		return &sharedConn{conn, sync.OnceFunc(func() { s.count(o, -1) })}, nil
	}
}

// sharedConn says when it is closed.
type sharedConn struct {
	net.Conn
	closed func()
}

func (c *sharedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// count notes that a connection to o has been opened or closed. It reports false if
// nobody will use o.
func (s *sharing) count(o *sharedOrigin, change int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.retired {
		return false
	}
	o.conns += change
	if o.conns == 0 {
		o.opening = nil
	}
	s.settle(o)
	return true
}

// settle counts the connections of o after a change, and forgets it if it has none and
// is not being asked. The caller holds the lock.
func (s *sharing) settle(o *sharedOrigin) {
	idle := 0
	if o.asking == 0 {
		idle = o.conns
	}
	s.idle += idle - o.idle
	o.idle = idle
	if o.asking == 0 && o.conns == 0 {
		s.retire(o)
	}
}

// retire forgets an origin, which must not be being asked. The caller holds the lock.
func (s *sharing) retire(o *sharedOrigin) {
	s.idle -= o.idle
	s.byUse.Remove(o.place)
	delete(s.origins, o.host)
	o.retired = true
}

// retireSurplus retires the origins that have been idle for longest, while there are
// too many idle connections. The caller holds the lock, and must then close the
// connections without it: that may take a while.
func (s *sharing) retireSurplus() (retired []*sharedOrigin) {
	for s.idle > s.maxIdle {
		o := s.byUse.Back().Value.(*sharedOrigin)
		if o.asking > 0 {
			s.byUse.MoveToFront(o.place)
			continue
		}
		s.retire(o)
		retired = append(retired, o)
	}
	return retired
}

// CloseIdleConnections closes the connections that no request uses.
func (s *sharing) CloseIdleConnections() {
	s.Transport.CloseIdleConnections()
	var idle []*sharedOrigin
	s.mu.Lock()
	for _, o := range s.origins {
		if o.asking == 0 {
			s.retire(o)
			idle = append(idle, o)
		}
	}
	s.mu.Unlock()
	for _, o := range idle {
		o.transport.CloseIdleConnections()
	}
}
