package pattern_test

import (
	"fmt"
	"slices"
	"testing"

	"robotsproxy/robots/pattern"
)

// setOf has these patterns, each on a line of its own. The longest that matches decides.
func setOf(patterns ...pattern.Pattern) *pattern.Set {
	return build(pattern.NewBuilder(0, 0), patterns)
}

func build(builder *pattern.Builder, patterns []pattern.Pattern) *pattern.Set {
	builder.Section()
	for i, p := range patterns {
		p.Line = i + 1
		builder.Add(p)
	}
	sets, _ := builder.Sets([][]int32{{0}})
	return &sets[0]
}

func TestLongestPatternDecides(t *testing.T) {
	for _, test := range []struct {
		name     string
		patterns []pattern.Pattern
		path     string
		line     int // 0 for no match
	}{
		{"none", nil, "/a", 0},
		{"no match", []pattern.Pattern{{Text: "/b"}}, "/a", 0},
		{"no path begins so", []pattern.Pattern{{Text: "a"}, {Text: "$"}}, "/a", 0},
		{"the empty pattern, on every path", []pattern.Pattern{{Text: "/b"}, {Text: "", Rank: 1}, {Text: ""}}, "/a", 2},
		{"the empty pattern, shorter than any", []pattern.Pattern{{Text: "", Rank: 3}, {Text: "*"}}, "/a", 2},
		{"empty path", []pattern.Pattern{{Text: ""}}, "", 1},
		{"the longest", []pattern.Pattern{{Text: "/a", Rank: 3}, {Text: "/ab"}, {Text: "/"}}, "/abc", 2},
		{"the longest with wildcards", []pattern.Pattern{{Text: "/ab", Rank: 3}, {Text: "/*c$"}}, "/abc", 2},
		{"equal length, the greatest rank", []pattern.Pattern{{Text: "/a", Rank: 1}, {Text: "/a", Rank: 3}, {Text: "/a", Rank: 2}}, "/a", 2},
		{"equal length with wildcards, the greatest rank", []pattern.Pattern{{Text: "/a*", Rank: 1}, {Text: "/*c", Rank: 2}, {Text: "/*b", Rank: 3}}, "/ac", 2},
		{"equal rank, the first line", []pattern.Pattern{{Text: "/*b", Rank: 2}, {Text: "/*a", Rank: 2}}, "/ab", 1},
	} {
		got, found := setOf(test.patterns...).Match(test.path)
		if found != (test.line > 0) || got.Line != test.line {
			t.Errorf("%s: %+v (%v), want line %d", test.name, got, found, test.line)
		}
		if found && (got.Text != test.patterns[got.Line-1].Text || got.Rank != test.patterns[got.Line-1].Rank) {
			t.Errorf("%s: %+v is not as it was added", test.name, got)
		}
	}
}

// The first pattern decides among few, which are tried in turn, and among many, which are
// found by an index.
func TestFirstPatternDecides(t *testing.T) {
	patterns := []pattern.Pattern{
		{Text: "/open/*.jpg$"}, {Text: "/a/", Rank: 1}, {Text: "/a/b/", Rank: 2}, {Text: "*.pdf", Rank: 3},
		{Text: "/open/"}, {Text: "/open/x", Rank: 3}, {Text: "", Rank: 2}, {Text: "/z", Rank: 1},
	}
	for _, others := range []int{0, 1000} {
		all := slices.Clone(patterns)
		for i := range others {
			all = slices.Insert(all, 5, pattern.Pattern{Text: fmt.Sprintf("/open/%d", i)}, pattern.Pattern{Text: fmt.Sprintf("*/z%d/*y", i)})
		}
		builder := pattern.NewBuilder(0, 0)
		builder.FirstDecides = true
		set := build(builder, all)
		for path, want := range map[string]pattern.Pattern{
			"/open/1.jpg": patterns[0], "/a/b/c.pdf": patterns[1], "/b.pdf": patterns[3],
			"/open/x": patterns[4], "/z": patterns[6],
		} {
			got, found := set.Match(path)
			if !found || got.Text != want.Text || got.Rank != want.Rank {
				t.Errorf("%s beside %d others: %+v, want %+v", path, others, got, want)
			}
		}
		if set.Always(2) || set.Never(0) || !set.Always(0, 1, 2, 3) {
			t.Error("some paths are not decided by the pattern of all paths")
		}
	}
}

