package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"robotsproxy/internal/coalesce"
	"robotsproxy/internal/hostname"
	"robotsproxy/internal/loopback"
	"robotsproxy/proxy/answer"
	"robotsproxy/proxy/flow"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/users"
	"robotsproxy/robots"
)

// tunnel is a client's connection after CONNECT.
type tunnel struct {
	net.Conn
	early  []byte        // what has been received and not yet read
	taken  net.Conn      // as net/http gave it away; Conn may be a layer on it
	origin robots.Origin // what CONNECT named, by the scheme that is spoken inside
	user   string        // whom the CONNECT came from, by its Proxy-Authorization
	trust  trust
}

// Read begins with what the client sent together with the CONNECT, and with what
// peek has received.
func (t *tunnel) Read(p []byte) (int, error) {
	if len(t.early) > 0 {
		n := copy(p, t.early)
		if t.early = t.early[n:]; len(t.early) == 0 {
			t.early = nil // a tunnel may be idle for long
		}
		return n, nil
	}
	return t.Conn.Read(p)
}

// pieceOfTLS is about as long as a ClientHello.
const pieceOfTLS = 2 << 10

// peek returns the first n octets, or more, without consuming them. It waits for as
// long as the connection's deadline allows; an error says that they did not come.
func (t *tunnel) peek(n int) ([]byte, error) {
	for len(t.early) < n {
		t.early = slices.Grow(t.early, pieceOfTLS)
		received, err := t.Conn.Read(t.early[len(t.early):cap(t.early)])
		t.early = t.early[:len(t.early)+received]
		if err != nil && len(t.early) < n {
			return nil, err
		}
	}
	return t.early, nil
}

// CloseWrite tells the client that nothing more comes.
func (t *tunnel) CloseWrite() error { return flow.CloseWrite(t.Conn) }

// connect opens a tunnel. goproxy has no part in it: it would lose a ClientHello
// that comes in one packet with the CONNECT.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) {
	_, port, portErr := net.SplitHostPort(r.RequestURI)
	origin, err := robots.ParseOrigin("https://" + r.RequestURI)
	if err != nil || portErr != nil || port == "" { // RFC 9110 9.3.6: there is no default port
		s.answer(w, r, answer.BadRequest(http.StatusBadRequest, "CONNECT wants host:port"))
		return
	}
	t := &tunnel{origin: origin}
	t.user, _, _ = users.Credentials(r.Header)
	defer s.endOpening(t)
	if s.passOpaque(w, r, t) {
		return
	}
	if t.taken != nil || s.openTunnel(w, r, t) {
		s.read(t)
	}
}

// openTunnel takes the connection over from net/http, and tells the client that its tunnel is
// there. It reports false if that failed; the client has been answered then, or has left.
func (s *Server) openTunnel(w http.ResponseWriter, r *http.Request, t *tunnel) bool {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.answer(w, r, answer.BadRequest(http.StatusBadRequest, "this connection cannot become a tunnel"))
		return false
	}
	early, _ := rw.Reader.Peek(rw.Reader.Buffered())
	t.Conn, t.taken, t.early = conn, conn, bytes.Clone(early)
	s.opening.Add(conn)
	s.limit(conn)
	if err := established(conn); err != nil {
		conn.Close()
		return false
	}
	return true
}

// endOpening ends what connect does. It is deferred. net/http, which has given the
// connection away, would leave it open after a panic.
func (s *Server) endOpening(t *tunnel) {
	cause := recover()
	if t.taken != nil {
		s.opening.Remove(t.taken)
	}
	if cause == nil {
		return
	}
	s.panicked(cause)
	if t.taken == nil {
		panic(http.ErrAbortHandler) // the connection is still net/http's
	}
	t.taken.Close()
}

// read hands a tunnel to the inner server.
func (s *Server) read(t *tunnel) {
	switch spoken, err := speaks(t); {
	case spoken == protocolTLS:
		t.origin.Scheme = "https"
		s.intercept(t)
	case spoken == protocolHTTP:
		t.origin.Scheme = "http"
		s.enter(t, t)
	case err != nil: // the client has left, or says nothing
		t.Close()
	default:
		s.log.Info().Stringer("client", t.RemoteAddr()).Str("host", t.origin.Authority()).
			Msg("tunnel closed: the client speaks neither TLS nor HTTP in it")
		t.Close()
	}
}

// established tells a client that its tunnel is there.
func established(conn net.Conn) error {
	_, err := conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n"))
	return err
}

// limit bounds the step that comes next before the first request in a tunnel.
func (s *Server) limit(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(s.opts.Limits.HeaderTimeout))
}

// intercept ends the client's TLS with a certificate of the local CA.
func (s *Server) intercept(t *tunnel) {
	s.limit(t)
	conn := tls.Server(t, s.tls)
	// Not by the request's context: net/http cancels it when the client leaves, and
	// why it does would be lost.
	if err := conn.Handshake(); err != nil {
		s.distrust.brokenOff(t, err)
		conn.Close()
		return
	}
	t.trust.shaken = time.Now()
	if conn.ConnectionState().NegotiatedProtocol == "h2" {
		s.coalesced.Add(t.Conn)
		t.Conn = coalesce.New(t.Conn)
	}
	s.enter(t, conn)
}

