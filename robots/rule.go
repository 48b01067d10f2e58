package robots

import "strings"

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
