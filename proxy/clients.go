package proxy

import (
	"math"
	"net"
	"sync"
	"syscall"
	"time"
)

// clients are the connections that clients have opened. Those that are idle can be closed
// to make room for others.
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

// noteIdle notes that a connection waits for its next request from now on, or no longer.
func (c *clients) noteIdle(conn *countedConn, idle bool) {
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
