package proxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"robotsproxy/internal/coalesce"
	"robotsproxy/internal/loopback"
	"robotsproxy/internal/shortage"
	"robotsproxy/proxy/conns"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/distrust"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/sniff"
	"robotsproxy/robots"
)

// tunnel is a client's connection in which everything is for one origin. Only plain HTTP at
// the transparent door is for whatever origins its requests name.
type tunnel struct {
	sniff.Conn
	hijacked  net.Conn      // the connection as it was accepted, without any layer
	door      decision.Door // by which it came: Connect, SOCKS or Transparent
	origin    robots.Origin // where it leads; its scheme is that of what is spoken inside
	authority string        // of origin, once the tunnel is handed to a server
	user      string        // who opened it, as the client says by Proxy-Authorization or SOCKS
	handshake distrust.Handshake

	refused   func() error // what [access.Options.Connections] says of it; nil if that is nil, or was asked before
	listening net.Addr     // where it was accepted; nil but at the transparent door
	encrypted bool         // its TLS may name another server, encrypted; known at the transparent door alone
}

// LocalAddr is an address of this proxy, also where a client believes that it speaks to
// somebody else.
func (t *tunnel) LocalAddr() net.Addr {
	if t.listening != nil {
		return t.listening
	}
	return t.Conn.LocalAddr()
}

// client is the address of the client.
func (t *tunnel) client() netip.Addr { return addrPort(t.RemoteAddr()).Addr().Unmap() }

// asker is who has opened the tunnel, as far as is known without a request.
func (t *tunnel) asker() identity.Asker { return identity.Asker{Addr: t.client(), User: t.user} }

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
	t.authority = t.origin.Authority()
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

// acceptTunnels calls serve for each connection from l, in a goroutine of its own, until
// Shutdown is called. It closes l. It returns nil after Shutdown, else the error that ended it.
func (s *Server) acceptTunnels(l net.Listener, door decision.Door, serve func(*tunnel)) error {
	s.serveFeeds()
	var serving sync.WaitGroup
	defer serving.Wait()
	s.accepting.RLock()
	defer s.accepting.RUnlock()
	accepting := s.clients.Listener(l)
	defer context.AfterFunc(s.stopping, func() { accepting.Close() })()
	defer accepting.Close()
	for {
		conn, err := accepting.Accept()
		switch {
		case err == nil:
			t := &tunnel{Conn: sniff.New(conn, nil), hijacked: conn, door: door, refused: s.refusalOf(conn)}
			s.entering.Add(t)
			s.beginOpening(t)
			serving.Go(func() { s.serveAccepted(t, serve) })
		case s.stopping.Err() != nil:
			return nil
		case shortage.OfDescriptors(err):
			s.log.Error().Err(err).Str("door", string(door)).Msg("no connection can be accepted for a moment")
			select {
			case <-time.After(acceptPause):
			case <-s.stopping.Done():
			}
		default:
			return fmt.Errorf("accepting at the %s door: %w", door, err)
		}
	}
}

// acceptPause is how long no connection is accepted when there is no descriptor for one.
const acceptPause = 100 * time.Millisecond

// beginOpening bounds how long a connection may take to its first request, and has Shutdown
// close it if there is none.
func (s *Server) beginOpening(t *tunnel) {
	s.clients.NoteNew(t.hijacked, true)
	s.limitOpening(t)
}

// serveAccepted serves a connection up to its first request, or for as long as it is not
// read.
func (s *Server) serveAccepted(t *tunnel, serve func(*tunnel)) {
	defer s.recoverTunnel(func() { t.Close() })
	defer s.entering.Remove(t)
	defer s.hijacked.Remove(t)
	serve(t)
}

// keep has Shutdown wait for a tunnel until serveAccepted returns, instead of closing it.
func (s *Server) keep(t *tunnel) {
	s.hijacked.Add(t)
	s.clients.NoteNew(t.hijacked, false)
}

// alert tells a client that its TLS is refused, and that nothing more comes.
func (t *tunnel) alert() {
	t.Write(unrecognizedName)
	t.CloseWrite()
}

// unrecognizedName is the alert (RFC 6066 3) to a client whose TLS is refused.
var unrecognizedName = []byte{0x15, 3, 3, 0, 2, 2, 112}

// turnsAway reports whether the client of a connection may not use the proxy.
func (s *Server) turnsAway(t *tunnel) bool {
	settings := s.settings.Load()
	return !settings.clients.Admits(addrPort(t.RemoteAddr()).Addr()) || settings.clients.Connections != nil && t.refused != nil && t.refused() != nil
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
