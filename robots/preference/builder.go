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
	groups = append([][]int32{{0}}, groups...)
	compiled := make([][]pattern.Set, len(questions)) // by question and group
	for i := range questions {
		q := &questions[i]
		if i > 0 && q.source == questions[i-1].source && q.category == questions[i-1].category && compiled[i-1] != nil {
			compiled[i] = compiled[i-1]
		} else if b.refuse(q) {
			var octets int64
			compiled[i], octets = b.compile(q, groups)
			size += octets
		}
	}

	var all []check
	ends := make([]int, len(groups))
	for g := range groups {
		for i := range questions {
			if compiled[i] == nil || compiled[i][g].Never(questions[i].refusing...) {
				continue
			}
			lines := compiled[i][g]
			all = append(all, check{question: &questions[i], lines: lines, always: lines.Always(questions[i].refusing...)})
		}
		ends[g] = len(all)
	}
	if len(all) == 0 {
		return make([]*Set, len(groups)-1), nil, size
	}
	common := all[:ends[0]:ends[0]]
	if len(common) > 0 {
		without = &Set{common: common}
		size += sizeOf[Set](1)
	}
	sets = make([]*Set, len(groups)-1)
	for g := range sets {
		sets[g] = without
		if first, end := ends[g], ends[g+1]; first < end {
			sets[g] = &Set{own: all[first:end:end], common: common}
			size += sizeOf[Set](1)
		}
	}
	return sets, without, size + sizeOf[check](cap(all))
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
