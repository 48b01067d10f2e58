package forward

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"robotsproxy/proxy/answer"
	"robotsproxy/proxy/flow"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/message"
	"robotsproxy/proxy/upstream"
)

// outgoing turns a client's request into the one for the origin. It names the origin that is
// judged, and asks for the target exactly as the client wrote it.
func (f *Forwarder) outgoing(r *http.Request, x *exchange) *http.Request {
	ctx := context.WithValue(r.Context(), exchangeKey{}, x)
	if r.ContentLength != 0 || x.target.Origin.Scheme == "ftp" { // others are broken off by closing the response
		ctx, x.cancel = context.WithCancel(ctx)
	}
	var wroteRequest func(httptrace.WroteRequestInfo)
	if r.ContentLength != 0 {
		x.client.Upload = message.NewUpload(r, &x.watchdog.Up)
		wroteRequest = x.sent
	}
	out := r.WithContext(x.interim.Relay(ctx, &x.client, r, f.opts.Name, wroteRequest))
	origin := x.target.Origin
	authority := origin.Authority()
	out.Host = authority
	out.URL = verbatim(origin.Scheme, authority, x.target.Path)
	out.Close = false      // of the client's connection, not of the origin's
	out.Body = http.NoBody // an HTTP/2 request has an empty body here, which would be sent chunked
	if x.client.Upload != nil {
		out.Body = x.client.Upload
	}
	return out
}

// verbatim returns a URL whose path and query net/http writes octet by octet as they are.
func verbatim(scheme, authority, target string) *url.URL {
	if !strings.HasPrefix(target, "//") {
		return &url.URL{Scheme: scheme, Host: authority, Opaque: target}
	}
	// net/url takes an opaque part that begins with two slashes for an authority. A path
	// keeps them, but net/url may rewrite other octets of it.
	u := url.URL{Scheme: scheme, Host: authority}
	u.RawPath, u.RawQuery, u.ForceQuery = strings.Cut(target, "?")
	u.Path, _ = url.PathUnescape(u.RawPath)
	if u.RequestURI() == target {
		return &u
	}
	// The absolute form (RFC 9112 3.2.2) keeps all octets, but not every server accepts it.
	return &url.URL{Scheme: scheme, Host: authority, Opaque: "//" + authority + target}
}

// admit has the gate judge a request, and prepares one that may pass for its origin. If it
// returns a response, the request goes no further.
func (f *Forwarder) admit(r *http.Request, x *exchange) *http.Response {
	resp := f.judge(r, x)
	if resp != nil {
		f.boundAnswer(x.client.ResponseWriter, r)
		if x.client.Upload != nil {
			message.Drain(x.client.ResponseWriter, r, x.client.Upload)
		}
	}
	return resp
}

// judge returns a response to a request that goes no further.
func (f *Forwarder) judge(r *http.Request, x *exchange) *http.Response {
	if f.via.IsIn(r.Header) {
		return f.response(r, f.LoopDetected())
	}
	if resp := message.CountHop(r); resp != nil {
		return resp
	}
	if err := upstream.CheckLoopback(r.Context(), x.target.Origin); err != nil {
		return f.response(r, f.UpstreamFailed(err))
	}
	admission, err := f.gate.Admit(r.Context(), gate.Ask{Target: x.target, Asker: identity.Asker{Addr: ClientAddr(r), User: x.user, Header: r.Header}, Method: r.Method, Door: x.door})
	if err != nil {
		return f.response(r, f.NotJudged(err))
	}
	x.admission = admission
	if err := admission.Wait(r.Context()); err != nil { // the client has left
		x.err = err
		panic(http.ErrAbortHandler)
	}
	if !admission.Admits() {
		var a answer.Answer
		a, x.err = f.Refusal(r.Context(), admission)
		return f.response(r, a)
	}
	message.StripRequest(r.Header)
	admission.Bot.Rewrite(r.Header)
	if _, sent := r.Header["User-Agent"]; !sent {
		r.Header["User-Agent"] = nil // else net/http adds its own
	}
	if f.opts.Via != upstream.ViaOff {
		f.via.AddTo(r.Header, r.ProtoMajor, r.ProtoMinor)
	}
	return nil
}

