// Package coalesce sends what is written to a connection in quick succession in one
// piece.
package coalesce

import (
	"net"
	"runtime"
	"sync"
	"time"
)

// Conn is a connection that sends in one piece what is written in quick succession.
// HTTP/2 needs it: net/http writes the header and the body of a response one after the
// other, and each of many requests that share a connection by itself. Most of what a
// small message costs is the system call.
//
// Write returns before its octets are sent, so its error may be about an earlier Write.
// A Conn is safe for concurrent use.
type Conn struct {
	net.Conn

	mu      sync.Mutex
	changed sync.Cond
	waiting *[32 << 10]byte // nil: nothing waits
	filled  int             // octets of waiting
	sending bool            // send is running; it ends when nothing waits
	err     error           // why nothing can be sent any more
}

// New returns a connection that sends by conn, which it closes with its own Close.
func New(conn net.Conn) *Conn {
	g := &Conn{Conn: conn}
	g.changed.L = &g.mu
	return g
}

// Write waits only while there is too much to be sent already.
func (g *Conn) Write(p []byte) (n int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n < len(p) {
		for g.err == nil && g.filled == len(g.waiting) {
			g.changed.Wait()
		}
		if g.err != nil {
			return n, g.err
		}
		if g.waiting == nil {
			g.waiting = buffers.Get().(*[32 << 10]byte)
		}
		more := copy(g.waiting[g.filled:], p[n:])
		n += more
		g.filled += more
		if !g.sending {
			g.sending = true
			go g.send()
		}
	}
	return n, nil
}

// send sends what waits, and what comes meanwhile.
func (g *Conn) send() {
	runtime.Gosched() // who is about to write may do so first
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.waiting != nil && g.err == nil {
		piece, filled := g.waiting, g.filled
		g.waiting, g.filled = nil, 0
		g.changed.Broadcast()
		g.mu.Unlock()
		_, err := g.Conn.Write(piece[:filled])
		buffers.Put(piece)
		g.mu.Lock()
		g.err = err
	}
	g.sending = false
	g.changed.Broadcast()
}

// SetWriteDeadline bounds the sending of what has been written before, too. Where the
// time is up already, that is sent first, as long as the deadline of then allows:
// crypto/tls sets such a one right after its last alert.
func (g *Conn) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() && !t.After(time.Now()) {
		g.wait()
	}
	return g.Conn.SetWriteDeadline(t)
}

// wait waits until all that has been written is sent, or nothing can be.
func (g *Conn) wait() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.sending {
		g.changed.Wait()
	}
}

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (g *Conn) SetDeadline(t time.Time) error {
	if err := g.SetReadDeadline(t); err != nil {
		return err
	}
	return g.SetWriteDeadline(t)
}

// closeGrace is how long the system may take at the end for what has been written. It
// is for what has room there: a peer that does not read is not waited for.
const closeGrace = 100 * time.Millisecond

// Close sends what the system takes at once and breaks off the rest. crypto/tls closes
// right after the alert that says why a handshake fails.
func (g *Conn) Close() error {
	g.Conn.SetWriteDeadline(time.Now().Add(closeGrace))
	g.wait()
	return g.Conn.Close()
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}
