package pattern_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"robotsproxy/internal/conformancetest"
	"robotsproxy/robots"
	"robotsproxy/robots/pattern"
)

// The defaults of the configuration: how much of a robots.txt is read, and about how long a URL
// may be.
const (
	maxBytes = 500 << 10
	maxURL   = 64 << 10
)

const toEveryone = "User-agent: *\n"

// file returns head and as many lines as maxBytes have room for.
func file(head string, line func(i int) string) []byte {
	var b strings.Builder
	b.WriteString(head)
	for i := 0; ; i++ {
		l := line(i)
		if b.Len()+len(l) > maxBytes {
			return []byte(b.String())
		}
		b.WriteString(l)
	}
}

// again returns a file of head and one line, repeated.
func again(head, line string) []byte {
	return file(head, func(int) string { return line })
}

// long returns a path of about maxURL octets.
func long(begin, piece string) string {
	return begin + strings.Repeat(piece, (maxURL-len(begin))/len(piece))
}

// names returns user-agent lines with n names.
func names(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "User-agent %x\n", i)
	}
	return b.String()
}

// hostile has files that are costly to parse, and paths that are costly to match with them.
var hostile = []struct {
	name string
	file []byte
	path string
}{
	{"short wildcards", again(toEveryone, "Disallow *b\n"), long("/", "a")},
	{"short wildcards, escaped URL", again(toEveryone, "Disallow *b\n"), long("/", "\xff")},
	{"one piece missing", again(toEveryone, "Disallow /*aaa*b\n"), long("/", "a")},
	{"the last piece missing", again(toEveryone, "Disallow /*a*aa*aaa*b\n"), long("/", "a")},
	{"a late difference", again(toEveryone, "Disallow /*aaab\n"), long("/aab", "a")},
	{"half of a piece everywhere", again(toEveryone, "Disallow /*abab*abac\n"), long("/bac", "ab")},
	{"a piece for each octet", again(toEveryone, "Disallow /"+strings.Repeat("*a", 8000)+"b\n"), long("/", "a")},
	{"anchors", again(toEveryone, "Disallow /*a*b*a$\n"), long("/", "a")},
	{"long pieces", again(toEveryone, "Disallow /*"+strings.Repeat("a", 16000)+"b\n"), long("/aab", "a")},
	{"long pieces of two", again(toEveryone, "Disallow /*"+strings.Repeat("ca", 8000)+"b\n"), long("/cab", "ca")},
	{"long pieces that begin rarely", again(toEveryone, "Disallow /*"+strings.Repeat("c"+strings.Repeat("a", 31), 500)+"aab\n"), long("/aab", "c"+strings.Repeat("a", 31))},
	{"sections of one name", again("", toEveryone+strings.Repeat("Disallow *bcd\n", 13)), long("/", "a")},
	{"sections of many names", again("", toEveryone+names(5)+strings.Repeat("Disallow *bcd\n", 13)), long("/", "a")},
	{"sections of more names than rules", again("", toEveryone+names(700)+"Disallow *abc\nDisallow *d\n"), long("/", "a")},
	{"rules under every gram", file(toEveryone, func(i int) string { return fmt.Sprintf("Disallow *%03x*Z\n", i%4096) }), everyGram()},
	{"plain rules that begin each other", file(toEveryone, func(i int) string { return "Disallow " + strings.Repeat("/a", 1+i%500) + "\n" }), long("", "/a")},
	{"one rule many times", again(toEveryone, "Disallow /\n"), long("/", "a")},
	{"a rule for all that loses", again(toEveryone+"Allow: /"+strings.Repeat("*", 100)+"\n", "Disallow *b\n"), long("/", "a")},
	{"dot segments", []byte(toEveryone + "Disallow /*x\n"), long("/", "a/../")},
	{"names", file("", func(i int) string { return fmt.Sprintf("User-agent %x\n", i) }), "/"},
	{"names with a delay each", file("", func(i int) string { return fmt.Sprintf("User-agent %x\nCrawl-delay 1\n", i) }), "/"},
	{"names that share rates", []byte(names(14000) + rates() + "Disallow: /a\n" + names(14000) + rates() + "Disallow: /b\n"), "/"},
	{"sitemaps", again("", "Sitemap:a\n"), "/"},
	{"sections to join", []byte(names(7) + string(again("", "Allow /*\n")[:maxBytes/2/9*9]) + names(7) + string(again("", "Allow /*\n")[:maxBytes/2/9*9])), "/"},
}

func everyGram() string {
	var b strings.Builder
	for i := 0; b.Len() < maxURL-4; i++ {
		fmt.Fprintf(&b, "/%03x", i%4096)
	}
	return b.String()
}

func rates() string {
	var b strings.Builder
	for i := range 12 {
		fmt.Fprintf(&b, "Request-rate: 1/%d 0000-0100\n", 5+i)
	}
	return b.String()
}

