package robots

import "strings"

// Rule is an Allow or Disallow line.
type Rule struct {
	Allow   bool
	Pattern string // as written in the file
	Line    int    // from 1
}

// String is the rule as a line of a robots.txt.
func (r *Rule) String() string {
	if r.Allow {
		return strings.TrimSpace("Allow: " + r.Pattern)
	}
	return strings.TrimSpace("Disallow: " + r.Pattern)
}

// rule is a Rule made ready to match.
type rule struct {
	Rule
	text     string // the pattern in normal form, without a last "*" or "$"
	weight   int32  // twice the pattern's length in octets, and one more for an Allow
	anchored bool   // the match must end where the path ends
	plain    bool   // it matches all paths that begin with its text
}

// newRule makes a rule ready; false if it can match nothing, since a path begins
// with a slash.
func newRule(r Rule) (rule, bool) {
	text := r.Pattern
	if text == "" || text[0] != '/' && text[0] != '*' {
		return rule{}, false
	}
	text, anchored := strings.CutSuffix(text, "$")
	octets := len(text)
	if !isNormalPattern(text) {
		// A literal "$" or "*" is one octet in the normal form, but counts as written.
		octets = 2 * (strings.Count(text, "%24") + strings.Count(text, "%2A") + strings.Count(text, "%2a"))
		text = string(appendEscaped(nil, text, true))
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
	plain := !anchored && strings.IndexByte(text, '*') < 0
	return rule{Rule: r, text: text, weight: weight, anchored: anchored, plain: plain}, true
}

// beats reports whether the rule decides where both match (RFC 9309 2.2.2).
func (r *rule) beats(other *rule) bool {
	if other == nil || r.weight != other.weight {
		return other == nil || r.weight > other.weight
	}
	return r.Line < other.Line
}

// match reports whether the rule matches a path in normal form. It looks for
// each literal piece once, from where the one before ended: for "*" the first
// place is as good as any, so there is nothing to go back to.
func (r *rule) match(path string) bool {
	piece, rest, more := strings.Cut(r.text, "*")
	if !strings.HasPrefix(path, piece) {
		return false
	}
	if !more {
		return !r.anchored || len(path) == len(piece)
	}
	path = path[len(piece):]
	for {
		piece, rest, more = strings.Cut(rest, "*")
		if !more && r.anchored {
			return strings.HasSuffix(path, piece)
		}
		i := strings.Index(path, piece)
		if i < 0 || !more {
			return i >= 0
		}
		path = path[i+len(piece):]
	}
}
