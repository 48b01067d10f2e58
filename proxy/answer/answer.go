// Package answer makes the proxy's own responses: refusals, and answers to requests that
// fail. An [Answer] is written as text, as a page or as problem+json (RFC 9457), whichever
// the client prefers, and carries Proxy-Status (RFC 9209).
package answer

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/gate"
)

// Answer is a response of the proxy's own. Its Proxy-Status tells a client that it does not
// come from the origin.
type Answer struct {
	Status  int
	Kind    string        // an error type of RFC 9209 2.3
	Details string        // what happened, in one line
	Advice  string        // what to do about it; may be ""
	Verdict *gate.Verdict // the facts that it shows; nil if the gate has not judged
	Header  http.Header   // more fields; Response adds its own to this map
}

// maxDetails bounds, in octets, the details in a header, and the part of them that an
// origin's error may fill.
const maxDetails = 1024

// BadRequest returns the answer to a request that is itself at fault.
func BadRequest(status int, details string) Answer {
	return Answer{Status: status, Kind: "http_request_error", Details: details}
}

// Refusal returns the answer to a request that a verdict refuses. Retry-After counts from
// now.
func Refusal(v *gate.Verdict, now time.Time) Answer {
	a := Answer{
		Status:  http.StatusForbidden,
		Kind:    "http_request_denied",
		Details: v.Why(),
		Verdict: v,
		Header:  http.Header{},
	}
	if v.Reason != decision.Overridden && v.Reason != decision.ByPreference {
		a.Details = "robots.txt: " + a.Details
	}
	if at := v.RetryAt(); !at.IsZero() {
		seconds := math.Ceil(at.Sub(now).Seconds())
		wait := time.Duration(max(seconds, 1)) * time.Second
		a.Header.Set("Retry-After", strconv.Itoa(int(wait.Seconds())))
		a.Advice = "The proxy asks the site again in " + wait.String() + "."
	}
	return a
}

// TooLate returns the answer to a request whose turn at its origin would come too late.
func TooLate(admission *gate.Admission) Answer {
	late := admission.Late()
	seconds := int(math.Ceil(late.Wait.Seconds()))
	return Answer{
		Status:  http.StatusTooManyRequests,
		Kind:    "http_request_denied",
		Details: "pace at " + admission.Origin + ": " + late.Error(),
		Advice:  late.Advice(),
		Verdict: &admission.Verdict,
		Header:  http.Header{"Retry-After": {strconv.Itoa(max(seconds, 1))}},
	}
}

// Response returns a as the response to r of the proxy that is called name, in the format
// that r prefers.
func (a Answer) Response(r *http.Request, name string) *http.Response {
	contentType, body := a.render(name, formatFor(r.Header))
	h := a.Header
	if h == nil {
		h = http.Header{}
	}
	h.Set("Proxy-Status", proxyStatus(name, a.Kind, a.Details))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Content-Security-Policy", CSP)
	h.Set("X-Content-Type-Options", "nosniff")
	return &http.Response{
		StatusCode:    a.Status,
		Status:        strconv.Itoa(a.Status) + " " + http.StatusText(a.Status),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        h,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}
}

// CSP is the Content-Security-Policy of the proxy's own pages, which load and run nothing.
const CSP = "default-src 'none'; style-src 'unsafe-inline'"

// proxyStatus returns a Proxy-Status field of one member (RFC 9209 2). name is a Token of RFC
// 8941. details become a String (RFC 8941 3.3.3), which holds only printable ASCII; other
// octets are percent-encoded. Long details are cut, since some clients reject long headers;
// the body has them whole.
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
