package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// sharing is a transport over HTTP/2 whose requests to a cold origin wait for the
// connection of the first of them. net/http would dial for each, and then need one.
// Where the origin turns out to have no HTTP/2, all go on at once.
type sharing struct {
	*http.Transport

	mu     sync.Mutex
	byHost map[string]*opening
}

func newSharing(t *http.Transport) *sharing {
	return &sharing{Transport: t, byHost: map[string]*opening{}}
}

// opening is the first connection to a host. It stays known for as long as others may
// find that connection in the pool, and where it showed that there is none to share.
type opening struct {
	ready chan struct{} // closed when nobody need wait any more
	open  func()        // closes ready

	mu     sync.Mutex
	alone  bool // the origin has no HTTP/2
	dialed bool
	closed bool
}

func newOpening() *opening {
	o := &opening{ready: make(chan struct{})}
	o.open = sync.OnceFunc(func() { close(o.ready) })
	return o
}

const (
	// maxFirstWait is how long a request waits for another's connection before it
	// dials by itself: longer than a handshake takes with an origin far away.
	maxFirstWait = 2 * time.Second
	// maxAlone bounds the hosts without HTTP/2 that are known.
	maxAlone = 1024
)

// RoundTrip implements [http.RoundTripper].
func (s *sharing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return s.Transport.RoundTrip(r)
	}
	s.mu.Lock()
	o, known := s.byHost[r.URL.Host]
	if !known {
		o = newOpening()
		s.add(r.URL.Host, o)
	}
	s.mu.Unlock()
	if !known {
		return s.first(r, o)
	}
	select {
	case <-o.ready:
	default:
		if err := o.wait(r.Context()); err != nil {
			if r.Body != nil {
				r.Body.Close()
			}
			return nil, err
		}
	}
	return s.Transport.RoundTrip(r)
}

func (o *opening) wait(ctx context.Context) error {
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

// first sends the request that o is for.
func (s *sharing) first(r *http.Request, o *opening) (*http.Response, error) {
	trace := &httptrace.ClientTrace{
		TLSHandshakeDone: func(state tls.ConnectionState, err error) {
			if err == nil && state.NegotiatedProtocol != "h2" {
				o.mu.Lock()
				o.alone = true
				o.mu.Unlock()
				o.open()
			}
		},
		// The pool has the connection by then, which it may not when the handshake is done.
		WroteHeaders: o.open,
	}
	host := r.URL.Host
	ctx := context.WithValue(r.Context(), openingKey{}, &firstDial{o, func() { s.remove(host, o) }})
	defer func() { // after a panic too, or others would wait for as long as the process lives
		o.open()
		o.mu.Lock()
		lasts := o.alone || o.dialed && !o.closed
		o.mu.Unlock()
		if !lasts {
			s.remove(host, o)
		}
	}()
	return s.Transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(ctx, trace)))
}

// add makes o known. The caller holds the lock.
func (s *sharing) add(host string, o *opening) {
	if len(s.byHost) >= maxAlone {
		for host, o := range s.byHost {
			o.mu.Lock()
			if o.alone {
				delete(s.byHost, host)
			}
			o.mu.Unlock()
		}
	}
	s.byHost[host] = o
}

func (s *sharing) remove(host string, o *opening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byHost[host] == o {
		delete(s.byHost, host)
	}
}

type openingKey struct{}

// firstDial is what a dial for the first request to a host knows.
type firstDial struct {
	*opening
	forget func()
}

// noteOpening has the opening that ctx is for, if there is one, know its connection.
func noteOpening(ctx context.Context, conn net.Conn) net.Conn {
	d, isFirst := ctx.Value(openingKey{}).(*firstDial)
	if !isFirst {
		return conn
	}
	d.mu.Lock()
	d.dialed = true
	d.mu.Unlock()
	return &firstConn{conn, d}
}

// firstConn tells its opening that it is closed.
type firstConn struct {
	net.Conn
	of *firstDial
}

func (c *firstConn) Close() error {
	c.of.mu.Lock()
	c.of.closed = true
	alone := c.of.alone
	c.of.mu.Unlock()
	if !alone {
		c.of.forget()
	}
	return c.Conn.Close()
}
