package conns

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"robotsproxy/internal/shortage"
	"robotsproxy/proxy/flow"
)

// Listener returns a listener that accepts from l and counts each connection among c until
// it is closed. Accept waits until a slot is free. Closing the listener closes l.
func (c *Clients) Listener(l net.Listener) net.Listener {
	return &listener{Listener: l, clients: c, closed: make(chan struct{})}
}

type listener struct {
	net.Listener
	clients *Clients
	closed  chan struct{}
	close   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		if shortage.OfDescriptors(err) { // net/http tries again after a while
			l.clients.descriptors.Exhausted()
		}
		return nil, err
	}
	return l.admit(accepted)
}

// admit waits for the slots of a connection.
func (l *listener) admit(accepted net.Conn) (net.Conn, error) {
	c := l.clients
	if !c.slots.Wait(l.closed) {
		accepted.Close()
		return nil, net.ErrClosed
	}
	giveBack := c.slots.Give
	if holdsDescriptor(accepted) {
		if !c.descriptors.Wait(l.closed) {
			giveBack()
			accepted.Close()
			return nil, net.ErrClosed
		}
		giveBack = func() {
			c.descriptors.Give()
			c.slots.Give()
		}
	}
	admitted := &conn{Conn: accepted}
	admitted.isNew.Store(true)
	admitted.closed = sync.OnceFunc(func() {
		c.remove(admitted)
		giveBack()
	})
	c.add(admitted)
	admitted.watchdog.Limit, admitted.watchdog.Target, admitted.watchdog.AllowSilence = 2*c.stallTimeout(), admitted, true
	admitted.watchdog.Start()
	return admitted, nil
}

// holdsDescriptor reports whether a connection is one of the system's.
func holdsDescriptor(conn net.Conn) bool {
	_, holds := conn.(syscall.Conn)
	return holds
}

func (l *listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// conn is a client's connection. It is closed when the client takes nothing of what is
// written to it. Exchanges and tunnels watch for the same, for half as long, and can say
// what became of them; this watch is for what net/http writes after them.
type conn struct {
	net.Conn
	watchdog  flow.Watchdog
	isNew     atomic.Bool  // its client has not sent its first request
	idleSince atomic.Int64 // nanoseconds since Clients.began; 0: it does not wait for a request
	closed    func()
}

func (c *conn) Write(p []byte) (int, error) {
	c.watchdog.Down.Received()
	n, err := c.Conn.Write(p)
	c.watchdog.Down.Delivered()
	return n, err
}

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.closed()
	c.watchdog.Stop()
	return err
}

// noteNew writes only what changes: it is called for every request.
func (c *conn) noteNew(isNew bool) {
	if c.isNew.Load() != isNew {
		c.isNew.Store(isNew)
	}
}

// NetConn is the connection that was accepted.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Abort makes what is being written fail; net/http then closes the connection.
func (c *conn) Abort(flow.Stall) { c.Conn.Close() }

// CloseWrite tells the client that nothing more comes. net/http does so before it
// closes a connection whose client is still sending, so that the client gets to
// read what came before.
func (c *conn) CloseWrite() error { return flow.CloseWrite(c.Conn) }
