package pattern

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// wild has the patterns with a "*" inside or a "$" at the end. Their prefixes do not help to
// find them: on many sites they all begin with "/*".
//
// If there are few, a search tries them all. If there are many, each is filed under one of the
// three-octet pieces (grams) of its text: the one that the fewest other patterns have. No path
// without that gram can match. So a search tries only the patterns filed under the grams of
// its path, and those too short to have a gram.
type wild struct {
	loose  []int32 // heaviest first
	filed  []int32 // by drawer, in each heaviest first
	starts []int32 // where each drawer starts in filed; nil if nothing is filed
}

const (
	gramLen     = 3
	fewPatterns = 12      // up to that many, to try all is faster than to go through the path
	maxDrawers  = 1 << 13 // matchFiled keeps a bit for each on its stack
)

func newWild(patterns *patterns, ids []int32) wild {
	slices.SortFunc(ids, func(a, b int32) int {
		return cmp.Or(cmp.Compare(patterns.all[b].weight, patterns.all[a].weight), cmp.Compare(a, b))
	})
	if len(ids) <= fewPatterns {
		return wild{loose: ids}
	}

	// Count the grams of each drawer.
	drawers := min(1<<bits.Len(uint(2*len(ids))), maxDrawers)
	shift := drawerShift(drawers)
	held := make([]int32, drawers)
	for _, id := range ids {
		eachGram(patterns.textOf(id), shift, func(drawer uint32) { held[drawer]++ })
	}

	// Choose the drawer of each pattern, and count the patterns of each drawer.
	w := wild{starts: make([]int32, drawers+1)}
	choice := make([]int32, len(ids))
	for i, id := range ids {
		choice[i] = -1
		eachGram(patterns.textOf(id), shift, func(drawer uint32) {
			if choice[i] < 0 || held[drawer] < held[choice[i]] {
				choice[i] = int32(drawer)
			}
		})
		if choice[i] < 0 {
			w.loose = append(w.loose, id)
		} else {
			w.starts[choice[i]+1]++
		}
	}

	// Put the patterns into their drawers, in each in the order of ids.
	for d := range drawers {
		w.starts[d+1] += w.starts[d]
	}
	w.filed = make([]int32, len(ids)-len(w.loose))
	next := slices.Clone(w.starts)
	for i, id := range ids {
		if d := choice[i]; d >= 0 {
			w.filed[next[d]] = id
			next[d]++
		}
	}
	return w
}

// eachGram calls do with the drawer of every gram of a pattern's text.
func eachGram(text string, shift int, do func(drawer uint32)) {
	for more := true; more; {
		var piece string
		piece, text, more = strings.Cut(text, "*")
		for i := gramLen; i <= len(piece); i++ {
			do(drawerOf(piece[i-gramLen:i], shift))
		}
	}
}

// drawerOf hashes a gram by the golden ratio (Knuth). shift leaves as many bits as the number
// of drawers has.
func drawerOf(gram string, shift int) uint32 {
	return (uint32(gram[0])<<16 | uint32(gram[1])<<8 | uint32(gram[2])) * 2654435769 >> shift
}

func drawerShift(drawers int) int { return 33 - bits.Len(uint(drawers)) }

// match looks for the pattern of the set that decides.
func (w *wild) match(s *Search, patterns *patterns) {
	s.try(patterns, w.loose)
	if w.starts != nil {
		w.matchFiled(s, patterns)
	}
}

func (w *wild) matchFiled(s *Search, patterns *patterns) {
	path := s.path
	s.spend(gramEffort * len(path))
	shift := drawerShift(len(w.starts) - 1)
	var seen [maxDrawers / 64]uint64
	for i := gramLen; i <= len(path); i++ {
		d := drawerOf(path[i-gramLen:i], shift)
		start, end := w.starts[d], w.starts[d+1]
		if start == end || seen[d/64]&(1<<(d%64)) != 0 {
			continue
		}
		seen[d/64] |= 1 << (d % 64)
		if s.try(patterns, w.filed[start:end]); s.over() {
			return
		}
	}
}
