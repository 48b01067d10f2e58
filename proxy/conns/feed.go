package conns

import (
	"net"
	"sync"
)

// Feed is a listener that accepts the connections that [Feed.Deliver] is called with.
type Feed struct {
	conns chan net.Conn
	close sync.Once
	done  chan struct{}
}

// NewFeed returns an open Feed.
func NewFeed() *Feed {
	return &Feed{conns: make(chan net.Conn), done: make(chan struct{})}
}

// Deliver waits until somebody accepts the connection. If the Feed is closed, it closes
// the connection instead.
func (f *Feed) Deliver(conn net.Conn) {
	select {
	case f.conns <- conn:
	case <-f.done:
		conn.Close()
	}
}

// Accept waits for the next connection. It returns [net.ErrClosed] after Close.
func (f *Feed) Accept() (net.Conn, error) {
	select {
	case conn := <-f.conns:
		return conn, nil
	case <-f.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Deliver where they wait.
func (f *Feed) Close() error {
	f.close.Do(func() { close(f.done) })
	return nil
}

// Addr is no address that can be dialled.
func (f *Feed) Addr() net.Addr { return feedAddr{} }

type feedAddr struct{}

func (feedAddr) Network() string { return "tunnel" }
func (feedAddr) String() string  { return "inside" }
