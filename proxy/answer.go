package proxy

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"robotsproxy/proxy/gate"
)

// answer is a response of the proxy's own. Each carries Proxy-Status (RFC 9209),
// by which a client tells it from an origin's.
type answer struct {
	status  int
	kind    string // error type of RFC 9209 2.3
	details string // what happened: one line
	advice  string // what to do about it; may be empty
	verdict *gate.Verdict
	header  http.Header
}

// maxDetails bounds, in octets, the details in a header, and what an error of a site's
// may add to them.
const maxDetails = 1024

// badRequest answers a request that makes no sense.
func badRequest(status int, details string) answer {
	return answer{status: status, kind: "http_request_error", details: details}
}

// refusal tells a client what robots.txt says.
func refusal(v *gate.Verdict, now time.Time) answer {
	a := answer{
		status:  http.StatusForbidden,
		kind:    "http_request_denied",
		details: v.Why(),
		verdict: v,
		header:  http.Header{},
	}
	if v.Reason != gate.Overridden {
		a.details = "robots.txt: " + a.details
	}
	if v.Reason == gate.Unreachable && !v.NextTry.IsZero() {
		seconds := math.Ceil(v.NextTry.Sub(now).Seconds())
		a.header.Set("Retry-After", strconv.Itoa(int(max(seconds, 1))))
	}
	return a
}

// tooMany tells a client that its turn at an origin comes too late.
func tooMany(p *gate.Admission) answer {
	late := p.Late()
	seconds := int(math.Ceil(late.Wait.Seconds()))
	return answer{
		status:  http.StatusTooManyRequests,
		kind:    "http_request_denied",
		details: "pace at " + p.Origin + ": " + late.Error(),
		advice:  late.Advice(),
		verdict: &p.Verdict,
		header:  http.Header{"Retry-After": {strconv.Itoa(max(seconds, 1))}},
	}
}

// response gives an answer the form that goproxy takes, in the format that the
// request accepts.
func (s *Server) response(r *http.Request, a answer) *http.Response {
	contentType, body := a.render(s.opts.Name, formatFor(r.Header))
	h := a.header
	if h == nil {
		h = http.Header{}
	}
	h.Set("Proxy-Status", proxyStatus(s.opts.Name, a.kind, a.details))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Content-Security-Policy", pageCSP)
	h.Set("X-Content-Type-Options", "nosniff")
	return &http.Response{
		StatusCode:    a.status,
		Status:        strconv.Itoa(a.status) + " " + http.StatusText(a.status),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        h,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}
}

// pageCSP lets the pages of the proxy's own load and run nothing.
const pageCSP = "default-src 'none'; style-src 'unsafe-inline'"

// answer writes an answer where goproxy has no part: to a request that never
// came as far as the gate.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, a answer) {
	s.log.Debug().Stringer("client", clientOf(r)).Str("method", r.Method).Int("status", a.status).Msg(a.details)
	resp := s.response(r, a)
	maps.Copy(w.Header(), resp.Header)
	s.boundAnswer(w, r)
	whole := readAway(w, r, r.Body)
	if !whole {
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(resp.StatusCode)
	io.Copy(w, resp.Body)
	if !whole {
		linger(w, r.Body)
	}
}

// boundAnswer bounds how long a client may take for an answer. What is written to a stream
// of HTTP/2 waits for its client when the handler is done, and nobody watches it then.
func (s *Server) boundAnswer(w http.ResponseWriter, r *http.Request) {
	if limit := s.stallLimit(); limit > 0 && r.ProtoMajor == 2 {
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit))
	}
}

// proxyStatus is a Proxy-Status field of one member (RFC 9209 2). A name is a
// token of RFC 8941; details are its String (3.3.3), which holds printable
// ASCII alone: other octets are percent-encoded. Long details are cut, as some
// clients take no long headers; an answer's body has them whole.
func proxyStatus(name, kind, details string) string {
	details = details[:min(len(details), maxDetails)]
	var b strings.Builder
	b.WriteString(name)
	b.WriteString("; error=")
	b.WriteString(kind)
	b.WriteString(`; details="`)
	for i := range len(details) {
		switch c := details[i]; {
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, "%%%02X", c)
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			fallthrough
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
