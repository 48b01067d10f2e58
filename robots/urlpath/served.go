package urlpath

import (
	"bytes"
	"strings"
)

// AsServed returns a URL's path and query as common servers read them to find what to serve:
// they decode reserved octets, merge slashes, and then resolve dot segments. RFC 9309 does
// none of this, so by it /open//../private and /%2Fprivate are not under /private. But nginx,
// Apache and Python serve what is there.
//
// Some octets stay escaped: a "?" in the path, which begins no query, those in the query that
// would divide it differently, and those that no URI may hold.
func AsServed(path string) string {
	if strings.IndexByte(path, '%') < 0 && !strings.Contains(path, "//") && !strings.Contains(path, "/.") {
		return path // as nearly all are
	}
	path, query, hasQuery := strings.Cut(path, "?")
	read := append(make([]byte, 0, len(path)+len(query)+2), '/') // as a path begins
	read = resolve(appendDecoded(read, path, "?"))
	if hasQuery {
		read = append(read, '?')
		read = appendDecoded(read, query, "&=+;#")
	}
	return string(read)
}

// appendDecoded appends s with all reserved and unreserved octets decoded, except those in
// keep.
func appendDecoded(dst []byte, s, keep string) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			if octet, ok := Unescape(s[i:]); ok && classes[octet] != unsafeOctet && octet != '%' && strings.IndexByte(keep, octet) < 0 {
				c, i = octet, i+2
			}
		}
		dst = append(dst, c)
	}
	return dst
}

// resolve merges slashes and removes dot segments, in place. The path begins with a
// slash.
func resolve(path []byte) []byte {
	out := path[:0]
	rest := bytes.TrimLeft(path, "/")
	for {
		segment, after, more := bytes.Cut(rest, []byte("/"))
		switch string(segment) {
		case "..":
			out = out[:max(bytes.LastIndexByte(out, '/'), 0)]
			fallthrough
		case ".":
			if !more {
				return append(out, '/')
			}
		default:
			out = append(append(out, '/'), segment...)
			if !more {
				return out
			}
		}
		if rest = bytes.TrimLeft(after, "/"); len(rest) == 0 {
			return append(out, '/')
		}
	}
}
