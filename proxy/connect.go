package proxy

import (
	"bytes"
	"net"
	"net/http"
	"time"

	"robotsproxy/proxy/answer"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/sniff"
	"robotsproxy/proxy/users"
	"robotsproxy/robots"
)

// connect opens a tunnel for a CONNECT request. A tunnel that need not be read is passed
// opaquely; any other is served as [Server.serveTunnel] does.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) {
	_, port, portErr := net.SplitHostPort(r.RequestURI)
	origin, err := robots.ParseOrigin("https://" + r.RequestURI)
	if err != nil || portErr != nil || port == "" { // RFC 9110 9.3.6: there is no default port
		s.forwarder.Answer(w, r, answer.BadRequest(http.StatusBadRequest, "CONNECT wants host:port"))
		return
	}
	t := &tunnel{door: gate.Connect, origin: origin}
	t.user, _, _ = users.Credentials(r.Header)
	defer s.endOpening(t)
	if s.passOpaque(w, r, t) {
		return
	}
	if t.hijacked != nil || s.openTunnel(w, r, t) {
		s.serveTunnel(t)
	}
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
	s.opening.Add(t.hijacked)
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
	if t.hijacked != nil {
		s.opening.Remove(t.hijacked)
	}
	if cause == nil {
		return
	}
	s.forwarder.LogPanic(cause)
	if t.hijacked == nil {
		panic(http.ErrAbortHandler) // the connection is still net/http's
	}
	t.hijacked.Close()
}
