package pattern

import "robotsproxy/robots/urlpath"

// Set is the patterns of one group. It does not change, and is safe for concurrent use. The
// zero Set has no patterns.
type Set struct {
	indexes []*index // of the group's sections, or one of all of them
}

// Match returns the pattern that decides about a path and query, as a client writes them:
// of the patterns that match, the longest; of several as long, the one of the greatest rank;
// of several such, the first in the file. It returns false if no pattern matches. It
// allocates nothing.
//
// What it may cost is bounded. Where file and path would take more than a few milliseconds
// it gives up, and returns the zero Pattern and true: its Line is 0.
func (s *Set) Match(path string) (Pattern, bool) {
	f := search{left: maxEffort}
	s.find(path, &f)
	if f.over() {
		return Pattern{}, true
	}
	if f.best == nil {
		return Pattern{}, false
	}
	written := s.indexes[0].patterns.cut(f.best.written)
	return Pattern{Text: written, Rank: f.best.rank(), Line: int(f.best.line)}, true
}

func (s *Set) find(path string, f *search) {
	urlpath.WithNormal(path, func(normal string) {
		f.path = normal
		for _, x := range s.indexes {
			if x.match(f); f.over() {
				return
			}
		}
	})
}

// Always reports whether a pattern of this rank decides about every path.
func (s *Set) Always(rank Rank) bool {
	r := s.reach()
	for other := range Rank(ranks) {
		if other != rank && r.whole[rank] <= r.top[other] {
			return false
		}
	}
	return r.whole[rank] > 0
}

// Never reports whether no pattern of this rank decides about any path.
func (s *Set) Never(rank Rank) bool {
	r := s.reach()
	for other := range Rank(ranks) {
		if other != rank && r.whole[other] > r.top[rank] {
			return true
		}
	}
	return r.top[rank] == 0
}

// reach is what the weights of patterns tell about all paths: a pattern that matches every
// path beats all lighter ones, and patterns of different ranks never weigh the same.
type reach struct {
	top   [ranks]int32 // the greatest weight of each rank; 0 if there is none
	whole [ranks]int32 // the same of the patterns that match every path
}

func (r *reach) add(c *compiled) {
	rank := c.rank()
	r.top[rank] = max(r.top[rank], c.weight)
	if c.plain && c.text.len <= 1 { // "" or "/"
		r.whole[rank] = max(r.whole[rank], c.weight)
	}
}

func (s *Set) reach() (all reach) {
	for _, x := range s.indexes {
		for rank := range all.top {
			all.top[rank] = max(all.top[rank], x.reach.top[rank])
			all.whole[rank] = max(all.whole[rank], x.reach.whole[rank])
		}
	}
	return all
}
