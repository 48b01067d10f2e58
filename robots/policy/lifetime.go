package policy

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// lifetime is how long an answer with this header counts: its Cache-Control
// max-age within the bounds, or ttl. s-maxage is for shared caches of pages
// and Expires depends on the origin's clock, so neither is looked at.
func (o Options) lifetime(h http.Header) time.Duration {
	lifetime, given := min(o.TTL, o.MaxTTL), false
	for name, value := range directives(strings.Join(h.Values("Cache-Control"), ",")) {
		switch name {
		case "no-store", "no-cache":
			return o.MinTTL
		case "max-age":
			if age, ok := deltaSeconds(value); ok && !given {
				lifetime = min(max(age, o.MinTTL), o.MaxTTL)
			}
			given = true // RFC 9111 4.2.1: of several, the first
		}
	}
	return lifetime
}

// deltaSeconds reads RFC 9111 1.2.2: digits alone, and more of them than can
// be counted are a very long time.
func deltaSeconds(s string) (time.Duration, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	const longest = math.MaxInt64 / int64(time.Second)
	seconds, err := strconv.ParseInt(s, 10, 64)
	if err != nil || seconds > longest {
		seconds = longest
	}
	return time.Duration(seconds) * time.Second, true
}

// directives yields the names, in lower case, and arguments of a Cache-Control
// value: RFC 9111 5.2. A comma within a quoted string does not end one.
func directives(s string) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		for s != "" {
			var directive string
			directive, s = cutDirective(s)
			name, value, _ := strings.Cut(strings.Trim(directive, " \t"), "=")
			if !yield(strings.ToLower(name), unquote(value)) {
				return
			}
		}
	}
}

// cutDirective cuts s at its first comma outside a quoted string.
func cutDirective(s string) (directive, rest string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == '\\' && quoted:
			i++
		case s[i] == ',' && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// unquote takes the quotes off a quoted string. What was escaped in it stays
// so, as no number needs it.
func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}
