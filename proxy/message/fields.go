// Package message does to HTTP messages what every proxy must do to those that pass (RFC
// 9110 7.6): it strips the fields of one connection, counts hops, relays interim responses,
// and sees bodies to their end. [Upload], [Download] and [Writer] carry a request's body, a
// response's body, and what the client gets.
package message

import (
	"net/http"
	"slices"
	"strings"
)

// hopByHop are the fields that concern one connection alone (RFC 9110 7.6.1), besides
// those that Connection names.
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

// StripRequest removes from a request's header what a proxy must not pass on. It leaves a
// WebSocket's upgrade, and that trailers are welcome.
func StripRequest(h http.Header) { stripHopByHop(h, IsWebSocket(h)) }

// StripResponse removes from a response's header, or from its trailers, what a proxy must
// not pass on: the fields of one connection, Alt-Svc, and members of Proxy-Status that
// claim to come from this proxy, which is called name. It leaves the upgrade of a response
// that switches to WebSocket.
//
// Alt-Svc (RFC 7838) sends a client to another host, whose tunnels another robots.txt
// governs. The HTTP/2 frame of that name never gets here: net/http ignores it.
func StripResponse(h http.Header, name string, switchesToWebSocket bool) {
	stripHopByHop(h, switchesToWebSocket)
	delete(h, "Alt-Svc")
	if h["Proxy-Status"] != nil {
		dropOwnStatus(h, name)
	}
}

func stripHopByHop(h http.Header, websocket bool) {
	trailers := hasToken(h, "Te", "trailers")
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			// The gate judges by User-Agent, and a loop is detected by Via.
			if name != "User-Agent" && name != "Via" {
				delete(h, name)
			}
		}
	}
	for _, name := range hopByHop {
		if h[name] != nil { // to look for a field takes a third of what it takes to delete it
			delete(h, name)
		}
	}
	if websocket {
		h["Connection"] = []string{"Upgrade"}
		h["Upgrade"] = []string{"websocket"}
	}
	if trailers {
		h["Te"] = []string{"trailers"}
	}
}

// IsWebSocket reports whether a request asks to speak WebSocket (RFC 6455 4.1).
func IsWebSocket(h http.Header) bool {
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

// dropOwnStatus removes the members of Proxy-Status (RFC 9209 2) that bear this proxy's
// name, by which a client tells the proxy's answers from the origin's. A field that is
// malformed means nothing (RFC 8941 4.2) and is removed as a whole.
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
// which may be written as a Token or as a String (RFC 9209 2). It ignores case, since some
// clients may.
func isNamed(member, name string) bool {
	member = strings.Trim(member, " \t")
	if text, quoted := strings.CutPrefix(member, `"`); quoted {
		member, _, _ = strings.Cut(strings.ReplaceAll(text, `\`, ""), `"`)
	} else if end := strings.IndexAny(member, "; \t"); end >= 0 {
		member = member[:end]
	}
	return strings.EqualFold(strings.Trim(member, " \t"), name)
}

// members splits a list (RFC 8941 3.1) at its commas, but not at those in Strings. It is
// not valid if a String does not end.
func members(list string) (all []string, valid bool) {
	start, quoted := 0, false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++ // the character that it escapes
		case c == ',' && !quoted:
			all = append(all, list[start:i])
			start = i + 1
		}
	}
	return append(all, list[start:]), !quoted
}