// newTLS is what is spoken with clients in all tunnels, which share its session
// tickets.
//
// ML-KEM keeps what is recorded today from who can break X25519 some day, but nothing
// records what stays on the machine, and it takes a fifth of all that a new tunnel
// does. So those who connect from here are spared it, unless they know nothing else.
func (s *Server) newTLS() *tls.Config {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1", "http/1.0"},
		GetCertificate: s.leaf,
	}
	local := config.Clone()
	local.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		addr, isTCP := hello.Conn.RemoteAddr().(*net.TCPAddr)
		if isTCP && addr.IP.IsLoopback() && slices.Contains(hello.SupportedCurves, tls.X25519) {
			return local, nil
		}
		return nil, nil // as the others
	}
	return config
}

// enter hands a tunnel to the inner server, which sets deadlines of its own.
func (s *Server) enter(t *tunnel, conn net.Conn) {
	t.SetDeadline(time.Time{})
	s.inside.Deliver(conn)
}

// watchTunnel is the inner server's ConnState.
func (s *Server) watchTunnel(conn net.Conn, state http.ConnState) {
	t := tunnelOf(conn)
	if g, gathers := t.Conn.(*coalesce.Conn); gathers && state == http.StateClosed {
		s.coalesced.Remove(g.Conn)
	}
	s.clients.NoteState(t.taken, state)
	s.watchTrust(t, state)
}

// leaf chooses the certificate: by the name that the client's TLS asks for,
// else by the host that its CONNECT named.
func (s *Server) leaf(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	t := hello.Conn.(*tunnel)
	t.trust.shown = true
	if hello.ServerName == "" {
		return s.ca.Leaf(t.origin.Host)
	}
	host, err := hostname.Normal(hello.ServerName)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return s.ca.Leaf(host)
}

// serveInner takes the requests that come in tunnels. From here on they look
// like those of any door.
func (s *Server) serveInner(w http.ResponseWriter, r *http.Request) {
	t := r.Context().Value(tunnelKey{}).(*tunnel)
	switch {
	case r.Method == http.MethodConnect:
		s.answer(w, r, answer.BadRequest(http.StatusBadRequest, "CONNECT inside a tunnel"))
		return
	case !httpguts.ValidHeaderFieldName(r.Method): // HTTP/2 lets any text be one
		s.answer(w, r, answer.BadRequest(http.StatusBadRequest, "the method is no token"))
		return
	case r.RequestURI == "*":
		s.asterisk(w, r)
		return
	}
	target, named, err := t.target(r)
	switch {
	case err != nil:
		s.answer(w, r, answer.BadRequest(http.StatusBadRequest, err.Error()))
	case named != t.origin:
		s.answer(w, r, answer.BadRequest(http.StatusMisdirectedRequest, "the request is for "+named.String()+", the tunnel leads to "+t.origin.String()))
	default:
		s.forward(w, r, target)
	}
}

// target is what a request in the tunnel asks for. Beside it is the first origin
// that the request names and that is not the tunnel's; the tunnel's if there is none.
func (t *tunnel) target(r *http.Request) (target robots.Target, named robots.Origin, err error) {
	rawURL := r.RequestURI
	if !r.URL.IsAbs() {
		rawURL = t.origin.String() + r.RequestURI
	}
	if target, err = robots.ParseTarget(rawURL); err != nil {
		return target, named, err
	}
	named = target.Origin
	// HTTP/1.0 may have no Host; HTTP/2 may have one besides :authority.
	for _, host := range slices.Concat(r.Header["Host"], []string{r.Host}) {
		if host == "" || named != t.origin || r.ProtoMajor == 1 && r.URL.IsAbs() {
			continue
		}
		if named, err = robots.ParseOrigin(t.origin.Scheme + "://" + host); err != nil {
			break
		}
	}
	return target, named, err
}

type tunnelKey struct{}

// withTunnel lets a request know the tunnel that it came by.
func withTunnel(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(loopback.WithPeer(ctx, conn), tunnelKey{}, tunnelOf(conn))
}

func tunnelOf(conn net.Conn) *tunnel {
	if c, ok := conn.(*tls.Conn); ok {
		conn = c.NetConn()
	}
	return conn.(*tunnel)
}

// askerOf is what is known of who sent a request. In a tunnel, it is the CONNECT
// that says who its user is.
func askerOf(r *http.Request) identity.Asker {
	a := identity.Asker{Addr: clientOf(r), Header: r.Header}
	if t, ok := r.Context().Value(tunnelKey{}).(*tunnel); ok {
		a.User = t.user
	} else {
		a.User, _, _ = users.Credentials(r.Header)
	}
	return a
}

// protocol is what a client speaks in a tunnel.
type protocol int

const (
	protocolUnknown protocol = iota
	protocolTLS
	protocolHTTP
)

// maxMethodLength is that of any registered method, and then some.
const maxMethodLength = 32

// speaks tells the protocol by the first octets, without consuming them. It
// waits for as many as it needs, for as long as the connection's deadline
// allows; an error says that they did not come.
func speaks(t *tunnel) (protocol, error) {
	for n := 1; n <= maxMethodLength+1; n++ {
		head, err := t.peek(n)
		if err != nil {
			return protocolUnknown, err
		}
		switch c := head[n-1]; {
		case n == 1 && c == 0x16: // a TLS record that holds a handshake
			head, err = t.peek(2)
			if err != nil || head[1] != 0x03 {
				return protocolUnknown, err
			}
			return protocolTLS, nil
		case c == ' ' && n > 1:
			return protocolHTTP, nil
		case !isMethodChar(c):
			return protocolUnknown, nil
		}
	}
	return protocolUnknown, nil
}

// isMethodChar is narrower than RFC 9110's token, of which the greeting of SSH
// is one too. No method that anybody registered has other characters.
func isMethodChar(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte("-_", c) >= 0
}
