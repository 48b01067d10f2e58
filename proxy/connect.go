package proxy

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"time"

	"robotsproxy/proxy/access"
	"robotsproxy/proxy/answer"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/forward"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/sniff"
	"robotsproxy/robots"
)

// connect serves a CONNECT request.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) {
	_, port, portErr := net.SplitHostPort(r.RequestURI)
	origin, err := robots.ParseOrigin("https://" + r.RequestURI)
	if err != nil || portErr != nil || port == "" { // RFC 9110 9.3.6: there is no default port
		s.forwarder.Answer(w, r, answer.BadRequest(http.StatusBadRequest, "CONNECT wants host:port"))
		return
	}
	t := &tunnel{door: decision.Connect, origin: presumed(origin)}
	t.user, _, _ = access.Credentials(r.Header)
	s.entering.Add(t)
	defer s.entering.Remove(t)
	defer s.endOpening(t)
	o := s.opaque(t, identity.Asker{Addr: forward.ClientAddr(r), User: t.user, Header: r.Header})
	if o != nil && s.forwarder.PassedBefore(r) {
		s.forwarder.Answer(w, r, s.forwarder.LoopDetected())
		return
	}
	if s.open(t, o, connecting{s, w, r, t}) {
		s.serveTunnel(t)
	}
}

// presumed is the origin of a tunnel in which nothing has been spoken yet.
func presumed(origin robots.Origin) robots.Origin {
	if origin.Port == "80" {
		origin.Scheme = "http"
	}
	return origin
}

// connecting is the caller that has sent a CONNECT. Until its tunnel is open, its connection
// is net/http's.
type connecting struct {
	*Server
	w      http.ResponseWriter
	r      *http.Request
	tunnel *tunnel
}

func (c connecting) waiting() (ctx context.Context, stop func()) { return c.r.Context(), func() {} }

func (c connecting) opened() bool { return c.openTunnel(c.w, c.r, c.tunnel) }

func (c connecting) refused(why *answer.Answer, _ error) bool {
	c.forwarder.Answer(c.w, c.r, *why)
	return true
}

// openTunnel takes the connection over from net/http and tells the client that its tunnel
// is open. It reports false if that failed; the client has been answered then, or has left.
func (s *Server) openTunnel(w http.ResponseWriter, r *http.Request, t *tunnel) bool {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.forwarder.Answer(w, r, answer.BadRequest(http.StatusBadRequest, "this connection cannot become a tunnel"))
		return false
	}
	early, _ := rw.Reader.Peek(rw.Reader.Buffered()) // sent together with the CONNECT
	t.Conn, t.hijacked = sniff.New(conn, bytes.Clone(early)), conn
	if outer, ok := conn.(*tunnel); ok { // a CONNECT at the transparent door
		t.hijacked = outer.hijacked
	}
	s.clients.NoteNew(t.hijacked, true)
	s.limitOpening(conn)
	if _, err := conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		conn.Close()
		return false
	}
	return true
}

// limitOpening bounds the next step before the first request in a tunnel.
func (s *Server) limitOpening(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(s.opts.Limits.HeaderTimeout))
}

// endOpening ends connect, which defers it. After a panic it closes the connection:
// net/http has given it away and would leave it open.
func (s *Server) endOpening(t *tunnel) {
	cause := recover()
	if cause == nil {
		return
	}
	s.forwarder.LogPanic(cause)
	if t.hijacked == nil {
		panic(http.ErrAbortHandler) // the connection is still net/http's
	}
	t.hijacked.Close()
}
