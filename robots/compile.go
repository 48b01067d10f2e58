package robots

import (
	"slices"
	"unsafe"
)

// compile makes the file of what has been read from a text of so many octets.
//
// A group that is spread over many sections gets one index of them all, unless
// such indexes grow out of proportion to the file: then the sections' own are
// asked in turn. So compiling stays linear even if thousands of agents share
// many large sections.
func (p *parser) compile(textLen int) *File {
	f := &File{groups: p.groups, sitemaps: p.sitemaps}
	f.size = sizeOf[File](1) + sizeOf[string](cap(p.sitemaps))
	if len(p.rules)+len(p.sitemaps) > 0 {
		f.size += int64(textLen) // it is held by what has been cut from it
	}
	if cap(p.rules) > 2*len(p.rules) {
		p.rules = slices.Clone(p.rules)
	}
	f.size += sizeOf[rule](cap(p.rules))

	compiled := func(sections ...int32) *index {
		x := newIndex(p.rules, p.rulesOf(sections))
		f.size += x.size()
		return x
	}
	own := make([]*index, len(p.sections))
	room := 4 * len(p.rules)
	for _, g := range p.groups {
		rules := 0
		for _, s := range g.sections {
			first, end := p.ruleRange(s)
			rules += int(end - first)
		}
		if len(g.sections) > 1 && rules <= room {
			room -= rules
			g.indexes = []*index{compiled(g.sections...)}
		} else {
			for _, s := range g.sections {
				if own[s] == nil {
					own[s] = compiled(s)
				}
				g.indexes = append(g.indexes, own[s])
			}
		}
		p.conclude(g)
		f.size += g.size()
	}
	f.conclude()
	return f
}

// conclude sets what the file says to all bots alike.
func (f *File) conclude() {
	f.extent = Everything // for a bot without a group
	if g := f.groups[everyone]; g != nil {
		f.extent = g.extent
	}
	for _, g := range f.groups {
		if g.extent != f.extent {
			f.extent = Part
		}
		f.delays = f.delays || g.StatesDelay()
	}
}

// conclude sets what a group says as a whole.
func (p *parser) conclude(g *Group) {
	var all reach
	for _, x := range g.indexes {
		all.join(x.reach)
	}
	g.extent = all.extent()
	for _, s := range g.sections {
		s := &p.sections[s]
		if s.delayed && !g.delayed {
			g.delay, g.delayed = s.delay, true
		}
		g.rates = addRates(g.rates, s.rates...)
		if s.blank.Line != 0 {
			g.blank = firstBlank(g.blank, s.blank)
		}
	}
	g.sections = nil
}

// ruleRange is where the rules of a section are.
func (p *parser) ruleRange(section int32) (first, end int32) {
	end = int32(len(p.rules))
	if int(section)+1 < len(p.sections) {
		end = p.sections[section+1].first
	}
	return p.sections[section].first, end
}

func (p *parser) rulesOf(sections []int32) (ids []int32) {
	for _, s := range sections {
		first, end := p.ruleRange(s)
		ids = slices.Grow(ids, int(end-first))
		for id := first; id < end; id++ {
			ids = append(ids, id)
		}
	}
	return ids
}

func (x *index) size() int64 {
	w := &x.wild
	return sizeOf[index](1) + sizeOf[prefix](cap(x.plain)) +
		sizeOf[int32](cap(w.loose)+cap(w.filed)+cap(w.starts))
}

// size counts twice the name and the pointer, for the entry in the file's map.
func (g *Group) size() int64 {
	return sizeOf[Group](1) + 2*sizeOf[string](1) + int64(len(g.name)) + sizeOf[*index](2+cap(g.indexes)) + sizeOf[rate](cap(g.rates))
}

func sizeOf[T any](n int) int64 {
	var t T
	return int64(n) * int64(unsafe.Sizeof(t))
}
