package pattern

import (
	"strings"

	"robotsproxy/robots/urlpath"
)

// A Search asks sets which pattern decides about one path. It brings the path to its normal
// form once. It bounds what all the sets together cost, since a file full of wildcards and a
// long URL are easy to write: a file of 500 KiB and a URL of 64 KiB would take a second.
type Search struct {
	path string    // in normal form
	best *compiled // of those tried that match
	left int       // of maxEffort; below 0 the search gives up
}

// On sets the path and query to search for, as a client writes them, and calls ask, which
// may call Match until it returns.
func (s *Search) On(path string, ask func()) {
	s.left = maxEffort
	urlpath.WithNormal(path, func(normal string) {
		s.path = normal
		ask()
	})
}

// Match does for the path of the Search what [Set.Match] does. If it has given up on one
// set, it gives up on all that follow.
func (s *Search) Match(set *Set) (Pattern, bool) {
	s.best = nil
	for _, x := range set.indexes {
		if s.over() {
			break
		}
		x.match(s)
	}
	if s.over() {
		return Pattern{}, true
	}
	if s.best == nil {
		return Pattern{}, false
	}
	written := set.indexes[0].patterns.cut(s.best.written)
	return Pattern{Text: written, Rank: s.best.rank(), Line: int(s.best.line)}, true
}

// maxEffort bounds the cost of one search, counted roughly in octets compared: a few
// milliseconds. Real files and URLs of a few hundred octets need a thousandth of it.
const maxEffort = 4 << 20

// The costs of other steps, in octets compared.
const (
	indexEffort   = 64 // to search one index
	patternEffort = 32 // to try one pattern
	pieceEffort   = 8  // to start to search for one of its pieces
	gramEffort    = 2  // to look up one gram of the path
)

// spend subtracts a cost from what is left.
func (s *Search) spend(effort int) { s.left -= effort }

// over reports whether the search has given up.
func (s *Search) over() bool { return s.left < 0 }

// try tries patterns in order; the heaviest must come first. The first that matches and beats
// the best pattern so far becomes the best.
func (s *Search) try(patterns *patterns, ids []int32) {
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

// matches reports whether a pattern with this text matches the path. It searches for each
// literal piece once, from the end of the piece before. It never has to go back, since for
// "*" the first occurrence is as good as any other.
func (s *Search) matches(c *compiled, text string) bool {
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
func (s *Search) after(path, piece string) (rest string, found bool) {
	// The library finds a short piece in one pass, but may compare a long one in full at
	// every octet. So this searches only for the head, and counts each comparison.
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
