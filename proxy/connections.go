package proxy

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"robotsproxy/internal/shortage"
	"robotsproxy/internal/slots"
	"robotsproxy/proxy/flow"
)

// countingListener counts the connections that are open. Each has a slot among all
// clients' and one among the descriptors; the next waits for its slots.
type countingListener struct {
	net.Listener
	stall       func() time.Duration // see Limits.StallTimeout
	open        prometheus.Gauge
	clients     *clients
	slots       *slots.Slots
	descriptors *slots.Slots
	closed      chan struct{}
	close       sync.Once
}

func newCountingListener(l net.Listener, s *Server) *countingListener {
	return &countingListener{
		Listener: l, stall: s.stallLimit, open: s.connections, clients: s.clients, slots: s.slots, descriptors: s.transport.Descriptors(),
		closed: make(chan struct{}),
	}
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		if shortage.OfDescriptors(err) { // net/http tries again after a while
			l.descriptors.Exhausted()
		}
		return nil, err
	}
	return l.admit(conn)
}

// admit waits for the slots of a connection.
func (l *countingListener) admit(conn net.Conn) (net.Conn, error) {
	if !l.slots.Wait(l.closed) {
		conn.Close()
		return nil, net.ErrClosed
	}
	leave := l.slots.Give
	if holdsDescriptor(conn) {
		if !l.descriptors.Wait(l.closed) {
			leave()
			conn.Close()
			return nil, net.ErrClosed
		}
		leave = func() {
			l.descriptors.Give()
			l.slots.Give()
		}
	}
	counted := &countedConn{Conn: conn}
	counted.closed = sync.OnceFunc(func() {
		l.open.Dec()
		l.clients.remove(counted)
		leave()
	})
	l.open.Inc()
	l.clients.add(counted)
	counted.watchdog.Limit, counted.watchdog.Target, counted.watchdog.AllowSilence = 2*l.stall(), counted, true
	counted.watchdog.Start()
	return counted, nil
}

func (l *countingListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// countedConn is a client's connection. It is closed when the client has taken nothing for
// long of what is written to it. What is under way in an exchange or a tunnel is watched
// there too, for half as long, so that it can be said what became of it; what net/http
// writes after it is not.
type countedConn struct {
	net.Conn
	watchdog  flow.Watchdog
	idleSince atomic.Int64 // by the clock of clients; 0: it does not wait for a request
	closed    func()
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.watchdog.Down.Received()
	n, err := c.Conn.Write(p)
	c.watchdog.Down.Delivered()
	return n, err
}

func (c *countedConn) Close() error {
	err := c.Conn.Close()
	c.closed()
	c.watchdog.Stop()
	return err
}

// Abort makes what is being written fail; net/http closes then.
func (c *countedConn) Abort(flow.Stall) { c.Conn.Close() }

// CloseWrite tells the client that nothing more comes. net/http does so before it
// closes a connection whose client is still sending, so that the client gets to
// read what came before.
func (c *countedConn) CloseWrite() error { return flow.CloseWrite(c.Conn) }

// connections are those that no http.Server looks after any more. The zero
// value holds none.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
	idle chan struct{} // closed when the last has gone, if somebody waits
}

func (c *connections) add(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[net.Conn]struct{}{}
	}
	c.open[conn] = struct{}{}
}

func (c *connections) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
	if len(c.open) == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// drained is closed when no connection is left.
func (c *connections) drained() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) == 0 {
		done := make(chan struct{})
		close(done)
		return done
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	return c.idle
}

// closeAll breaks every connection that is left.
func (c *connections) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		conn.Close()
	}
}
