package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"robotsproxy/internal/redirected"
	"robotsproxy/proxy/answer"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/flow"
	"robotsproxy/proxy/forward"
	"robotsproxy/proxy/opaque"
	"robotsproxy/proxy/sniff"
	"robotsproxy/robots"
)

// ServeTransparent accepts connections of clients that know of no proxy, and serves them
// until Shutdown is called. It closes l. The LocalAddr of each connection from l must be the
// address that its client wanted. ServeTransparent may be called several times at once,
// beside Serve. It returns nil after Shutdown, else the error that ended it.
//
// The first octets of a connection tell what becomes of it:
//
//   - TLS is for the server that the client names in it, at the port that it wanted; if it
//     names none, for the address that it wanted. From there on it is a tunnel that a CONNECT
//     has opened: judged as a whole or request by request, as [opaque.Options] say. There is no
//     CONNECT that could be answered with a refusal. So a tunnel that is refused as a whole
//     is read after all, and each request in it is answered; one that must never be read
//     gets an alert of TLS.
//   - Each HTTP request is for the host that it names, at the port that it names, else at
//     the port that the client wanted; a request without a host is for the address that the
//     client wanted. An absolute-form request or a CONNECT is one to a proxy, and is served
//     as one.
//   - Anything else is closed, and so is what says nothing: only HTTP leads out.
//
// What was judged is what is dialled, never the address that the client had. Where an
// encrypted ClientHello (ECH) may hide another name, the one outside is judged and dialled.
// A client can't authenticate itself here, so no users are asked for, and none is believed.
// A connection to the address of l itself is closed, since it would lead here again, and so
// is one that the proxy has opened itself.
func (s *Server) ServeTransparent(l net.Listener) error {
	return s.acceptTunnels(l, decision.Transparent, func(t *tunnel) {
		t.listening = l.Addr()
		s.serveTransparent(t)
	})
}

func (s *Server) serveTransparent(t *tunnel) {
	wanted := addrPort(t.hijacked.LocalAddr())
	wanted = netip.AddrPortFrom(wanted.Addr().Unmap().WithZone(""), wanted.Port())
	if !wanted.IsValid() || wanted == addrPort(t.listening) {
		s.log.Debug().Stringer("client", t.RemoteAddr()).Msg("connection closed: its client wanted the transparent door itself")
		t.Close()
		return
	}
	turnedAway := s.turnsAway(t)
	if s.opts.Direct != nil && !turnedAway {
		if dial, dialled := s.opts.Direct(s.broken, wanted); dial != "" {
			s.passDirect(t, wanted, dial, dialled)
			return
		}
	}
	s.serveAddress(t, wanted, turnedAway)
}

// serveAddress serves a connection of which only the address is known that its client wanted.
// turnedAway says that the client may not use the proxy, and has not been told.
func (s *Server) serveAddress(t *tunnel, wanted netip.AddrPort, turnedAway bool) {
	protocol, err := t.Protocol()
	if s.isOwn(t, wanted) {
		s.log.Warn().Stringer("wanted", wanted).
			Msg("connection closed: it is the proxy's own, and was led back here; except the user that the proxy runs as from the redirection")
		t.Close()
		return
	}
	if err == nil && protocol == sniff.TLS {
		err = s.nameTLS(t, wanted)
	}
	if err == nil && protocol == sniff.HTTP {
		t.origin, err = s.originAt("http", wanted)
	}
	switch {
	case err != nil || protocol == sniff.Unknown:
		s.refuseConnection(t, wanted, err)
	case protocol == sniff.HTTP:
		s.enter(t, t, s.atHost)
	case turnedAway:
		s.rejectTLS(t)
	default:
		o := s.opaque(t, t.asker())
		if s.open(t, o, overTLS{accepted{s, t}, o}) {
			s.intercept(t)
		}
	}
}

// isOwn reports whether a connection is one that the proxy has opened itself.
func (s *Server) isOwn(t *tunnel, wanted netip.AddrPort) bool {
	admitted, ok := t.hijacked.(interface{ NetConn() net.Conn })
	if !ok {
		return false
	}
	accepted, ok := admitted.NetConn().(*redirected.Conn)
	return ok && s.transport.IsOwn(accepted.Client(), wanted)
}

// nameTLS finds out where a connection leads whose client speaks TLS.
func (s *Server) nameTLS(t *tunnel, wanted netip.AddrPort) error {
	hello, err := t.Hello()
	if err != nil {
		return err
	}
	t.encrypted = hello.Encrypted
	if hello.ServerName == "" {
		t.origin, err = s.originAt("https", wanted)
		s.log.Info().Stringer("client", t.RemoteAddr()).Str("host", t.origin.Authority()).
			Msg("the client's TLS names no server: it is judged by its address")
		return err
	}
	name, err := tlsName(hello.ServerName)
	if err == nil {
		t.origin, err = originOf("https", name, wanted.Port())
	}
	if err != nil {
		return fmt.Errorf("its TLS asks for the server %q: %w", hello.ServerName, err)
	}
	return nil
}

// originAt is the origin at an address that a client wanted: of the name that the address
// stands for, else of the address.
func (s *Server) originAt(scheme string, wanted netip.AddrPort) (robots.Origin, error) {
	host := wanted.Addr().String()
	if s.opts.NameOf != nil {
		if name, ok := s.opts.NameOf(wanted.Addr()); ok {
			host = name
		}
	}
	return originOf(scheme, host, wanted.Port())
}

func originOf(scheme, host string, port uint16) (robots.Origin, error) {
	return robots.ParseOrigin(scheme + "://" + net.JoinHostPort(host, fmt.Sprint(port)))
}

