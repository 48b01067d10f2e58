package robots

import "strings"

// everyone is the name of the group for all bots.
const everyone = "*"

// agentNames returns the two names that a user-agent value stands for. Either may be "".
// name is its whole first word without a "/version" and a "*" at the end (MJ12bot,
// archive.org_bot). lead is the letters, "-" and "_" that it begins with, the only
// characters that RFC 9309 2.2.1 allows in a product token.
func agentNames(value string) (name, lead string) {
	name = agentName(value)
	if name == everyone {
		return everyone, everyone
	}
	end := 0
	for end < len(value) && (isLetter(value[end]) || value[end] == '-' || value[end] == '_') {
		end++
	}
	return name, value[:end]
}

// agentName returns the name in the first word of a product token or of a user-agent value; ""
// if there is none.
func agentName(value string) string {
	name := trimSpace(value)
	for i := range len(name) {
		if isSpace(name[i]) {
			name = name[:i]
			break
		}
	}
	if name == everyone {
		return everyone
	}
	name, _, _ = strings.Cut(name, "/")
	name = strings.TrimSuffix(name, "*")
	if name == everyone {
		return "" // "**" and "*/1" are nobody's name
	}
	return name
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isSpace(c byte) bool  { return c == ' ' || '\t' <= c && c <= '\r' }

// appendLower appends s with its ASCII letters in lower case.
func appendLower(dst []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		dst = append(dst, c)
	}
	return dst
}
