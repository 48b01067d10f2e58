package main

import (
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// A mood is how a whole origin is for a while.
type mood string

const (
	well     mood = "well"
	burst    mood = "5xx burst" // every response is 503, that for robots.txt too
	down     mood = "down"      // connections are reset
	wrongTLS mood = "wrong TLS" // new connections see a certificate for another host
)

// A span of time in which an origin was, or is, in a mood other than well. It has not ended
// while until is zero.
type span struct {
	mood        mood
	from, until time.Time
}

func (o *origin) is(m mood) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mood == m
}

// turn puts the origin in a mood.
func (o *origin) turn(m mood) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mood != well {
		o.spans[len(o.spans)-1].until = now
	}
	if o.mood = m; m != well {
		o.spans = append(o.spans, span{mood: m, from: now})
	}
	if m == down {
		for conn := range o.conns {
			breakOff(conn)
		}
	}
}

// moodyListener resets connections while its origin is down.
type moodyListener struct {
	net.Listener
	origin *origin
}

func (l moodyListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if moody := l.origin.take(conn); moody != nil {
			return moody, nil
		}
	}
}

func (o *origin) take(conn net.Conn) net.Conn {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mood == down {
		breakOff(conn)
		return nil
	}
	moody := &moodyConn{conn, o}
	o.conns[moody] = true
	return moody
}

// moodyConn is a connection that its origin knows of.
type moodyConn struct {
	net.Conn
	origin *origin
}

func (c *moodyConn) Close() error {
	c.origin.mu.Lock()
	delete(c.origin.conns, c)
	c.origin.mu.Unlock()
	err := c.Conn.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// breakOff closes a connection by a reset.
func breakOff(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if moody, ok := conn.(*moodyConn); ok {
		conn = moody.Conn
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}
