package proxy

import (
	"net"
	"sync"
)

// handoff is a listener whose connections come from within: it leads tunnels
// from the outer server to the inner one.
type handoff struct {
	conns chan net.Conn
	close sync.Once
	done  chan struct{}
}

func newHandoff() *handoff {
	return &handoff{conns: make(chan net.Conn), done: make(chan struct{})}
}

// hand gives a connection to whoever accepts. Once the listener is closed, it
// closes the connection instead.
func (h *handoff) hand(conn net.Conn) {
	select {
	case h.conns <- conn:
	case <-h.done:
		conn.Close()
	}
}

func (h *handoff) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close ends a waiting Accept and hand.
func (h *handoff) Close() error {
	h.close.Do(func() { close(h.done) })
	return nil
}

func (h *handoff) Addr() net.Addr { return insideAddr{} }

type insideAddr struct{}

func (insideAddr) Network() string { return "tunnel" }
func (insideAddr) String() string  { return "inside" }