// overTLS is the caller that waits for nothing but TLS: it can be told only inside, where it
// may be read.
type overTLS struct {
	accepted
	opaque *opaque.Tunnel
}

func (c overTLS) refused(why *answer.Answer, _ error) bool {
	t := c.tunnel
	if !c.opaque.NeverRead() {
		return false
	}
	c.log.Debug().Stringer("client", t.RemoteAddr()).Str("host", t.origin.Authority()).Int("status", why.Status).Msg(why.Details)
	c.rejectTLS(t)
	return true
}

// rejectTLS closes a connection whose client speaks TLS that must not be read.
func (s *Server) rejectTLS(t *tunnel) {
	t.alert()
	t.Close()
}

// refuseConnection closes a connection that is not HTTP, as far as it shows. err says why
// that is not known.
func (s *Server) refuseConnection(t *tunnel, wanted netip.AddrPort, err error) {
	defer t.Close()
	line := s.log.Info().Stringer("client", t.RemoteAddr()).Stringer("wanted", wanted)
	switch silent := errors.Is(err, os.ErrDeadlineExceeded); {
	case err == nil:
		line.Msg("connection closed: the client speaks neither TLS nor HTTP")
	case silent && (wanted.Port() == 80 || wanted.Port() == 443): // browsers open connections ahead
		line.Discard().Send()
		return
	case silent:
		line.Msg("connection closed: the client waits for the server to speak first, which is not how HTTP begins")
	case sniff.Left(err):
		line.Discard().Send()
		return
	default:
		t.alert()
		line.Err(err).Msg("connection closed: its TLS cannot be understood")
	}
	if s.opts.OnRefusedConnection != nil {
		s.opts.OnRefusedConnection(wanted)
	}
}

// passDirect joins a client and a destination that the operator allows whatever is spoken.
// The addresses that are never dialled are not dialled for it either.
func (s *Server) passDirect(t *tunnel, wanted netip.AddrPort, dial string, dialled func(error)) {
	s.keep(t)
	s.entering.Remove(t)
	defer t.Close()

	began, down := time.Now(), int64(0)
	origin, err := s.dialDirect(withTunnel(s.broken, t), dial)
	dialled(err)
	if err == nil {
		defer origin.Close()
		s.openTunnels.Inc()
		defer s.openTunnels.Dec()
		// A database may well be silent for longer than a page.
		watchdog := flow.Watchdog{Limit: s.forwarder.StallTimeout(), AllowSilence: true}
		t.SetDeadline(time.Time{})
		down, err = watchdog.Join(t, origin)
	}
	line := s.log.Info()
	if err != nil {
		line = s.log.Warn().Err(err)
	}
	line.Stringer("client", t.RemoteAddr()).Stringer("wanted", wanted).Str("dialled", dial).
		Int64("bytes", down).Int64("duration_ms", time.Since(began).Milliseconds()).
		Msg("connection to a destination that is allowed without being judged")
}

func (s *Server) dialDirect(ctx context.Context, dial string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(dial)
	if err != nil {
		return nil, err
	}
	// The parent proxy for https is one that opens tunnels.
	return s.transport.Dial(ctx, robots.Origin{Scheme: "https", Host: host, Port: port})
}

// serveByHost handles plain HTTP on a connection to an address.
func (s *Server) serveByHost(w http.ResponseWriter, r *http.Request) {
	t := r.Context().Value(tunnelKey{}).(*tunnel)
	if r.ProtoMajor == 1 && (r.Method == http.MethodConnect || r.URL.IsAbs()) {
		s.serveOuter(w, r)
		return
	}
	target, err := t.targetByHost(r)
	switch {
	case s.turnAway(w, r, forward.ClientAddr(r), s.settings.Load()):
	case r.Method == http.MethodConnect:
		s.forwarder.Answer(w, r, answer.BadRequest(http.StatusBadRequest, "CONNECT over HTTP/2 is not served"))
	case !httpguts.ValidHeaderFieldName(r.Method): // HTTP/2 allows any text
		s.forwarder.Answer(w, r, answer.BadRequest(http.StatusBadRequest, "the method is no token"))
	case r.RequestURI == "*":
		s.asterisk(w, r)
	case err != nil:
		s.forwarder.Answer(w, r, answer.BadRequest(http.StatusBadRequest, err.Error()))
	default:
		s.forwarder.Forward(w, r, t.door, target, t.user)
	}
}

// targetByHost is what a request asks for whose Host says of which origin.
func (t *tunnel) targetByHost(r *http.Request) (target robots.Target, err error) {
	if !strings.HasPrefix(r.RequestURI, "/") {
		return target, fmt.Errorf("the target %q is no path", r.RequestURI)
	}
	origin, err := t.originByHost(r.Host)
	if err != nil {
		return target, err
	}
	for _, host := range r.Header["Host"] { // HTTP/2 may have it besides :authority
		if other, err := t.originByHost(host); err != nil || other != origin {
			return target, fmt.Errorf("the request names two hosts, %q and %q", r.Host, host)
		}
	}
	return robots.ParseTarget(origin.String() + r.RequestURI)
}

// originByHost is the origin that a Host field names. HTTP/1.0 may have none.
func (t *tunnel) originByHost(host string) (robots.Origin, error) {
	if host == "" {
		return t.origin, nil
	}
	if _, port, _ := net.SplitHostPort(host); port == "" {
		host = strings.TrimSuffix(host, ":") + ":" + t.origin.Port
	}
	return robots.ParseOrigin("http://" + host)
}
