package preference

import (
	"strings"
	"unsafe"

	"robotsproxy/robots/pattern"
)

// Builder collects the lines of a file, section by section, and makes the sets of its groups.
// A section is a run of lines that are always in the same groups. The zero Builder is ready
// for use, in section 0: its lines concern every bot, in a group or not, and may only
// restrict.
type Builder struct {
	lines    []line
	sections []int32 // the first line of each from 1 on
}

type line struct {
	path   string // "" for all paths
	number int32
	source Source
	says   statement
}

// white is the white space that a line may hold.
const white = " \t\v\f"

// Section begins a section and returns its number, from 1.
func (b *Builder) Section() int32 {
	b.sections = append(b.sections, int32(len(b.lines)))
	return int32(len(b.sections))
}

// Add adds the line of that number to the present section. source is ContentSignal or
// ContentUsage. value is what follows the colon: a path, if it begins with "/" or "*", up to
// white space, and the preferences. Without a path they are for all paths. Add returns
// false, and ignores the line, if its preferences cannot be read.
//
// The Builder refers to the text of value until Sets is called.
func (b *Builder) Add(source Source, value string, number int) bool {
	l := line{number: int32(number), source: source}
	if value != "" && (value[0] == '/' || value[0] == '*') {
		end := strings.IndexAny(value, white)
		if end < 0 {
			end = len(value)
		}
		l.path, value = value[:end], strings.TrimLeft(value[end:], white)
	}
	ok := true
	if source == ContentUsage {
		l.says, ok = readUsage(value)
	} else {
		l.says = readSignal(value)
	}
	if ok {
		b.lines = append(b.lines, l)
	}
	return ok
}

// Empty reports whether the Builder has no line.
func (b *Builder) Empty() bool { return len(b.lines) == 0 }

// Sets makes a Set for each group, given by the numbers of its sections, and one for bots
// without a group. A nil Set refuses nothing. Sets tells roughly how much memory all of them
// take together, in bytes. The Builder must not be used after it.
//
// Time and memory grow linearly with the file: see [pattern.Builder.Sets].
func (b *Builder) Sets(groups [][]int32) (sets []*Set, without *Set, size int64) {
	distinct, which := b.distinct(groups)
	all := make([]Set, len(distinct))
	var lines []pattern.Set
	var answered *question // by lines
	for i := range questions {
		q := &questions[i]
		if !b.refuse(q) {
			continue
		}
		if answered == nil || !q.sameLines(answered) {
			var octets int64
			lines, octets = b.compile(q, distinct)
			answered = q
			size += octets
		}
		for at := range all {
			if !lines[at].Never(q.refusing...) {
				c := check{question: q, lines: lines[at], always: lines[at].Always(q.refusing...)}
				all[at].own = append(all[at].own, c)
			}
		}
	}
	if answered == nil {
		return make([]*Set, len(groups)), nil, 0 // no line refuses anything
	}
	for at := range all {
		size += sizeOf[Set](1) + sizeOf[check](cap(all[at].own))
		if at > 0 {
			all[at].common = all[0].own
		}
	}
	set := func(at int32) *Set {
		if all[at].own == nil && all[at].common == nil {
			return nil
		}
		return &all[at]
	}
	sets = make([]*Set, len(groups))
	for i := range groups {
		sets[i] = set(which[i])
	}
	return sets, set(0), size
}

// distinct are the groups without most of those that are alike, and which is the index of each
// group there. The first is that of bots without a group. Many groups are one section: a list
// of bots, and what is said to them.
func (b *Builder) distinct(groups [][]int32) (distinct [][]int32, which []int32) {
	distinct, which = [][]int32{{0}}, make([]int32, len(groups))
	of := make([]int32, len(b.sections)+1) // the index by section of a group of that one; 0 if there is none yet
	for i, sections := range groups {
		switch {
		case len(sections) == 0:
			continue
		case len(sections) == 1 && of[sections[0]] > 0:
			which[i] = of[sections[0]]
			continue
		}
		which[i] = int32(len(distinct))
		distinct = append(distinct, sections)
		if len(sections) == 1 {
			of[sections[0]] = which[i]
		}
	}
	return distinct, which
}

// refuse reports whether any line refuses what the question asks about.
func (b *Builder) refuse(q *question) bool {
	for i := range b.lines {
		if b.lines[i].source == q.source && q.refusedBy(b.lines[i].says.value(q.category)) {
			return true
		}
	}
	return false
}

// compile makes the sets of patterns that answer a question, for each group. All lines of the
// source are in them: one that does not state the category still decides where it is the
// longest.
func (b *Builder) compile(q *question, groups [][]int32) ([]pattern.Set, int64) {
	octets, count := 0, 0
	for i := range b.lines {
		if b.lines[i].source == q.source {
			octets += len(b.lines[i].path)
			count++
		}
	}
	patterns, section := pattern.NewBuilder(count, octets), 0
	patterns.Section()
	for i := range b.lines {
		for section < len(b.sections) && int(b.sections[section]) <= i {
			patterns.Section()
			section++
		}
		if l := &b.lines[i]; l.source == q.source {
			patterns.Add(pattern.Pattern{Text: l.path, Rank: l.says.value(q.category), Line: int(l.number)})
		}
	}
	for ; section < len(b.sections); section++ {
		patterns.Section()
	}
	return patterns.Sets(groups)
}

func sizeOf[T any](n int) int64 {
	var t T
	return int64(n) * int64(unsafe.Sizeof(t))
}
