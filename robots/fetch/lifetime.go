package fetch

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// lifetime is how long an answer with the header h counts: its Cache-Control max-age,
// bounded by min_ttl and max_ttl, or ttl if it states none. It ignores s-maxage, which is
// for shared caches of pages, and Expires, which depends on the origin's clock.
func (o *Options) lifetime(h http.Header) time.Duration {
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

// deltaSeconds parses the delta-seconds of RFC 9111 1.2.2, which are digits alone. A number
// that is too large counts as the largest.
func deltaSeconds(s string) (time.Duration, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	const maxSeconds = math.MaxInt64 / int64(time.Second)
	seconds, err := strconv.ParseInt(s, 10, 64)
	if err != nil || seconds > maxSeconds {
		seconds = maxSeconds
	}
	return time.Duration(seconds) * time.Second, true
}

// directives yields the directives of a Cache-Control value (RFC 9111 5.2): their names, in
// lower case, and their arguments. A comma within a quoted string does not end a directive.
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

// unquote removes the quotes of a quoted string. It leaves escapes as they are: no number
// needs any.
func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}
