package proxy

import (
	"context"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"robotsproxy/internal/shortage"
)

// maxReserve is how many descriptors the connections to clients and origins leave at most
// to all else: the admin server, the store, the resolver, the log.
const maxReserve = 256

// maxPlaces is how many connections to clients and origins there may be at once in a
// process that may open so many files. Of few files, half are left to all else.
func maxPlaces(files int64) int64 { return files - min(files/2, maxReserve) }

// newDescriptors bounds the connections by the limit on open files, if there is one.
func newDescriptors() *places {
	return &places{max: maxPlaces(shortage.Descriptors())}
}

// places are for connections, of which only so many may be open at once. Whoever takes
// one leaves it. When there is none, the connections that wait for their next request
// give way. The zero value has no bound.
type places struct {
	max      int64    // 0: no bound
	makeRoom []func() // each closes connections that are idle; the next is tried if that was not enough
	reached  func(max int64, first bool)

	taken atomic.Int64
	full  atomic.Bool // max has been reached, and half of it not been free since

	mu      sync.Mutex
	waited  atomic.Bool   // there is changed
	changed chan struct{} // closed when there may be room; nil: nobody waits
}

// take takes a place and reports whether there was one.
func (p *places) take() bool {
	if p.takeFree() {
		return true
	}
	p.isFull()
	return p.takeIdle()
}

// wait takes a place as soon as there is one. It reports false if ended was closed before.
func (p *places) wait(ended <-chan struct{}) bool {
	if p.take() {
		return true
	}
	for {
		changed := p.change()
		if p.takeFree() || p.takeIdle() {
			return true
		}
		select {
		case <-changed:
		case <-ended:
			return false
		}
	}
}

func (p *places) takeFree() bool {
	for {
		n := p.taken.Load()
		if p.max > 0 && n >= p.max {
			return false
		}
		if p.taken.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// takeIdle takes a place of a connection that is idle.
func (p *places) takeIdle() bool {
	for _, makeRoom := range p.makeRoom {
		if makeRoom(); p.takeFree() {
			return true
		}
	}
	return false
}

// exhausted is called when the system has no room in spite of a place: all that are idle
// give way.
func (p *places) exhausted() {
	p.isFull()
	for _, makeRoom := range p.makeRoom {
		makeRoom()
	}
}

// isFull tells that there is no place.
func (p *places) isFull() {
	first := p.full.CompareAndSwap(false, true)
	if p.reached != nil {
		p.reached(p.max, first)
	}
}

// leave gives a place back.
func (p *places) leave() {
	if p.taken.Add(-1) <= p.max/2 && p.full.Load() {
		p.full.Store(false)
	}
	p.mayHaveRoom()
}

// mayHaveRoom has those who wait look again.
func (p *places) mayHaveRoom() {
	if !p.waited.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
		p.waited.Store(false)
	}
}

// change is closed when there may be room. Callers must look for room again before they
// wait for it.
func (p *places) change() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
		p.waited.Store(true)
	}
	return p.changed
}

// clients are the connections that clients have opened.
type clients struct {
	began time.Time

	mu   sync.Mutex
	open map[*countedConn]struct{}
}

func newClients() *clients {
	return &clients{began: time.Now(), open: map[*countedConn]struct{}{}}
}

func (c *clients) add(conn *countedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = struct{}{}
}

func (c *clients) remove(conn *countedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
}

// idles notes that a connection waits for its next request from now on, or no longer.
func (c *clients) idles(conn *countedConn, idle bool) {
	since := int64(0)
	if idle {
		since = max(int64(time.Since(c.began)), 1)
	}
	conn.idleSince.Store(since)
}

// closeIdlest closes the connection that has waited longest for its next request, if
// any waits.
func (c *clients) closeIdlest() {
	for {
		conn, since := c.idlest()
		if conn == nil {
			return
		}
		if conn.idleSince.CompareAndSwap(since, 0) { // else a request has come meanwhile
			conn.Close()
			return
		}
	}
}

func (c *clients) idlest() (idlest *countedConn, since int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since = math.MaxInt64
	for conn := range c.open {
		if s := conn.idleSince.Load(); s > 0 && s < since {
			idlest, since = conn, s
		}
	}
	return idlest, since
}

// holdsDescriptor reports whether a connection is one of the system's.
func holdsDescriptor(conn net.Conn) bool {
	_, holds := conn.(syscall.Conn)
	return holds
}

// dialer dials origins. Each connection has a place among the descriptors.
type dialer struct {
	net.Dialer
	descriptors *places
}

// DialContext fails with [shortage.ErrConnections] when there is no place.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !d.descriptors.take() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: shortage.ErrConnections}
	}
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		if d.descriptors.leave(); shortage.OfDescriptors(err) {
			d.descriptors.exhausted()
		}
		return nil, err
	}
	return &dialed{conn.(*net.TCPConn), sync.OnceFunc(d.descriptors.leave)}, nil
}

// dialed is a connection that leaves its place when it is closed.
type dialed struct {
	*net.TCPConn
	leave func()
}

func (c *dialed) Close() error {
	err := c.TCPConn.Close()
	c.leave()
	return err
}
