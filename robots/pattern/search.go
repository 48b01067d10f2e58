package pattern

import "strings"

// A search looks for the pattern that decides about one path in normal form. Its cost is
// bounded, since it is easy to write a file full of wildcards or a long URL: a file of
// 500 KiB and a URL of 64 KiB would take a second.
type search struct {
	path string
	best *compiled // of those tried that match
	left int       // of maxEffort; below 0 the search gives up
}

// maxEffort is what one search may cost, counted roughly in octets looked at: a few
// milliseconds. Real files and URLs of a few hundred octets need a thousandth of it.
const maxEffort = 4 << 20

// The costs of other steps, in octets looked at.
const (
	indexEffort   = 64 // to ask one index
	patternEffort = 32 // to try one pattern
	pieceEffort   = 8  // to start looking for one of its pieces
	gramEffort    = 2  // to look up one gram of the path
)

// spend takes what something costs from what is left.
func (s *search) spend(effort int) { s.left -= effort }

// over reports whether the search has given up.
func (s *search) over() bool { return s.left < 0 }

// try goes through patterns, heaviest first. The first that matches becomes the best pattern,
// if it beats the present one.
func (s *search) try(patterns *patterns, ids []int32) {
	for _, id := range ids {
		c := &patterns.all[id]
		if s.over() || !c.beats(s.best) {
			return
		}
		if s.matches(c, patterns.cut(c.text)) {
			s.best = c
			return
		}
	}
}

// matches reports whether a pattern, whose text is given, matches the path. It looks for
// each literal piece once, from the end of the piece before. It never has to go back: for
// "*" the first occurrence is as good as any other.
func (s *search) matches(c *compiled, text string) bool {
	s.spend(patternEffort + len(text))
	piece, rest, more := strings.Cut(text, "*")
	path, found := strings.CutPrefix(s.path, piece)
	for found && more {
		piece, rest, more = strings.Cut(rest, "*")
		if !more && c.anchored {
			return strings.HasSuffix(path, piece)
		}
		path, found = s.after(path, piece)
	}
	return found && (!c.anchored || path == "")
}

// after returns what follows the first occurrence of a piece in path.
func (s *search) after(path, piece string) (rest string, found bool) {
	// The library finds a short piece in one pass. It might compare a long one in full
	// at every octet. So this searches for the head alone, and counts each comparison.
	const maxHead = 32
	head := piece[:min(len(piece), maxHead)]
	for {
		at := strings.Index(path, head)
		if at < 0 {
			s.spend(pieceEffort + len(path))
			return "", false
		}
		s.spend(pieceEffort + at)
		if len(piece) <= maxHead {
			return path[at+len(piece):], true
		}
		s.spend(len(piece))
		if rest, found = strings.CutPrefix(path[at:], piece); found || s.over() {
			return rest, found
		}
		path = path[at+1:]
	}
}
