package proxy_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hourglass is a listener on whose connections no deadline passes by itself, but all do when the
// test says so. So a test of a deadline does not depend on how fast the machine is.
type hourglass struct {
	net.Listener
	read atomic.Int64 // octets, on all connections

	mu    sync.Mutex
	conns []*hourglassConn
}

// over makes it the listener over l.
func (h *hourglass) over(l net.Listener) net.Listener {
	h.Listener = l
	return h
}

func (h *hourglass) Accept() (net.Conn, error) {
	conn, err := h.Listener.Accept()
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = append(h.conns, &hourglassConn{Conn: conn, glass: h})
	return h.conns[len(h.conns)-1], nil
}

// runOut has the deadlines pass of all connections that there are, once the proxy has read so many
// more octets than before.
func (h *hourglass) runOut(t *testing.T, before int64, more int) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); h.read.Load() < before+int64(more); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the proxy has read %d octets, not %d", h.read.Load()-before, more)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, conn := range h.conns {
		conn.runOut()
	}
	h.conns = nil
}

type hourglassConn struct {
	net.Conn
	glass *hourglass

	mu      sync.Mutex
	ranOut  bool
	waiting bool // it has a deadline
}

func (c *hourglassConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.glass.read.Add(int64(n))
	return n, err
}

func (c *hourglassConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *hourglassConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = !t.IsZero()
	if c.waiting && (c.ranOut || time.Until(t) < 0) {
		return c.Conn.SetReadDeadline(time.Unix(1, 0))
	}
	return c.Conn.SetReadDeadline(time.Time{})
}

func (c *hourglassConn) runOut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ranOut = true
	if c.waiting {
		c.Conn.SetReadDeadline(time.Unix(1, 0))
	}
}
