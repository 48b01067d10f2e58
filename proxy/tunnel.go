package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"robotsproxy/internal/coalesce"
	"robotsproxy/internal/loopback"
	"robotsproxy/proxy/conns"
	"robotsproxy/proxy/distrust"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/sniff"
	"robotsproxy/robots"
)

// tunnel is a client's connection in which everything is for one origin. Only plain HTTP at
// the transparent door is for whatever origins its requests name.
type tunnel struct {
	sniff.Conn
	hijacked  net.Conn      // the connection as it was accepted, without any layer
	door      gate.Door     // by which it came: Connect or Transparent
	origin    robots.Origin // where it leads; its scheme is that of what is spoken inside
	user      string        // who sent the CONNECT, by its Proxy-Authorization
	handshake distrust.Handshake

	// Of the transparent door alone.
	listening net.Addr     // where the connection was accepted
	refused   func() error // what [Clients.Connections] says of it; nil if that is nil
}

// LocalAddr is an address of this proxy, also where a client believes that it speaks to
// somebody else.
func (t *tunnel) LocalAddr() net.Addr {
	if t.listening != nil {
		return t.listening
	}
	return t.Conn.LocalAddr()
}

// serveTunnel looks at the first octets in a tunnel. It ends TLS, and hands the requests
// inside to the inner server.
func (s *Server) serveTunnel(t *tunnel) {
	switch protocol, err := t.Protocol(); {
	case protocol == sniff.TLS:
		t.origin.Scheme = "https"
		s.intercept(t)
	case protocol == sniff.HTTP:
		t.origin.Scheme = "http"
		s.enter(t, t, s.inside)
	case err != nil: // the client has left, or says nothing
		t.Close()
	default:
		s.log.Info().Stringer("client", t.RemoteAddr()).Str("host", t.origin.Authority()).
			Msg("tunnel closed: the client speaks neither TLS nor HTTP in it")
		t.Close()
	}
}

// enter hands a tunnel to the server of a feed, which sets deadlines of its own. conn is the
// tunnel, or the TLS in it.
func (s *Server) enter(t *tunnel, conn net.Conn, feed *conns.Feed) {
	t.SetDeadline(time.Time{})
	feed.Deliver(conn)
}

// noteTunnelState is the ConnState of the inner server and of byHost.
func (s *Server) noteTunnelState(conn net.Conn, state http.ConnState) {
	t := tunnelOf(conn)
	if c, coalesced := t.Conn.Conn.(*coalesce.Conn); coalesced && state == http.StateClosed {
		s.coalesced.Remove(c.Conn)
	}
	s.clients.NoteState(t.hijacked, state)
	t.handshake.NoteState(state)
}

type tunnelKey struct{}

// withTunnel is the ConnContext of the inner server and of byHost: a request's context holds the tunnel that
// it came by.
func withTunnel(ctx context.Context, conn net.Conn) context.Context {
	t := tunnelOf(conn)
	if t.refused != nil {
		ctx = context.WithValue(ctx, refusedKey{}, t.refused)
	}
	return context.WithValue(loopback.WithPeer(ctx, conn), tunnelKey{}, t)
}

// tunnelOf is the tunnel that a connection of these servers is in.
func tunnelOf(conn net.Conn) *tunnel {
	if c, ok := conn.(*tls.Conn); ok {
		conn = c.NetConn()
	}
	return conn.(*tunnel)
}
