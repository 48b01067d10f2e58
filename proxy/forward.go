package proxy

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"robotsproxy/proxy/answer"
	"robotsproxy/proxy/flow"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/message"
	"robotsproxy/proxy/upstream"
	"robotsproxy/proxy/users"
	"robotsproxy/robots"
)

// exchange is one request on its way through goproxy.
type exchange struct {
	client    message.Writer
	interim   message.Interim
	target    robots.Target
	upload    *message.Upload // nil if the request has no body
	admission *gate.Admission // nil until the gate has judged
	err       error           // why the origin gave no response
	body      message.Download

	server   *Server
	watchdog flow.Watchdog
	asking   bool      // a request with a body is on its way to the origin; see watchdog.Sync
	cancel   func()    // ends what goes on upstream; nil: upstream does, if that is not nil
	upstream io.Closer // the body of the origin's response
	told     bool      // the client has been told that the request stood still
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange { return r.Context().Value(exchangeKey{}).(*exchange) }

// forward leads a request to the gate and, if it may pass, to its origin. Every
// door ends here.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, target robots.Target) {
	x := &exchange{server: s, target: target}
	x.watchdog.Limit, x.watchdog.Target = s.stallLimit(), x
	x.client = message.Writer{ResponseWriter: w, Watchdog: &x.watchdog, Hijacked: &s.hijacked, Head: r.Method == http.MethodHead}
	s.exchanges.RLock()
	defer s.exchanges.RUnlock()
	defer s.conclude(x, r)
	s.forwarder.ServeHTTP(&x.client, s.outgoing(r, x))
}

// conclude ends an exchange, whatever became of it. It is deferred.
func (s *Server) conclude(x *exchange, r *http.Request) {
	cause := recover()
	stall := x.watchdog.Stop()
	if x.cancel != nil {
		defer x.cancel()
	}
	if cause != nil && cause != http.ErrAbortHandler {
		s.panicked(cause)
		if x.client.Status() == 0 {
			clear(x.client.Header())
			s.answer(&x.client, r, answer.Answer{Status: http.StatusInternalServerError, Kind: answer.InternalError, Details: "the proxy failed on this request"})
			cause = nil
		}
	}
	x.client.Close()
	switch {
	case stall == flow.Silent && x.upload.Whole() && x.upstream != nil:
		s.upstreamErrors.WithLabelValues("connection_read_timeout").Inc()
	case stall == flow.UpBlocked && !x.told:
		s.upstreamErrors.WithLabelValues("connection_write_timeout").Inc()
	case stall == flow.Moving && x.body.Cut() != nil && r.Context().Err() == nil: // else it is the client that has left
		s.upstreamErrors.WithLabelValues(upstream.CutShort).Inc()
	}
	if x.admission != nil {
		x.admission.Done(x.client.Status(), x.client.Octets(), cmp.Or(x.watchdog.Error(stall), x.err, x.body.Cut()))
	}
	broken := cause != nil || x.body.Cut() != nil || stall != flow.Moving && !x.told
	if r.ProtoMajor == 1 && !x.upload.Whole() {
		if !broken {
			message.Linger(x.client.ResponseWriter, x.upload)
		}
		// The transport may be reading still; net/http would wait for it.
		http.NewResponseController(x.client.ResponseWriter).SetReadDeadline(pastDeadline)
	}
	if broken {
		// The status has been sent, so the only way left to say that the body is
		// not whole is to break the connection or reset the stream.
		panic(http.ErrAbortHandler)
	}
}

// panicked logs what a deferred function has recovered.
func (s *Server) panicked(cause any) {
	s.log.Error().Any("panic", cause).Bytes("stack", debug.Stack()).Msg("a request failed inside the proxy; please report this")
}

