package pattern

import (
	"slices"
	"strings"
)

// index has some of a file's patterns, arranged to find the one that decides. It refers to
// patterns by their index in the file, which is small, and no pointer for the garbage
// collector to follow.
type index struct {
	patterns *patterns // all of the file
	plain    []prefix
	wild     wild
	reach    [ranks]reach // of the patterns of each rank
}

// prefix is an entry of the index of plain patterns, which is sorted by text.
type prefix struct {
	text   span  // that of at least one plain pattern
	best   int32 // of the plain patterns whose texts are prefixes of this one
	parent int32 // the longest other entry whose text is a prefix of this one, or -1
}

// index makes an index of some of the file's patterns.
func (a *arena) index(patterns *patterns, ids []int32) *index {
	a.indexes = append(a.indexes, index{patterns: patterns})
	x := &a.indexes[len(a.indexes)-1]
	plain, first := make([]int32, 0, len(ids)), len(a.wild)
	for _, id := range ids {
		c := &patterns.all[id]
		x.reach[c.rank()].add(c)
		if c.plain {
			plain = append(plain, id)
		} else {
			a.wild = append(a.wild, id)
		}
	}
	x.plain = a.prefixes(patterns, plain)
	x.wild = newWild(patterns, a.wild[first:len(a.wild):len(a.wild)])
	if w := &x.wild; w.starts != nil {
		a.filed += sizeOf[int32](cap(w.loose) + cap(w.filed) + cap(w.starts))
	}
	return x
}

func (a *arena) prefixes(patterns *patterns, ids []int32) []prefix {
	slices.SortFunc(ids, func(a, b int32) int { return strings.Compare(patterns.textOf(a), patterns.textOf(b)) })
	better := func(a, b int32) int32 {
		if patterns.all[a].beats(&patterns.all[b]) {
			return a
		}
		return b
	}
	out := a.plain[len(a.plain):]
	for _, id := range ids {
		p := prefix{text: patterns.all[id].text, best: id, parent: int32(len(out) - 1)}
		text := patterns.cut(p.text)
		if p.parent >= 0 && patterns.cut(out[p.parent].text) == text {
			out[p.parent].best = better(id, out[p.parent].best)
			continue
		}
		// In this order every prefix of the text that is there is the last one
		// or one that the last one begins with.
		for p.parent >= 0 && !strings.HasPrefix(text, patterns.cut(out[p.parent].text)) {
			p.parent = out[p.parent].parent
		}
		if p.parent >= 0 {
			p.best = better(id, out[p.parent].best)
		}
		out = append(out, p)
	}
	a.plain = a.plain[:len(a.plain)+len(out)]
	return out[:len(out):len(out)]
}

// match looks for the pattern of the index that decides.
func (x *index) match(s *Search) {
	s.spend(indexEffort)
	if c := x.matchPlain(s); c != nil && c.beats(s.best) {
		s.best = c
	}
	x.wild.match(s, x.patterns)
}

func (x *index) matchPlain(s *Search) *compiled {
	// Each text that is a prefix of the path is the greatest text that is not greater
	// than the path, or a prefix of that.
	after, end := 0, len(x.plain)
	for after < end {
		if at := int(uint(after+end) / 2); x.patterns.cut(x.plain[at].text) <= s.path {
			after = at + 1
		} else {
			end = at
		}
	}
	if after == 0 {
		return nil
	}
	p := &x.plain[after-1]
	common := uint32(commonPrefix(x.patterns.cut(p.text), s.path))
	s.spend(int(common))
	for p.text.len > common {
		if p.parent < 0 {
			return nil
		}
		p = &x.plain[p.parent]
	}
	return &x.patterns.all[p.best]
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