// sets are those of a file's groups, by name. It reads files that are written as here: a
// field, an optional colon, a value.
func sets(file []byte) map[string]*pattern.Set {
	builder, named, section := pattern.NewBuilder(0, 0), map[string][]int32{}, int32(-1)
	ruled := true
	for number, line := range strings.Split(string(file), "\n") {
		field, value, _ := strings.Cut(line, " ")
		switch strings.TrimSuffix(field, ":") {
		case "User-agent":
			if ruled {
				builder.Section()
				section, ruled = section+1, false
			}
			if sections := named[value]; !slices.Contains(sections, section) {
				named[value] = append(sections, section)
			}
		case "Allow", "Disallow":
			ruled = true
			builder.Add(pattern.Pattern{Text: value, Rank: rankOf(field), Line: number + 1})
		}
	}
	names := slices.Sorted(maps.Keys(named))
	groups := make([][]int32, len(names))
	for i, name := range names {
		groups[i] = named[name]
	}
	made, _ := builder.Sets(groups)
	byName := map[string]*pattern.Set{}
	for i, name := range names {
		byName[name] = &made[i]
	}
	return byName
}

// rankOf is the rank of an Allow or Disallow line.
func rankOf(field string) pattern.Rank {
	if strings.HasPrefix(field, "Allow") {
		return 1
	}
	return 0
}

// TestHostileFilesCostLittle checks that a search costs no more than it may, but for what
// one pattern takes.
func TestHostileFilesCostLittle(t *testing.T) {
	for _, test := range hostile {
		group, _ := robots.Parse(test.file).Group([]string{"*"})
		if group == nil {
			continue // only reading it is costly
		}
		effort := sets(test.file)["*"].Effort(test.path)
		if effort > pattern.MaxEffort+4*3*maxURL { // a URL may be three times as long in normal form
			t.Errorf("%s: a match costs %d", test.name, effort)
		}
		rule, matches := group.Match(test.path)
		if gaveUp := effort > pattern.MaxEffort; gaveUp != (matches && rule == robots.Rule{}) {
			t.Errorf("%s: the search that cost %d found %+v (%v)", test.name, effort, rule, matches)
		}
		if rule, matches := group.Match("/short"); matches && rule.Line == 0 {
			t.Errorf("%s: the search for a short path gave up", test.name)
		}
	}
}

func TestGivingUpWithoutDisallowAllows(t *testing.T) {
	text := again(toEveryone, "Allow /*aaa*b\n")
	f := robots.Parse(text)
	group, _ := f.Group([]string{"*"})
	path := long("/", "a")
	if effort := sets(text)["*"].Effort(path); effort <= pattern.MaxEffort {
		t.Fatalf("the search did not give up: it cost %d", effort)
	}
	if rule, matches := group.Match(path); f.Extent() != robots.Everything || matches && !rule.Allow {
		t.Errorf("the extent is %v, and the verdict by %+v", f.Extent(), rule)
	}
}

// TestRealFilesCostLittle takes all rules of each real file as one group's, and asks for URLs
// that hold what these rules look for.
func TestRealFilesCostLittle(t *testing.T) {
	files := conformancetest.RealSites(t)
	for _, test := range []struct{ length, most int }{{200, pattern.MaxEffort / 100}, {2000, pattern.MaxEffort / 20}, {16000, pattern.MaxEffort / 4}} {
		for name, body := range files {
			builder := pattern.NewBuilder(0, 0)
			builder.Section()
			for number, line := range robots.Lines(body, nil) {
				if field, value, found := strings.Cut(line.Text, ":"); found && line.Rule {
					value, _, _ = strings.Cut(value, "#")
					builder.Add(pattern.Pattern{Text: strings.TrimSpace(value), Rank: rankOf(field), Line: number + 1})
				}
			}
			made, _ := builder.Sets([][]int32{{0}})
			text := made[0].Texts()
			path := "/" + strings.ReplaceAll(text[len(text)/2:], "*", "")
			path = (path + strings.Repeat("/index.html?q=a", test.length/15+1))[:test.length]
			if effort := made[0].Effort(path); effort > test.most {
				t.Errorf("%s: a URL of %d octets costs %d, more than %d", name, test.length, effort, test.most)
			}
		}
	}
}

// BenchmarkHostile shows that no file and no URL costs more than a few milliseconds.
func BenchmarkHostile(b *testing.B) {
	for _, test := range hostile {
		name := strings.ReplaceAll(strings.ReplaceAll(test.name, ",", ""), " ", "-")
		b.Run("parse="+name, func(b *testing.B) {
			for b.Loop() {
				robots.Parse(test.file)
			}
		})
		group, _ := robots.Parse(test.file).Group([]string{"*"})
		if group == nil {
			continue
		}
		b.Run("match="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				group.Match(test.path)
			}
		})
	}
}
