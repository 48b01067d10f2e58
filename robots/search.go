package robots

import "strings"

// A search looks for the rule that decides about one path in normal form. What it
// may cost is bounded, since a file that is all wildcards, or a long URL, is easily
// written: a file of 500 KiB and a URL of 64 KiB would take a second.
type search struct {
	path string
	best *rule // of those tried that match
	left int   // of maxEffort; below 0 the search gives up
}

// maxEffort is what one search may cost, about in octets looked at: a few
// milliseconds. Real files and URLs of a few hundred octets need a thousandth.
const maxEffort = 4 << 20

// What else counts as so many octets looked at.
const (
	indexEffort = 64 // to ask one index
	ruleEffort  = 32 // to try one rule
	pieceEffort = 8  // to begin to look for one of its pieces
	gramEffort  = 2  // to look up one gram of the path
)

// spend takes what something costs from what is left.
func (s *search) spend(effort int) { s.left -= effort }

// over reports whether the search has given up.
func (s *search) over() bool { return s.left < 0 }

// try makes the first of the rules, heaviest first, that matches the best one, if it
// beats that which is.
func (s *search) try(rules *rules, ids []int32) {
	for _, id := range ids {
		r := &rules.all[id]
		if s.over() || !r.beats(s.best) {
			return
		}
		if s.matches(r, rules.cut(r.text)) {
			s.best = r
			return
		}
	}
}

// matches reports whether a rule, of that text, matches the path. It looks for each
// literal piece once, from where the one before ended: for "*" the first place is as
// good as any, so there is nothing to go back to.
func (s *search) matches(r *rule, text string) bool {
	s.spend(ruleEffort + len(text))
	piece, rest, more := strings.Cut(text, "*")
	path, found := strings.CutPrefix(s.path, piece)
	for found && more {
		piece, rest, more = strings.Cut(rest, "*")
		if !more && r.anchored {
			return strings.HasSuffix(path, piece)
		}
		path, found = s.after(path, piece)
	}
	return found && (!r.anchored || path == "")
}

// after gives what follows the first place where path holds a piece.
func (s *search) after(path, piece string) (rest string, found bool) {
	// The library finds a short piece in one pass. A long one may be compared at
	// each place at its full length: so only its beginning is searched for, and
	// each comparison counts.
	const short = 32
	head := piece[:min(len(piece), short)]
	for {
		at := strings.Index(path, head)
		if at < 0 {
			s.spend(pieceEffort + len(path))
			return "", false
		}
		s.spend(pieceEffort + at)
		if len(piece) <= short {
			return path[at+len(piece):], true
		}
		s.spend(len(piece))
		if rest, found = strings.CutPrefix(path[at:], piece); found || s.over() {
			return rest, found
		}
		path = path[at+1:]
	}
}
