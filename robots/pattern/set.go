package pattern

import "slices"

// Set is the patterns of one group. It does not change, and is safe for concurrent use. The
// zero Set has no patterns.
type Set struct {
	indexes []*index // of the group's sections, or one of all of them
}

// Match returns the pattern that decides about a path and query, as a client writes them:
// of the patterns that match, the longest; of several as long, the one of the greatest rank;
// of several such, the first in the file. If [Builder.FirstDecides], it is the first that
// matches. Match returns false if no pattern matches. It allocates nothing.
//
// What it may cost is bounded. Where file and path would take more than a few milliseconds
// it gives up, and returns the zero Pattern and true: its Line is 0.
func (s *Set) Match(path string) (p Pattern, found bool) {
	var f Search
	f.On(path, func() { p, found = f.Match(s) })
	return p, found
}

// Always reports whether patterns of these ranks decide about every path.
func (s *Set) Always(these ...Rank) bool {
	in, others := s.reach(these)
	return in.whole > others.top
}

// Never reports whether no pattern of these ranks decides about any path.
func (s *Set) Never(these ...Rank) bool {
	in, others := s.reach(these)
	return in.top == 0 || others.whole > in.top
}

// reach is what the weights of patterns tell about all paths: a pattern that matches every
// path beats all lighter ones, and patterns of different ranks never weigh the same. Every
// weight is greater than 0.
type reach struct {
	top   int32 // the greatest weight
	whole int32 // the greatest of the patterns that match every path
}

func (r *reach) add(c *compiled) {
	r.top = max(r.top, c.weight)
	if c.plain && c.text.len <= 1 { // "" or "/"
		r.whole = max(r.whole, c.weight)
	}
}

// reach returns the reach of the patterns of these ranks, and that of the others.
func (s *Set) reach(these []Rank) (in, others reach) {
	for _, x := range s.indexes {
		for rank := range x.reach {
			r := &others
			if slices.Contains(these, Rank(rank)) {
				r = &in
			}
			r.top = max(r.top, x.reach[rank].top)
			r.whole = max(r.whole, x.reach[rank].whole)
		}
	}
	return in, others
}
