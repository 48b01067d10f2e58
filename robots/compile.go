package robots

import (
	"maps"
	"slices"
	"unsafe"
)

// compile makes the File of what has been read.
//
// A group that is spread over many sections gets one index of them all, unless
// such indexes grow out of proportion to the file: then the sections' own are
// asked in turn. So compiling stays linear even if thousands of agents share
// many large sections.
func (p *parser) compile() *File {
	f := &File{groups: make([]Group, 0, len(p.named)), sitemaps: slices.Clone(p.sitemaps)}
	for _, name := range slices.Sorted(maps.Keys(p.named)) {
		f.groups = append(f.groups, Group{name: name})
	}
	rules := p.take(f)

	sections := make([][]int32, len(f.groups))
	for i := range f.groups {
		sections[i] = p.sectionsOf(f.groups[i].name)
	}
	joined, memory := p.join(sections)
	own := make([]*index, len(p.sections))
	for i := range f.groups {
		g := &f.groups[i]
		first := len(memory.uses)
		if joined[i] {
			memory.uses = append(memory.uses, memory.index(rules, p.rulesOf(sections[i]...)))
		} else {
			for _, s := range sections[i] {
				if own[s] == nil {
					own[s] = memory.index(rules, p.rulesOf(s))
				}
				memory.uses = append(memory.uses, own[s])
			}
		}
		g.indexes = memory.uses[first:len(memory.uses):len(memory.uses)]
		p.conclude(g)
	}
	f.conclude()
	f.size += sizeOf[File](1) + rules.size() + memory.size()
	return f
}

// An arena holds all that a file's indexes consist of: one slice for each kind, which
// costs the garbage collector less than many small ones.
type arena struct {
	indexes []index
	uses    []*index // by groups
	plain   []prefix
	wild    []int32
	filed   int64 // what large sets of wild rules take besides, in octets
}

func (a *arena) size() int64 {
	return sizeOf[index](cap(a.indexes)) + sizeOf[*index](cap(a.uses)) + sizeOf[prefix](cap(a.plain)) + sizeOf[int32](cap(a.wild)) + a.filed
}

// join tells which of the groups, each given by its sections, get one index of all their
// sections, and allocates what all indexes will need.
func (p *parser) join(groups [][]int32) (joined []bool, a arena) {
	joined = make([]bool, len(groups))
	own := make([]bool, len(p.sections))
	indexes, uses, plain, wild := 0, 0, 0, 0
	count := func(sections ...int32) {
		indexes++
		for _, s := range sections {
			first, end := p.ruleRange(s)
			for _, rule := range p.rules[first:end] {
				if rule.plain {
					plain++
				} else {
					wild++
				}
			}
		}
	}
	budget := 4 * len(p.rules)
	for i, sections := range groups {
		if n := p.count(sections); len(sections) > 1 && n <= budget {
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

// take takes the rules out of the parser, without much spare capacity. It puts the names
// of the groups and the sitemaps into their text.
func (p *parser) take(f *File) *rules {
	if cap(p.rules) > len(p.rules)+len(p.rules)/8 {
		p.rules = slices.Clone(p.rules)
	}
	others := make([]*string, 0, len(f.groups)+len(f.sitemaps))
	for i := range f.groups {
		others = append(others, &f.groups[i].name)
	}
	for i := range f.sitemaps {
		others = append(others, &f.sitemaps[i])
	}
	at := len(p.text)
	for _, s := range others {
		p.text = append(p.text, *s...)
	}
	rs := &rules{string(p.text), p.rules}
	for _, s := range others {
		*s = rs.text[at : at+len(*s)]
		at += len(*s)
	}
	return rs
}

// conclude sets what holds for the file as a whole, and its size without rules and
// indexes.
func (f *File) conclude() {
	f.extent = Everything // for a bot without a group
	if g := f.named(everyone); g != nil {
		f.extent = g.extent
	}
	f.size = sizeOf[Group](cap(f.groups)) + sizeOf[string](cap(f.sitemaps))
	for i := range f.groups {
		g := &f.groups[i]
		if g.extent != f.extent {
			f.extent = Part
		}
		f.delays = f.delays || g.StatesDelay()
		f.size += sizeOf[rate](cap(g.pace.rates))
	}
}

// sectionsOf are the sections that address the bot of that name, in the file's order.
func (p *parser) sectionsOf(name string) []int32 {
	runs := p.named[name]
	sections := make([]int32, 0, len(runs))
	for _, r := range runs {
		if s := p.runs[r].section; len(sections) == 0 || sections[len(sections)-1] != s {
			sections = append(sections, s)
		}
	}
	return sections
}

// conclude sets what holds for a group as a whole, from the sections that name it.
func (p *parser) conclude(g *Group) {
	var all reach
	for _, x := range g.indexes {
		all.join(x.reach)
	}
	g.extent = all.extent()
	runs := p.named[g.name]
	for i, r := range runs {
		r := &p.runs[r]
		g.pace.add(r.pace)
		if i+1 < len(runs) && p.runs[runs[i+1]].section == r.section {
			continue
		}
		s := &p.sections[r.section] // all of its runs that name the bot have been seen
		g.pace.add(s.pace)
		if s.blank.Line != 0 {
			g.blank = firstBlank(g.blank, s.blank)
		}
	}
}

// count is how many rules sections have.
func (p *parser) count(sections []int32) (rules int) {
	for _, s := range sections {
		first, end := p.ruleRange(s)
		rules += int(end - first)
	}
	return rules
}

// ruleRange is the range of a section's rules among all.
func (p *parser) ruleRange(section int32) (first, end int32) {
	end = int32(len(p.rules))
	if int(section)+1 < len(p.sections) {
		end = p.sections[section+1].first
	}
	return p.sections[section].first, end
}

func (p *parser) rulesOf(sections ...int32) []int32 {
	ids := make([]int32, 0, p.count(sections))
	for _, s := range sections {
		first, end := p.ruleRange(s)
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
