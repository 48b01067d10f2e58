package robots

import (
	"strings"

	"robotsproxy/robots/urlpath"
)

// Rule is an Allow or Disallow line.
type Rule struct {
	Allow   bool
	Pattern string // as written in the file
	Line    int    // from 1
}

// String is the rule as a line of a robots.txt.
func (r Rule) String() string {
	if r.Allow {
		return strings.TrimSpace("Allow: " + r.Pattern)
	}
	return strings.TrimSpace("Disallow: " + r.Pattern)
}

// rule is a Rule compiled for matching. It holds no pointers, since the garbage collector
// would have to follow those of the millions of rules that may be in memory.
type rule struct {
	pattern  span // as written
	text     span // the pattern in normal form, without a last "*" or "$"
	line     int32
	weight   int32 // twice the pattern's length in octets, and one more for an Allow
	allow    bool
	anchored bool // the match must end where the path ends
	plain    bool // it matches all paths that begin with its text
}

// span is a piece of the text of rules. An octet of a file adds at most four octets to
// that text: itself in the pattern, and %XX in the normal form. So 32 bits are enough for
// files of 1 GiB.
type span struct{ at, len uint32 }

// rules are the rules of a file, in its order, and the text that their spans point into.
// The names of the file's groups and its sitemaps are pieces of that text too.
type rules struct {
	text string
	all  []rule
}

func (rs *rules) cut(s span) string { return rs.text[s.at : s.at+s.len] }

// textOf is the text of the rule with that index in the file.
func (rs *rules) textOf(id int32) string { return rs.cut(rs.all[id].text) }

func (rs *rules) size() int64 { return int64(len(rs.text)) + sizeOf[rule](cap(rs.all)) }

// compile compiles a rule. To dst, the text of its file so far, it appends the rule's
// pattern and, if that differs, its normal form. False if the rule can match nothing,
// since every path begins with a slash.
func (r Rule) compile(dst []byte) (rule, []byte, bool) {
	text := r.Pattern
	if text == "" || text[0] != '/' && text[0] != '*' {
		return rule{}, dst, false
	}
	pattern := span{uint32(len(dst)), uint32(len(text))}
	dst = append(dst, text...)
	text, anchored := strings.CutSuffix(text, "$")
	octets, at := len(text), pattern.at
	if !urlpath.IsNormalPattern(text) {
		// A literal "$" or "*" is one octet in the normal form, but counts as written.
		octets = 2 * (strings.Count(text, "%24") + strings.Count(text, "%2A") + strings.Count(text, "%2a"))
		at = uint32(len(dst))
		dst = urlpath.AppendPattern(dst, text)
		text = view(dst[at:])
		octets += len(text)
	}
	if anchored {
		octets++
	}
	if strings.HasSuffix(text, "*") {
		text, anchored = strings.TrimRight(text, "*"), false
	}
	weight := int32(2 * octets)
	if r.Allow {
		weight++
	}
	return rule{
		pattern:  pattern,
		text:     span{at, uint32(len(text))},
		line:     int32(r.Line),
		weight:   weight,
		allow:    r.Allow,
		anchored: anchored,
		plain:    !anchored && strings.IndexByte(text, '*') < 0,
	}, dst, true
}

// beats reports whether the rule decides where both match (RFC 9309 2.2.2).
func (r *rule) beats(other *rule) bool {
	if other == nil || r.weight != other.weight {
		return other == nil || r.weight > other.weight
	}
	return r.line < other.line
}
