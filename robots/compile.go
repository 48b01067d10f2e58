package robots

import (
	"maps"
	"slices"
	"unsafe"

	"robotsproxy/robots/pattern"
)

// The ranks of rules: of an Allow and a Disallow of equal length, the Allow decides
// (RFC 9309 2.2.2).
const (
	disallowRank pattern.Rank = iota
	allowRank
)

// compile makes the File from what has been read.
func (p *parser) compile() *File {
	names := slices.Sorted(maps.Keys(p.named))
	f := &File{groups: make([]Group, len(names)), sitemaps: slices.Clone(p.sitemaps), licenses: slices.Clone(p.licenses)}
	sections := make([][]int32, len(names))
	for i, name := range names {
		f.groups[i].name = name
		sections[i] = p.sectionsOf(name)
	}
	rules, size := p.rules.Sets(sections)
	for i := range f.groups {
		f.groups[i].rules = rules[i]
		p.conclude(&f.groups[i])
	}
	f.conclude()
	f.size += sizeOf[File](1) + size + f.keepText() + p.conveyPreferences(f)
	return f
}

// conveyPreferences gives the groups what they say about use, and returns its size in bytes.
func (p *parser) conveyPreferences(f *File) (size int64) {
	if p.preferences.Empty() {
		return 0
	}
	sections := make([][]int32, len(f.groups))
	for i := range f.groups {
		sections[i] = p.preferencesOf(f.groups[i].name)
	}
	sets, without, size := p.preferences.Sets(sections)
	for i, set := range sets {
		f.groups[i].preferences = set
	}
	f.preferences = without
	return size
}

// preferencesOf returns the sections of parser.preferences that concern the bot.
func (p *parser) preferencesOf(name string) (sections []int32) {
	runs := p.named[name]
	for i, r := range runs {
		r := &p.runs[r]
		if r.preferences > 0 {
			sections = append(sections, r.preferences)
		}
		if i+1 < len(runs) && p.runs[runs[i+1]].section == r.section {
			continue
		}
		if s := &p.sections[r.section]; s.preferences > 0 {
			sections = append(sections, s.preferences)
		}
	}
	return sections
}

// keepText puts the names of the groups, the sitemaps and the licenses into one text of their
// own, which costs the garbage collector less, and returns its length. Until then the
// sitemaps and the licenses are pieces of the body.
func (f *File) keepText() int64 {
	pieces := make([]*string, 0, len(f.groups)+len(f.sitemaps)+len(f.licenses))
	length := 0
	for i := range f.groups {
		pieces = append(pieces, &f.groups[i].name)
		length += len(f.groups[i].name)
	}
	for _, urls := range [][]string{f.sitemaps, f.licenses} {
		for i := range urls {
			pieces = append(pieces, &urls[i])
			length += len(urls[i])
		}
	}
	text := make([]byte, 0, length)
	for _, piece := range pieces {
		text = append(text, *piece...)
		*piece = view(text[len(text)-len(*piece):])
	}
	return int64(length)
}

// conclude sets what holds for the file as a whole, and the size of its groups.
func (f *File) conclude() {
	f.extent = Everything // for a bot without a group
	if g := f.named(everyone); g != nil {
		f.extent = g.extent
	}
	f.size = sizeOf[Group](cap(f.groups)) + sizeOf[string](cap(f.sitemaps)+cap(f.licenses))
	for i := range f.groups {
		g := &f.groups[i]
		if g.extent != f.extent {
			f.extent = Part
		}
		f.delays = f.delays || g.StatesDelay()
		f.size += sizeOf[rate](cap(g.pace.rates))
	}
}

// sectionsOf returns the sections that name the bot, in the file's order.
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

// conclude sets what holds for a group as a whole, from its rules and from the sections
// that name it.
func (p *parser) conclude(g *Group) {
	g.extent = extentOf(&g.rules)
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

func extentOf(rules *pattern.Set) Extent {
	switch {
	case rules.Never(disallowRank):
		return Everything
	case rules.Always(disallowRank):
		return Nothing
	default:
		return Part
	}
}

func sizeOf[T any](n int) int64 {
	var t T
	return int64(n) * int64(unsafe.Sizeof(t))
}