// ask sends a request to its origin and prepares the response for the client.
func (f *Forwarder) ask(r *http.Request, x *exchange) *http.Response {
	upgrade := message.IsWebSocket(r.Header)
	if x.client.Upload != nil {
		// Without it, net/http would discard the rest of an HTTP/1.1 request's body when
		// the response begins, while the transport still reads it.
		http.NewResponseController(x.client.ResponseWriter).EnableFullDuplex()
		x.asking = true
		x.watchdog.Start()
	}
	// The transport may send a request once more if a kept connection fails it. Then its
	// signature comes twice, as the request does.
	x.admission.Sign(r.Header)
	resp, err := f.transport.RoundTrip(r)
	x.interim.End()
	stall := flow.Moving
	if x.client.Upload != nil {
		stall = x.answered()
	}
	switch {
	case err != nil && (stall == flow.Silent || stall == flow.UpBlocked):
		x.err, x.told = err, true
		if stall == flow.UpBlocked {
			x.admission.Failed()
		}
		return f.response(r, f.stalled(stall, x.watchdog.Limit))
	case err != nil && r.Context().Err() != nil:
		x.err = err
		panic(http.ErrAbortHandler) // the client has left
	case err != nil && x.client.Upload.Malformed() != nil:
		x.err = err
		return f.response(r, answer.BadRequest(http.StatusBadRequest, "the request's body cannot be read: "+x.client.Upload.Malformed().Error()))
	case err != nil:
		x.err = err
		a := f.UpstreamFailed(err)
		switch {
		case upstream.MayBeForHeader(err, r):
			a.Advice = "The request's header is large. The origin may not take one of this size."
		case upstream.IsOriginsFault(err) && x.client.Upload.Whole(): // else it may have tired of waiting for the client
			x.admission.Failed()
		}
		return f.response(r, a)
	case resp.StatusCode < 100, resp.StatusCode > 999, resp.StatusCode == http.StatusSwitchingProtocols && !upgrade:
		resp.Body.Close()
		x.admission.Failed()
		f.upstreamErrors.WithLabelValues("http_protocol_error").Inc()
		return f.response(r, answer.Answer{Status: http.StatusBadGateway, Kind: "http_protocol_error", Details: "the origin answers with the status " + resp.Status})
	}
	if !x.isClientsFault(r, resp.StatusCode) {
		x.admission.Answered(resp.StatusCode, resp.Header)
	}
	x.admission.NoteEdge(resp.StatusCode, resp.Header)
	if x.admission.HeedResponse(resp.StatusCode, resp.Header) {
		resp.Body.Close()
		return f.response(r, answer.Refusal(&x.admission.Verdict, time.Now()))
	}
	x.upstream = resp.Body
	switched := resp.StatusCode == http.StatusSwitchingProtocols
	message.StripResponse(resp.Header, f.opts.Name, switched)
	if switched {
		x.admission.Connected()
	} else {
		x.body = message.NewDownload(resp, f.opts.Name, &x.watchdog.Down)
		resp.Body = &x.body
	}
	if len(resp.Trailer) > 0 {
		message.StripResponse(resp.Trailer, f.opts.Name, false)
		// HTTP/2 allows trailers after a body of stated length, HTTP/1.1 only after a
		// chunked one.
		resp.Header.Del("Content-Length")
	}
	if f.opts.Via == upstream.ViaBoth {
		f.via.AddTo(resp.Header, resp.ProtoMajor, resp.ProtoMinor)
	}
	return resp
}

// isClientsFault reports whether an error of the origin is about what the client has sent, and so
// says nothing about how the origin would answer others.
func (x *exchange) isClientsFault(r *http.Request, status int) bool {
	switch status {
	case http.StatusRequestTimeout:
		return !x.client.Upload.Whole()
	case http.StatusTooEarly: // RFC 8470 5.1
		return r.Header.Get("Early-Data") != ""
	case http.StatusNotImplemented: // RFC 9110 9.1: every server knows these two
		return r.Method != http.MethodGet && r.Method != http.MethodHead
	case http.StatusServiceUnavailable: // the origin says so of itself
		return false
	}
	return status >= 500 && upstream.HasLargeHeader(r) // some servers fail instead of answering 431
}

// stalled returns the answer to a request that stood still while it was being sent.
func (f *Forwarder) stalled(how flow.Stall, limit time.Duration) answer.Answer {
	if how == flow.UpBlocked {
		const kind = "connection_write_timeout"
		f.upstreamErrors.WithLabelValues(kind).Inc()
		return answer.Answer{
			Status:  http.StatusGatewayTimeout,
			Kind:    kind,
			Details: fmt.Sprintf("the origin took nothing of the request's body for %v", limit),
		}
	}
	return answer.BadRequest(http.StatusRequestTimeout, fmt.Sprintf("nothing of the request's body came for %v", limit))
}
