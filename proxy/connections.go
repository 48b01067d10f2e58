package proxy

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// countingListener counts the connections that are open, and bounds them.
type countingListener struct {
	net.Listener
	stall  func() time.Duration // see Limits.StallTimeout
	open   prometheus.Gauge
	places chan struct{} // nil: there is no bound
	closed chan struct{}
	close  sync.Once
}

// newCountingListener bounds the open connections to max; 0 is no bound.
func newCountingListener(l net.Listener, open prometheus.Gauge, max int, stall func() time.Duration) *countingListener {
	c := &countingListener{Listener: l, stall: stall, open: open, closed: make(chan struct{})}
	if max > 0 {
		c.places = make(chan struct{}, max)
	}
	return c
}

func (l *countingListener) Accept() (net.Conn, error) {
	if l.places != nil {
		select {
		case l.places <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		l.leave()
		return nil, err
	}
	l.open.Inc()
	counted := &countedConn{Conn: conn, closed: sync.OnceFunc(func() {
		l.open.Dec()
		l.leave()
	})}
	counted.watch.mayIdle = true
	counted.watch.start(2*l.stall(), counted)
	return counted, nil
}

func (l *countingListener) leave() {
	if l.places != nil {
		<-l.places
	}
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
	watch  watch
	closed func()
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.watch.down.comes()
	n, err := c.Conn.Write(p)
	c.watch.down.taken()
	return n, err
}

func (c *countedConn) Close() error {
	c.closed()
	c.watch.stop()
	return c.Conn.Close()
}

// breakOff makes what is being written fail; net/http closes then.
func (c *countedConn) breakOff(stall) { c.Conn.Close() }

// CloseWrite tells the client that nothing more comes. net/http does so before it
// closes a connection whose client is still sending, so that the client gets to
// read what came before.
func (c *countedConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(conn net.Conn) error {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}

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
