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

// stripResponse takes out of a response's header, or of its trailers, what must not be
// passed on: what concerns the connection alone, Alt-Svc, and what claims to come from
// this proxy, which is called name.
//
// Alt-Svc (RFC 7838) sends a client to another host, where its tunnel is judged by a
// robots.txt that is not this origin's. HTTP/2's frame of that name never comes through:
// net/http ignores it.
func stripResponse(h http.Header, name string, websocket bool) {
	stripHopByHop(h, websocket)
	delete(h, "Alt-Svc")
	if h["Proxy-Status"] != nil {
		dropOwnStatus(h, name)
	}
}

// dropOwnStatus takes the members that bear a name out of Proxy-Status (RFC 9209 2): by
// that name a client knows that an answer is not the origin's. A field that cannot be read
// goes as a whole; it means nothing (RFC 8941 4.2).
func dropOwnStatus(h http.Header, name string) {
	all, valid := members(strings.Join(h["Proxy-Status"], ","))
	others := slices.DeleteFunc(slices.Clone(all), func(member string) bool { return isNamed(member, name) })
	switch {
	case !valid, len(others) == 0:
		delete(h, "Proxy-Status")
	case len(others) < len(all):
		h["Proxy-Status"] = []string{strings.TrimSpace(strings.Join(others, ","))}
	}
}

// isNamed reports whether a member of Proxy-Status is about the intermediary of that name,
// which may be written as a Token or as a String (RFC 9209 2). Some clients may not tell
// upper from lower case.
func isNamed(member, name string) bool {
	member = strings.Trim(member, " \t")
	if text, quoted := strings.CutPrefix(member, `"`); quoted {
		member, _, _ = strings.Cut(strings.ReplaceAll(text, `\`, ""), `"`)
	} else if end := strings.IndexAny(member, "; \t"); end >= 0 {
		member = member[:end]
	}
	return strings.EqualFold(strings.Trim(member, " \t"), name)
}

// members splits a list of RFC 8941 3.1 at its commas, but not at those in Strings. It is
// not valid if a String does not end.
func members(list string) (all []string, valid bool) {
	start, quoted := 0, false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++ // what it escapes
		case c == ',' && !quoted:
			all = append(all, list[start:i])
			start = i + 1
		}
	}
	return append(all, list[start:]), !quoted
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