// outgoing turns a client's request into the one for the origin that is judged:
// it is dialled by the judged origin, and asks for the target as the client
// wrote it.
func (s *Server) outgoing(r *http.Request, x *exchange) *http.Request {
	ctx := context.WithValue(r.Context(), exchangeKey{}, x)
	if r.ContentLength != 0 || x.target.Origin.Scheme == "ftp" { // the others can be broken off by their response
		ctx, x.cancel = context.WithCancel(ctx)
	}
	var wroteRequest func(httptrace.WroteRequestInfo)
	if r.ContentLength != 0 {
		x.upload = message.NewUpload(r, &x.watchdog.Up)
		x.client.Upload = x.upload
		wroteRequest = x.sent
	}
	out := r.WithContext(x.interim.Relay(ctx, &x.client, r, s.opts.Name, wroteRequest))
	origin := x.target.Origin
	authority := origin.Authority()
	out.Host = authority
	out.URL = verbatim(origin.Scheme, authority, x.target.Path)
	out.Close = false      // of the client's connection, not of the origin's
	out.Body = http.NoBody // HTTP/2 requests have a body here even if it is empty, which would be sent chunked
	if x.upload != nil {
		out.Body = x.upload
	}
	return out
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

// verbatim is a URL whose path and query net/http writes octet by octet as they are.
func verbatim(scheme, authority, target string) *url.URL {
	if !strings.HasPrefix(target, "//") {
		return &url.URL{Scheme: scheme, Host: authority, Opaque: target}
	}
	// net/url reads an opaque part with two slashes as an authority. A path keeps them,
	// and the octets that it does not rewrite.
	u := url.URL{Scheme: scheme, Host: authority}
	u.RawPath, u.RawQuery, u.ForceQuery = strings.Cut(target, "?")
	u.Path, _ = url.PathUnescape(u.RawPath)
	if u.RequestURI() == target {
		return &u
	}
	// The absolute form (RFC 9112 3.2.2) keeps all octets, but not every server takes it.
	return &url.URL{Scheme: scheme, Host: authority, Opaque: "//" + authority + target}
}

// sent says that all of a request with a body is on its way to the origin. How long its
// response may take is the transport's to bound.
func (x *exchange) sent(info httptrace.WroteRequestInfo) {
	x.watchdog.Sync(func() {
		if info.Err == nil && x.asking {
			x.watchdog.Pause()
		}
	})
}

// admit has the gate judge a request, and makes one that may pass ready for its origin. A
// response means that the request goes no further.
func (s *Server) admit(r *http.Request, x *exchange) *http.Response {
	resp := s.judge(r, x)
	if resp != nil {
		s.boundAnswer(x.client.ResponseWriter, r)
		if x.upload != nil {
			message.Drain(x.client.ResponseWriter, r, x.upload)
		}
	}
	return resp
}

func (s *Server) judge(r *http.Request, x *exchange) *http.Response {
	if s.via.IsIn(r.Header) {
		return s.response(r, s.loopDetected())
	}
	if resp := message.CountHop(r); resp != nil {
		return resp
	}
	if err := upstream.CheckLoopback(r.Context(), x.target.Origin); err != nil {
		return s.response(r, s.upstreamFailed(err))
	}
	admission, err := s.gate.Admit(r.Context(), gate.Ask{Target: x.target, Asker: askerOf(r), Method: r.Method})
	if err != nil {
		return s.response(r, s.notJudged(err))
	}
	x.admission = admission
	if err := admission.Wait(r.Context()); err != nil { // the client has left
		x.err = err
		panic(http.ErrAbortHandler)
	}
	if !admission.Admits() {
		var a answer.Answer
		a, x.err = s.refusal(r, admission)
		return s.response(r, a)
	}
	message.StripRequest(r.Header)
	admission.Bot.Rewrite(r.Header)
	if _, sent := r.Header["User-Agent"]; !sent {
		r.Header["User-Agent"] = nil // else net/http adds its own
	}
	if s.opts.Via != upstream.ViaOff {
		s.via.AddTo(r.Header, r.ProtoMajor, r.ProtoMinor)
	}
	return nil
}

// ask asks the origin and makes its response ready for the client.
func (s *Server) ask(r *http.Request, x *exchange) *http.Response {
	upgrade := message.IsWebSocket(r.Header)
	if x.upload != nil {
		// Else HTTP/1.1 would read away what is left of the request's body as soon as
		// the response begins, while the transport reads it too.
		http.NewResponseController(x.client.ResponseWriter).EnableFullDuplex()
		x.asking = true
		x.watchdog.Start()
	}
	resp, err := s.transport.RoundTrip(r)
	x.interim.End()
	stall := flow.Moving
	if x.upload != nil {
		stall = x.answered()
	}
	switch {
	case err != nil && (stall == flow.Silent || stall == flow.UpBlocked):
		x.err, x.told = err, true
		return s.response(r, s.stalled(stall, x.watchdog.Limit))
	case err != nil && r.Context().Err() != nil:
		x.err = err
		panic(http.ErrAbortHandler) // the client has left
	case err != nil && x.upload.Malformed() != nil:
		x.err = err
		return s.response(r, answer.BadRequest(http.StatusBadRequest, "the request's body cannot be read: "+x.upload.Malformed().Error()))
	case err != nil:
		x.err = err
		return s.response(r, s.upstreamFailed(err))
	case resp.StatusCode < 100, resp.StatusCode > 999, resp.StatusCode == http.StatusSwitchingProtocols && !upgrade:
		resp.Body.Close()
		s.upstreamErrors.WithLabelValues("http_protocol_error").Inc()
		return s.response(r, answer.Answer{Status: http.StatusBadGateway, Kind: "http_protocol_error", Details: "the origin answers with the status " + resp.Status})
	}
	x.upstream = resp.Body
	x.admission.HonorRetryAfter(resp.StatusCode, resp.Header)
	switched := resp.StatusCode == http.StatusSwitchingProtocols
	message.StripResponse(resp.Header, s.opts.Name, switched)
	if !switched {
		x.body = message.NewDownload(resp, s.opts.Name, &x.watchdog.Down)
		resp.Body = &x.body
	}
	if len(resp.Trailer) > 0 {
		message.StripResponse(resp.Trailer, s.opts.Name, false)
		// HTTP/2 has trailers after a body of stated length too, HTTP/1.1 only
		// after a chunked one.
		resp.Header.Del("Content-Length")
	}
	if s.opts.Via == upstream.ViaBoth {
		s.via.AddTo(resp.Header, resp.ProtoMajor, resp.ProtoMinor)
	}
	return resp
}

// answered says that the origin is no longer being asked, and how the exchange stood still
// before.
func (x *exchange) answered() flow.Stall {
	return x.watchdog.Sync(func() {
		x.asking = false
		x.watchdog.Resume()
		x.watchdog.Down.Delivered()
	})
}

// SetStallTimeout sets how long the requests and tunnels that begin from now on may stand
// still; see [Limits.StallTimeout].
func (s *Server) SetStallTimeout(limit time.Duration) { s.stallTimeout.Store(int64(limit)) }

func (s *Server) stallLimit() time.Duration { return time.Duration(s.stallTimeout.Load()) }

// Abort ends an exchange that stands still. While the origin is being asked, the client
// can still be answered; afterwards its response is cut short.
func (x *exchange) Abort(how flow.Stall) {
	defer func() {
		if cause := recover(); cause != nil {
			x.server.panicked(cause)
		}
	}()
	client := http.NewResponseController(x.client.ResponseWriter)
	if how != flow.UpBlocked || !x.asking {
		client.SetReadDeadline(pastDeadline)
	}
	if !x.asking {
		client.SetWriteDeadline(pastDeadline)
	}
	switch {
	case x.cancel != nil:
		x.cancel()
	case x.upstream != nil:
		go x.upstream.Close() // it may wait for what stands still
	}
}

// pastDeadline is a deadline that is over.
var pastDeadline = time.Unix(1, 0)

// stalled answers a request that stood still while the origin was being asked.
func (s *Server) stalled(how flow.Stall, limit time.Duration) answer.Answer {
	if how == flow.UpBlocked {
		const kind = "connection_write_timeout"
		s.upstreamErrors.WithLabelValues(kind).Inc()
		return answer.Answer{
			Status:  http.StatusGatewayTimeout,
			Kind:    kind,
			Details: fmt.Sprintf("the origin took nothing of the request's body for %v", limit),
		}
	}
	return answer.BadRequest(http.StatusRequestTimeout, fmt.Sprintf("nothing of the request's body came for %v", limit))
}
