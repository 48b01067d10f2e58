package message

import (
	"net/http"
	"slices"
	"strings"
)

// Via is a proxy's member of the Via field (RFC 9110 7.6.3). All messages share it.
type Via struct {
	name                  string
	http10, http11, http2 []string // by the version of HTTP in which a message was received
}

// NewVia returns the member of the proxy that is called name: a token.
func NewVia(name string) Via {
	return Via{name, []string{"1.0 " + name}, []string{"1.1 " + name}, []string{"2 " + name}}
}

// AddTo adds the member to the header of a message that was received in a version of HTTP.
func (v *Via) AddTo(h http.Header, major, minor int) {
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

// IsIn reports whether a message has passed the proxy before.
func (v *Via) IsIn(h http.Header) bool {
	for _, line := range h["Via"] {
		for member := range strings.SplitSeq(line, ",") {
			if f := strings.Fields(member); len(f) >= 2 && strings.EqualFold(f[1], v.name) {
				return true
			}
		}
	}
	return false
}