func TestSeveralRanksTogether(t *testing.T) {
	set := setOf(pattern.Pattern{Text: "/", Rank: 1}, pattern.Pattern{Text: "/a", Rank: 2}, pattern.Pattern{Text: "", Rank: 3})
	for _, test := range []struct {
		ranks         []pattern.Rank
		always, never bool
	}{
		{nil, false, true},
		{[]pattern.Rank{1}, false, false},
		{[]pattern.Rank{1, 2}, true, false},
		{[]pattern.Rank{2, 3}, false, false},
		{[]pattern.Rank{0, 3}, false, true},
		{[]pattern.Rank{0, 1, 2, 3}, true, false},
	} {
		if always, never := set.Always(test.ranks...), set.Never(test.ranks...); always != test.always || never != test.never {
			t.Errorf("%v: always %v, never %v; want %v, %v", test.ranks, always, never, test.always, test.never)
		}
	}
}

func TestAlwaysAndNever(t *testing.T) {
	for _, test := range []struct {
		name          string
		patterns      []pattern.Pattern
		always, never []pattern.Rank
	}{
		{"no patterns", nil, nil, []pattern.Rank{0, 1, 2, 3}},
		{"some paths", []pattern.Pattern{{Text: "/a"}, {Text: "/b", Rank: 2}}, nil, []pattern.Rank{1, 3}},
		{"all paths", []pattern.Pattern{{Text: "/", Rank: 2}}, []pattern.Rank{2}, []pattern.Rank{0, 1, 3}},
		{"all paths, another for some", []pattern.Pattern{{Text: "/", Rank: 2}, {Text: "/a"}}, nil, []pattern.Rank{1, 3}},
		{"all paths, the greatest rank", []pattern.Pattern{{Text: "/", Rank: 2}, {Text: "*", Rank: 3}}, []pattern.Rank{3}, []pattern.Rank{0, 1, 2}},
		{"all paths, by the empty pattern", []pattern.Pattern{{Text: ""}}, []pattern.Rank{0}, []pattern.Rank{1, 2, 3}},
		{"the empty pattern, another for some", []pattern.Pattern{{Text: ""}, {Text: "/a$", Rank: 1}}, nil, []pattern.Rank{2, 3}},
		{"the empty pattern, another for all", []pattern.Pattern{{Text: "", Rank: 3}, {Text: "*"}}, []pattern.Rank{0}, []pattern.Rank{1, 2, 3}},
		{"all paths, longer than others", []pattern.Pattern{{Text: "/a", Rank: 3}, {Text: "/***"}}, []pattern.Rank{0}, []pattern.Rank{1, 2, 3}},
	} {
		set := setOf(test.patterns...)
		var always, never []pattern.Rank
		for rank := range pattern.Rank(4) {
			if set.Always(rank) {
				always = append(always, rank)
			}
			if set.Never(rank) {
				never = append(never, rank)
			}
		}
		if !slices.Equal(always, test.always) || !slices.Equal(never, test.never) {
			t.Errorf("%s: always %v, never %v; want %v, %v", test.name, always, never, test.always, test.never)
		}
	}
}

// What a Search may cost is for all sets together: once it has given up, it answers nothing.
func TestSearchOfSeveralSets(t *testing.T) {
	hostile, all := sets(again(toEveryone, "Disallow *b\n"))["*"], setOf(pattern.Pattern{Text: "/"})
	for _, test := range []struct {
		path  string
		lines [3]int
	}{
		{"/short", [3]int{1, 0, 1}},
		{long("/", "a"), [3]int{1, 0, 0}},
	} {
		var search pattern.Search
		search.On(test.path, func() {
			for i, set := range []*pattern.Set{all, hostile, all} {
				p, found := search.Match(set)
				gaveUp := found && p.Line == 0
				if p.Line != test.lines[i] || gaveUp != (len(test.path) > 10 && i > 0) {
					t.Errorf("%.10s, set %d: %+v (%v)", test.path, i, p, found)
				}
			}
		})
	}
}
