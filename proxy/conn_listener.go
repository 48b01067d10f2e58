package proxy

import (
	"net"
	"sync"
)

// connListener is a listener whose connections come from within: it leads tunnels
// from the outer server to the inner one.
type connListener struct {
	conns chan net.Conn
	close sync.Once
	done  chan struct{}
}

func newConnListener() *connListener {
	return &connListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// deliver gives a connection to whoever accepts. Once the listener is closed, it
// closes the connection instead.
func (h *connListener) deliver(conn net.Conn) {
	select {
	case h.conns <- conn:
	case <-h.done:
		conn.Close()
	}
}

func (h *connListener) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close ends a waiting Accept and deliver.
func (h *connListener) Close() error {
	h.close.Do(func() { close(h.done) })
	return nil
}

func (h *connListener) Addr() net.Addr { return insideAddr{} }

type insideAddr struct{}

func (insideAddr) Network() string { return "tunnel" }
func (insideAddr) String() string  { return "inside" }
