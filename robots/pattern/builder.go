package pattern

import (
	"slices"
	"unsafe"
)

// Builder collects the patterns of a file, section by section, and makes the sets of its
// groups. A section is a run of lines that are always in the same groups.
type Builder struct {
	// FirstDecides says that of the patterns that match, the first one added decides, however
	// long they are. It must be set before the first Add.
	FirstDecides bool

	all      []compiled
	text     []byte
	sections []int32 // the first pattern of each
}

// NewBuilder returns a Builder with room for so many patterns, with so many octets of text
// in all. It takes more.
func NewBuilder(patterns, octets int) *Builder {
	return &Builder{all: make([]compiled, 0, patterns), text: make([]byte, 0, octets)}
}

// Section begins a section. Sections are numbered from 0.
func (b *Builder) Section() { b.sections = append(b.sections, int32(len(b.all))) }

// Add adds a pattern to the present section; there must be one. It keeps no reference to the
// pattern's text. It ignores a pattern that can match no path, as it does not begin with
// "/" or "*".
func (b *Builder) Add(p Pattern) {
	c, text, ok := p.compile(b.text)
	if !ok {
		return
	}
	if b.FirstDecides {
		c.weight = (maxAdded-int32(len(b.all)))<<rankBits | int32(c.rank())
	}
	b.all, b.text = append(b.all, c), text
}

// maxAdded is more patterns than a Builder with FirstDecides can get: none of them has fewer
// than two octets of a file. Its weight is the greatest that fits.
const maxAdded = 1<<(31-rankBits) - 1

// Sets makes a set for each group, given by the numbers of its sections, and tells roughly
// how much memory all of them take together, in bytes. The Builder must not be used after it.
//
// A group of several sections gets one index of them all, unless such indexes grow out of
// proportion to the file: then the sections' own are asked in turn. So the whole stays
// linear even if thousands of groups share many large sections.
func (b *Builder) Sets(groups [][]int32) (sets []Set, size int64) {
	if cap(b.all) > len(b.all)+len(b.all)/8 {
		b.all = slices.Clone(b.all)
	}
	all := &patterns{string(b.text), b.all}
	joined, memory := b.join(groups)
	own := make([]*index, len(b.sections))
	sets = make([]Set, len(groups))
	for i, sections := range groups {
		first := len(memory.uses)
		if joined[i] {
			memory.uses = append(memory.uses, memory.index(all, b.idsOf(sections...)))
		} else {
			for _, s := range sections {
				if own[s] == nil {
					own[s] = memory.index(all, b.idsOf(s))
				}
				memory.uses = append(memory.uses, own[s])
			}
		}
		sets[i].indexes = memory.uses[first:len(memory.uses):len(memory.uses)]
	}
	return sets, all.size() + memory.size()
}

// An arena holds all that a file's indexes consist of: one slice for each kind, which
// costs the garbage collector less than many small ones.
type arena struct {
	indexes []index
	uses    []*index // by groups
	plain   []prefix
	wild    []int32
	filed   int64 // what large sets of wild patterns take besides, in octets
}

func (a *arena) size() int64 {
	return sizeOf[index](cap(a.indexes)) + sizeOf[*index](cap(a.uses)) + sizeOf[prefix](cap(a.plain)) + sizeOf[int32](cap(a.wild)) + a.filed
}

// join tells which of the groups get one index of all their sections, and allocates what
// all indexes will need.
func (b *Builder) join(groups [][]int32) (joined []bool, a arena) {
	joined = make([]bool, len(groups))
	own := make([]bool, len(b.sections))
	indexes, uses, plain, wild := 0, 0, 0, 0
	count := func(sections ...int32) {
		indexes++
		for _, s := range sections {
			first, end := b.rangeOf(s)
			for _, c := range b.all[first:end] {
				if c.plain {
					plain++
				} else {
					wild++
				}
			}
		}
	}
	budget := 4 * len(b.all)
	for i, sections := range groups {
		if n := b.count(sections); len(sections) > 1 && n <= budget {
			budget -= n
			joined[i] = true
			uses++
			count(sections...)
			continue
		}
		uses += len(sections)
		for _, s := range sections {
			if !own[s] {
				own[s] = true
				count(s)
			}
		}
	}
	return joined, arena{
		indexes: make([]index, 0, indexes),
		uses:    make([]*index, 0, uses),
		plain:   make([]prefix, 0, plain),
		wild:    make([]int32, 0, wild),
	}
}

// count is how many patterns sections have.
func (b *Builder) count(sections []int32) (patterns int) {
	for _, s := range sections {
		first, end := b.rangeOf(s)
		patterns += int(end - first)
	}
	return patterns
}

// rangeOf is the range of a section's patterns among all.
func (b *Builder) rangeOf(section int32) (first, end int32) {
	end = int32(len(b.all))
	if int(section)+1 < len(b.sections) {
		end = b.sections[section+1]
	}
	return b.sections[section], end
}

func (b *Builder) idsOf(sections ...int32) []int32 {
	ids := make([]int32, 0, b.count(sections))
	for _, s := range sections {
		first, end := b.rangeOf(s)
		for id := first; id < end; id++ {
			ids = append(ids, id)
		}
	}
	return ids
}

func sizeOf[T any](n int) int64 {
	var t T
	return int64(n) * int64(unsafe.Sizeof(t))
}

// view returns b as a string, without a copy. b must not change while the string is in use.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
