package proxy

import (
	"net/http"
	"slices"
	"strings"
)

// hopByHop are the fields that concern one connection alone (RFC 9110 7.6.1),
// besides those that Connection names.
var hopByHop = []string{
	"Connection",
	"Keep-Alive",
	"Proxy-Authenticate",
	"Proxy-Authorization",
	"Proxy-Connection",
	"Te",
	"Trailer",
	"Transfer-Encoding",
	"Upgrade",
}

// stripHopByHop takes out of h what must not be passed on: all but a WebSocket's
// upgrade, and that trailers are welcome.
func stripHopByHop(h http.Header, websocket bool) {
	trailers := hasToken(h, "Te", "trailers")
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			// A request is judged by the one and known by the other.
			if name != "User-Agent" && name != "Via" {
				delete(h, name)
			}
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
	if websocket {
		h["Connection"] = []string{"Upgrade"}
		h["Upgrade"] = []string{"websocket"}
	}
	if trailers {
		h["Te"] = []string{"trailers"}
	}
}

// isWebSocket reports whether a request asks to speak WebSocket (RFC 6455 4.1).
func isWebSocket(h http.Header) bool {
	return hasToken(h, "Connection", "upgrade") && hasToken(h, "Upgrade", "websocket")
}

// hasToken reports whether a comma-separated field holds a token.
func hasToken(h http.Header, name, token string) bool {
	for _, line := range h[name] {
		for item := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(item), token) {
				return true
			}
		}
	}
	return false
}

// via is this proxy's member of a Via field (RFC 9110 7.6.3), by the version of HTTP
// in which a message was received. All messages share it.
type via struct{ http10, http11, http2 []string }

func newVia(name string) via {
	return via{[]string{"1.0 " + name}, []string{"1.1 " + name}, []string{"2 " + name}}
}

// addTo adds the member to a message's header.
func (v *via) addTo(h http.Header, major, minor int) {
	member := v.http11
	switch {
	case major >= 2:
		member = v.http2
	case minor == 0:
		member = v.http10
	}
	if others := h["Via"]; others != nil {
		member = slices.Concat(others, member)
	}
	h["Via"] = member
}

// passedBy reports whether a message's Via says that it has been here before.
func passedBy(h http.Header, name string) bool {
	for _, line := range h["Via"] {
		for member := range strings.SplitSeq(line, ",") {
			if f := strings.Fields(member); len(f) >= 2 && strings.EqualFold(f[1], name) {
				return true
			}
		}
	}
	return false
}
