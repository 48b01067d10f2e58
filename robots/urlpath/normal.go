// Package urlpath reads the path and query of URLs as robots.txt needs them: in the normal
// form in which they are compared with patterns, and as common servers read them. Paths
// begin with a slash and have no fragment.
package urlpath

import (
	"bytes"
	"strings"
	"sync"
	"unsafe"
)

// In the normal form, paths and patterns are compared octet by octet (RFC 9309 2.2.2,
// RFC 3986 6.2.2):
//
//   - %XX of an unreserved character is that character; any other %XX has upper-case hex;
//   - an octet over 0x7F, or one that no URI may hold, is %XX;
//   - a reserved character stays as it was written, %XX or not;
//   - "*" and "$", special in a pattern, may be written %2A and %24 to be literal, on
//     either side (RFC 9309 2.2.3): a literal "$" is "$", since the special one is
//     taken off its pattern, and a literal "*" is a NUL, which nothing else can be;
//   - a "%" that begins no %XX stays ("Disallow: /*%" is seen on real sites);
//   - the path of a URL, unlike a pattern or a query, has no dot segments.

// What an octet is to the normal form.
const (
	ordinary    = iota // stands for itself
	unsafeOctet        // is always written as %XX
	percent
	slash
	question
	star
)

var classes = func() (t [256]uint8) {
	for c := range t {
		t[c] = unsafeOctet
		if isUnreserved(byte(c)) || strings.IndexByte(":#[]@!$&'()+,;=", byte(c)) >= 0 {
			t[c] = ordinary
		}
	}
	t['%'], t['/'], t['?'], t['*'] = percent, slash, question, star
	return t
}()

func isUnreserved(c byte) bool {
	return isLetter(c) || isDigit(c) || c == '-' || c == '.' || c == '_' || c == '~'
}

// isNormal reports, in one pass, whether a URL's path and query are in normal
// form, as nearly all are.
func isNormal(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	query := false
	for i := 0; i < len(path); i++ {
		class := classes[path[i]]
		if class == ordinary { // nearly all are, and a switch would look for them last
			continue
		}
		switch class {
		case slash:
			if !query && maybeDots(path[i+1:]) {
				return false
			}
		case question:
			query = true
		case percent:
			if !isNormalEscape(path[i:]) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// maybeDots reports whether s may begin with a dot segment. It may say so wrongly.
func maybeDots(s string) bool {
	return s != "" && s[0] == '.' && (len(s) == 1 || strings.IndexByte("./?%", s[1]) >= 0)
}

// IsNormalPattern reports whether a pattern, without a "$" at its end, is in normal form.
func IsNormalPattern(s string) bool {
	for i := 0; i < len(s); i++ {
		switch classes[s[i]] {
		case unsafeOctet:
			return false
		case percent:
			if !isNormalEscape(s[i:]) {
				return false
			}
		}
	}
	return true
}

func isNormalEscape(s string) bool {
	c, ok := Unescape(s)
	return !ok || !isUnreserved(c) && c != '*' && c != '$' && !isLower(s[1]) && !isLower(s[2])
}

// appendNormal appends the normal form of a URL's path and query.
func appendNormal(dst []byte, path string) []byte {
	path, query, hasQuery := strings.Cut(path, "?")
	path = strings.TrimPrefix(path, "/")
	for more := true; more; {
		var segment string
		segment, path, more = strings.Cut(path, "/")
		start := len(dst)
		dst = append(dst, '/')
		dst = appendEscaped(dst, segment, false)
		switch string(dst[start+1:]) {
		case "..":
			start = max(bytes.LastIndexByte(dst[:start], '/'), 0)
			fallthrough
		case ".":
			dst = dst[:start]
			if !more {
				dst = append(dst, '/')
			}
		}
	}
	if hasQuery {
		dst = append(dst, '?')
		dst = appendEscaped(dst, query, false)
	}
	return dst
}

// AppendPattern appends to dst the normal form of a pattern, without a "$" at its end, and
// returns the extended slice. An octet becomes at most three. Each "*" in the result is a
// wildcard.
func AppendPattern(dst []byte, pattern string) []byte { return appendEscaped(dst, pattern, true) }

// appendEscaped appends the normal form of s, which has no structure but the wildcards
// of a pattern.
func appendEscaped(dst []byte, s string, pattern bool) []byte {
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		c := s[i]
		escape := classes[c] == unsafeOctet
		literalStar := classes[c] == star && !pattern
		if classes[c] == percent {
			if octet, ok := Unescape(s[i:]); ok {
				c, i = octet, i+2
				literalStar = c == '*'
				escape = !isUnreserved(c) && c != '$'
			}
		}
		switch {
		case literalStar:
			dst = append(dst, 0)
		case escape:
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// WithNormal calls do with the normal form of a path and query. The text is valid until do
// returns. WithNormal allocates nothing but, now and then, a larger buffer.
func WithNormal(path string, do func(normal string)) {
	if isNormal(path) {
		do(path)
		return
	}
	buffer, _ := normalBuffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new([]byte)
	}
	if size := 3*len(path) + 1; cap(*buffer) < size {
		*buffer = make([]byte, 0, size)
	}
	do(view(appendNormal((*buffer)[:0], path)))
	normalBuffers.Put(buffer)
}

// normalBuffers holds buffers for normal forms, none of them much longer than three times
// the longest path asked for.
var normalBuffers sync.Pool

// view returns b as a string, without a copy. b must not change while the string is in use.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Unescape returns the octet of the %XX that s begins with; false if the % begins none.
// Callers must have checked that s begins with a %.
func Unescape(s string) (byte, bool) {
	if len(s) < 3 {
		return 0, false
	}
	hi, ok1 := unhex(s[1])
	lo, ok2 := unhex(s[2])
	return hi<<4 | lo, ok1 && ok2
}

func unhex(c byte) (byte, bool) {
	switch {
	case isDigit(c):
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLower(c byte) bool  { return 'a' <= c && c <= 'z' }
func isLetter(c byte) bool { return isLower(c | 0x20) }
