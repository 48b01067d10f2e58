package robots

import (
	"cmp"
	"slices"
	"strings"
)

// index is a set of a file's rules, arranged to find the one that decides. It refers to
// rules by their index in the file, which is small and no pointer for the garbage
// collector to follow.
type index struct {
	rules *rules // all of the file
	plain []prefix
	wild  wild
	reach reach
}

// prefix is an entry of the index of plain rules, which is in order of text.
type prefix struct {
	text   span  // that of at least one plain rule
	best   int32 // of the plain rules whose texts are prefixes of this one
	parent int32 // the longest other entry whose text is a prefix of this one, or -1
}

// index makes an index of some of the file's rules.
func (a *arena) index(rules *rules, ids []int32) *index {
	a.indexes = append(a.indexes, index{rules: rules})
	x := &a.indexes[len(a.indexes)-1]
	plain, first := make([]int32, 0, len(ids)), len(a.wild)
	for _, id := range ids {
		rule := &rules.all[id]
		x.reach.add(rule)
		if rule.plain {
			plain = append(plain, id)
		} else {
			a.wild = append(a.wild, id)
		}
	}
	x.plain = a.prefixes(rules, plain)
	x.wild = newWild(rules, a.wild[first:len(a.wild):len(a.wild)])
	if w := &x.wild; w.starts != nil {
		a.filed += sizeOf[int32](cap(w.loose) + cap(w.filed) + cap(w.starts))
	}
	return x
}

func (a *arena) prefixes(rules *rules, ids []int32) []prefix {
	slices.SortFunc(ids, func(a, b int32) int { return strings.Compare(rules.textOf(a), rules.textOf(b)) })
	better := func(a, b int32) int32 {
		if rules.all[a].beats(&rules.all[b]) {
			return a
		}
		return b
	}
	out := a.plain[len(a.plain):]
	for _, id := range ids {
		p := prefix{text: rules.all[id].text, best: id, parent: int32(len(out) - 1)}
		text := rules.cut(p.text)
		if p.parent >= 0 && rules.cut(out[p.parent].text) == text {
			out[p.parent].best = better(id, out[p.parent].best)
			continue
		}
		// In this order every prefix of the text that is there is the last one
		// or one that the last one begins with.
		for p.parent >= 0 && !strings.HasPrefix(text, rules.cut(out[p.parent].text)) {
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

// match looks for the rule of the index that decides.
func (x *index) match(s *search) {
	s.spend(indexEffort)
	if r := x.matchPlain(s); r != nil && r.beats(s.best) {
		s.best = r
	}
	x.wild.match(s, x.rules)
}

func (x *index) matchPlain(s *search) *rule {
	// Each text that is a prefix of the path is the greatest text that is not greater
	// than the path, or a prefix of that.
	after, _ := slices.BinarySearchFunc(x.plain, s.path, func(p prefix, path string) int {
		return cmp.Or(strings.Compare(x.rules.cut(p.text), path), -1) // an equal text comes before
	})
	if after == 0 {
		return nil
	}
	p := &x.plain[after-1]
	common := uint32(commonPrefix(x.rules.cut(p.text), s.path))
	s.spend(int(common))
	for p.text.len > common {
		if p.parent < 0 {
			return nil
		}
		p = &x.plain[p.parent]
	}
	return &x.rules.all[p.best]
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

// reach is what the weights of a set of rules tell about its extent.
type reach struct {
	allow, disallow       int32 // the greatest weight; 0 if there is none
	allowAll, disallowAll int32 // the same of the rules that match every path
}

func (x *reach) add(r *rule) {
	all := int32(0)
	if r.plain && r.text.len <= 1 { // "" or "/"
		all = r.weight
	}
	if r.allow {
		x.allow, x.allowAll = max(x.allow, r.weight), max(x.allowAll, all)
	} else {
		x.disallow, x.disallowAll = max(x.disallow, r.weight), max(x.disallowAll, all)
	}
}

func (x *reach) join(y reach) {
	x.allow, x.allowAll = max(x.allow, y.allow), max(x.allowAll, y.allowAll)
	x.disallow, x.disallowAll = max(x.disallow, y.disallow), max(x.disallowAll, y.disallowAll)
}

// extent relies on this: a rule that matches every path beats all lighter ones,
// and an Allow and a Disallow never weigh the same.
func (x *reach) extent() Extent {
	switch {
	case x.disallow == 0 || x.allowAll > x.disallow:
		return Everything
	case x.disallowAll > x.allow:
		return Nothing
	default:
		return Part
	}
}
