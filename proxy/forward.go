package proxy

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/elazarl/goproxy"
	"github.com/rs/zerolog"

	"robotsproxy/proxy/gate"
	"robotsproxy/robots"
)

// newForwarder sets up the one goproxy through which all doors lead. It judges
// in one request handler and mends what comes back in one response handler. Its
// own dealing with CONNECT is never reached.
func (s *Server) newForwarder() *goproxy.ProxyHttpServer {
	p := goproxy.NewProxyHttpServer()
	p.Logger = goproxyLog{s.log}
	p.Tr = s.transport.verifying
	p.ConnectDial = nil
	p.KeepAcceptEncoding = true
	p.OnRequest().DoFunc(s.admit)
	p.OnResponse().DoFunc(s.deliver)
	return p
}

// goproxyLog takes what goproxy warns of: mostly ends of WebSockets.
type goproxyLog struct{ log zerolog.Logger }

func (l goproxyLog) Printf(format string, v ...any) {
	l.log.Debug().Msgf(strings.TrimSpace(format), v...)
}

// exchange is one request on its way through goproxy.
type exchange struct {
	target  robots.Target
	passage *gate.Passage // nil until the gate has judged
	failed  error         // why there is no response
	cut     error         // why the response's body ended before its end
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange { return r.Context().Value(exchangeKey{}).(*exchange) }

// forward leads a request to the gate and, if it may pass, to its origin. Every
// door ends here.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, target robots.Target) {
	x := &exchange{target: target}
	rw := newResponseWriter(w, r, &s.hijacked)
	defer func() {
		cause := recover()
		if cause != nil && cause != http.ErrAbortHandler {
			s.log.Error().Any("panic", cause).Bytes("stack", debug.Stack()).Msg("a request failed inside the proxy; please report this")
		}
		if cause != nil && rw.status == 0 {
			s.answer(rw, r, answer{status: http.StatusInternalServerError, kind: "proxy_internal_error", details: "the proxy failed on this request"})
			cause = nil
		}
		rw.end()
		if x.passage != nil {
			x.passage.Done(rw.status, rw.bytes, cmp.Or(x.failed, x.cut))
		}
		if cause != nil || x.cut != nil {
			// The status has been sent, so the only way left to say that the
			// body is not whole is to break the connection or reset the stream.
			panic(http.ErrAbortHandler)
		}
	}()
	s.goproxy.ServeHTTP(rw, outgoing(r, x))
}

// outgoing turns a client's request into the one for the origin that is judged:
// it is dialled by the judged origin, and asks for the target as the client
// wrote it.
func outgoing(r *http.Request, x *exchange) *http.Request {
	out := r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	origin := x.target.Origin
	authority := origin.Authority()
	out.Host = authority
	out.URL = &url.URL{Scheme: origin.Scheme, Host: authority, Opaque: x.target.Path}
	if strings.HasPrefix(x.target.Path, "//") {
		// net/url reads an opaque part with two slashes as an authority, so
		// such a target goes out in absolute form (RFC 9112 3.2.2).
		out.URL.Opaque = "//" + authority + x.target.Path
	}
	out.Close = false // of the client's connection, not of the origin's
	if out.ContentLength == 0 {
		out.Body = http.NoBody // h2 has a body here, which would go out chunked
	}
	return out
}

// admit is goproxy's request handler: it refuses a request, or makes it ready
// for its origin.
func (s *Server) admit(r *http.Request, ctx *goproxy.ProxyCtx) (*http.Request, *http.Response) {
	x := exchangeOf(r)
	if passedBy(r.Header, s.opts.Name) {
		return r, s.response(r, answer{
			status:  http.StatusBadGateway,
			kind:    "proxy_loop_detected",
			details: "this request has passed " + s.opts.Name + " before",
			advice:  "Proxies that are chained need names of their own.",
		})
	}
	passage, err := s.gate.Admit(r.Context(), gate.Ask{
		URL:    x.target.String(),
		Target: x.target,
		Asker:  askerOf(r),
		Method: r.Method,
	})
	if err != nil { // the client has left, or the proxy is being stopped
		return r, s.response(r, answer{status: http.StatusServiceUnavailable, kind: "proxy_internal_error", details: err.Error()})
	}
	x.passage = passage
	if !passage.Admits() {
		return r, s.response(r, refusal(&passage.Verdict, time.Now()))
	}
	ctx.RoundTripper = goproxy.RoundTripperFunc(s.roundTrip)

	stripHopByHop(r.Header)
	passage.Bot.Rewrite(r.Header)
	if _, sent := r.Header["User-Agent"]; !sent {
		r.Header["User-Agent"] = nil // else net/http adds its own
	}
	if s.opts.Via != ViaOff {
		r.Header.Add("Via", via(r.ProtoMajor, r.ProtoMinor, s.opts.Name))
	}
	return r, nil
}

// roundTrip asks the origin. The body is wrapped here and not in deliver, where
// goproxy would take a new body for a changed one and drop its Content-Length.
func (s *Server) roundTrip(r *http.Request, _ *goproxy.ProxyCtx) (*http.Response, error) {
	resp, err := s.transport.RoundTrip(r)
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &watchedBody{resp.Body, exchangeOf(r)}
	}
	return resp, err
}

// deliver is goproxy's response handler. resp is nil where upstream gave none.
func (s *Server) deliver(resp *http.Response, ctx *goproxy.ProxyCtx) *http.Response {
	if resp == nil {
		exchangeOf(ctx.Req).failed = ctx.Error
		return s.response(ctx.Req, failure(ctx.Error))
	}
	if ctx.RoundTripper == nil { // an answer of the proxy's own
		return resp
	}
	stripHopByHop(resp.Header)
	if len(resp.Trailer) > 0 {
		// HTTP/2 has trailers after a body of stated length too, HTTP/1.1 only
		// after a chunked one.
		resp.Header.Del("Content-Length")
	}
	if s.opts.Via == ViaBoth {
		resp.Header.Add("Via", via(resp.ProtoMajor, resp.ProtoMinor, s.opts.Name))
	}
	return resp
}

// watchedBody notices a body that upstream cuts short: goproxy does not.
type watchedBody struct {
	io.ReadCloser
	x *exchange
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.x.cut = err
	}
	return n, err
}
