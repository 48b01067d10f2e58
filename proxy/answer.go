package proxy

import (
	"fmt"
	"io"
	"maps"
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
	advice  string // for people: what to do, or the whole story
	header  http.Header
}

// badRequest answers a request that makes no sense.
func badRequest(status int, details string) answer {
	return answer{status: status, kind: "http_request_error", details: details}
}

// refusal tells a client what robots.txt says. Its text has a line for all that
// somebody needs to look the rule up.
func refusal(v *gate.Verdict, now time.Time) answer {
	a := answer{
		status:  http.StatusForbidden,
		kind:    "http_request_denied",
		details: "robots.txt: " + v.Why(),
		header:  http.Header{},
	}
	if v.Reason == gate.Unreachable && !v.NextTry.IsZero() {
		seconds := int64(v.NextTry.Sub(now)/time.Second) + 1
		a.header.Set("Retry-After", strconv.FormatInt(max(seconds, 1), 10))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "URL:        %s\n", v.URL)
	fmt.Fprintf(&b, "Agent:      %s\n", v.Agent)
	fmt.Fprintf(&b, "robots.txt: %s\n", v.RobotsURL)
	if v.Rule != "" {
		fmt.Fprintf(&b, "Line %d:    %s\n", v.Line, v.Rule)
	}
	a.advice = b.String()
	return a
}

// response gives an answer the form that goproxy takes.
func (s *Server) response(r *http.Request, a answer) *http.Response {
	h := a.header
	if h == nil {
		h = http.Header{}
	}
	text := fmt.Sprintf("%d %s: %s\n", a.status, http.StatusText(a.status), a.details)
	if a.advice != "" {
		text += "\n" + strings.TrimSuffix(a.advice, "\n") + "\n"
	}
	h.Set("Proxy-Status", proxyStatus(s.opts.Name, a.kind, a.details))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("X-Content-Type-Options", "nosniff")
	return &http.Response{
		StatusCode:    a.status,
		Status:        strconv.Itoa(a.status) + " " + http.StatusText(a.status),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        h,
		Body:          io.NopCloser(strings.NewReader(text)),
		ContentLength: int64(len(text)),
		Request:       r,
	}
}

// answer writes an answer where goproxy has no part: to a request that never
// came as far as the gate.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, a answer) {
	s.log.Debug().Stringer("client", clientOf(r)).Str("method", r.Method).Int("status", a.status).Msg(a.details)
	resp := s.response(r, a)
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	io.Copy(w, resp.Body)
}

// proxyStatus is a Proxy-Status field of one member (RFC 9209 2). A name is a
// token of RFC 8941; details are its String (3.3.3), which holds printable
// ASCII alone: other octets are percent-encoded.
func proxyStatus(name, kind, details string) string {
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
