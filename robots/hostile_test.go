package robots

import (
	"fmt"
	"strings"
	"testing"

	"robotsproxy/internal/conformancetest"
	"robotsproxy/robots/urlpath"
)

// How much of a robots.txt is read, and about how long a URL may be, where the
// configuration is silent.
const (
	maxBytes = 500 << 10
	maxURL   = 64 << 10
)

const toEveryone = "User-agent: *\n"

// file is head and as many lines as max_bytes have room for.
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

// again is a file of one line, again and again.
func again(head, line string) []byte {
	return file(head, func(int) string { return line })
}

// long is a path that is as long as may be.
func long(begin, piece string) string {
	return begin + strings.Repeat(piece, (maxURL-len(begin))/len(piece))
}

// names are lines for agents of so many names.
func names(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "User-agent %x\n", i)
	}
	return b.String()
}

// hostile are files that are meant to be dear to read, and URLs that are meant to be
// dear to match with them.
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

// effort is what the search for a path's rule in a group has cost.
func (g *Group) effort(path string) int {
	s := search{left: maxEffort}
	urlpath.WithNormal(path, func(normal string) {
		s.path = normal
		g.search(&s)
	})
	return maxEffort - s.left
}

// TestHostileFilesCostLittle holds that a search costs no more than it may, but for
// what one rule takes.
func TestHostileFilesCostLittle(t *testing.T) {
	for _, test := range hostile {
		group, _ := Parse(test.file).Group([]string{everyone})
		if group == nil {
			continue // it is dear to read alone
		}
		effort := group.effort(test.path)
		if effort > maxEffort+4*3*maxURL { // a URL may be three times as long in normal form
			t.Errorf("%s: a match costs %d", test.name, effort)
		}
		rule, matches := group.Match(test.path)
		if gaveUp := effort > maxEffort; gaveUp != (matches && rule == Rule{}) {
			t.Errorf("%s: the search that cost %d found %+v (%v)", test.name, effort, rule, matches)
		}
		if rule, matches := group.Match("/short"); matches && rule.Line == 0 {
			t.Errorf("%s: the search for a short path gave up", test.name)
		}
	}
}

func TestGivingUpWithoutDisallowAllows(t *testing.T) {
	f := Parse(again(toEveryone, "Allow /*aaa*b\n"))
	group, _ := f.Group([]string{everyone})
	path := long("/", "a")
	if effort := group.effort(path); effort <= maxEffort {
		t.Fatalf("the search did not give up: it cost %d", effort)
	}
	if rule, matches := group.Match(path); f.Extent() != Everything || matches && !rule.Allow {
		t.Errorf("the extent is %v, and the verdict by %+v", f.Extent(), rule)
	}
}

// TestRealFilesCostLittle asks every group of real files for URLs that hold what its own
// rules look for.
func TestRealFilesCostLittle(t *testing.T) {
	files := conformancetest.RealSites(t)
	for _, test := range []struct{ length, most int }{{200, maxEffort / 200}, {2000, maxEffort / 20}, {16000, maxEffort / 4}} {
		for name, body := range files {
			f := Parse(body)
			for i := range f.groups {
				g := &f.groups[i]
				if len(g.indexes) == 0 {
					continue
				}
				text := g.indexes[0].rules.text
				path := "/" + strings.ReplaceAll(text[len(text)/2:], "*", "")
				path = (path + strings.Repeat("/index.html?q=a", test.length/15+1))[:test.length]
				if effort := g.effort(path); effort > test.most {
					t.Errorf("%s, %s: a URL of %d octets costs %d, more than %d", name, g.name, test.length, effort, test.most)
				}
			}
		}
	}
}

// BenchmarkHostile shows that no file and no URL costs more than some milliseconds.
func BenchmarkHostile(b *testing.B) {
	for _, test := range hostile {
		name := strings.ReplaceAll(strings.ReplaceAll(test.name, ",", ""), " ", "-")
		b.Run("parse="+name, func(b *testing.B) {
			for b.Loop() {
				Parse(test.file)
			}
		})
		group, _ := Parse(test.file).Group([]string{everyone})
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

func BenchmarkHostileHost(b *testing.B) {
	url := "http://" + ideographs(20000) + "/"
	for b.Loop() {
		if _, err := ParseTarget(url); err == nil {
			b.Fatal("it is taken for a name")
		}
	}
}
