package robots

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"robotsproxy/internal/conformancetest"
)

// TestRealFiles parses every real file, and compares some with the reference.
func TestRealFiles(t *testing.T) {
	files, rules := 0, 0
	for _, body := range conformancetest.RealSites(t) {
		files++
		file := Parse(body)
		group, _ := file.Group(nil)
		if group == nil {
			continue
		}
		var patterns []string
		for _, s := range stated(string(body)) {
			if s.field == allow || s.field == disallow {
				patterns = append(patterns, s.value)
			}
		}
		rules += len(patterns)
		if files%25 != 0 || len(body) > 1<<14 {
			continue
		}
		reference := referenceParse(string(body))
		for i := range 8 {
			path := "/"
			if n := len(patterns); n > 0 {
				path = strings.NewReplacer("*", "/x", "$", "").Replace(patterns[i*n/8])
			}
			checkAgainst(t, file, reference, "*", path)
			checkAgainst(t, file, reference, "googlebot", path+"?a=b")
		}
	}
	if files < 4000 || rules < 50000 {
		t.Errorf("only %d files with %d rules", files, rules)
	}
}

func TestCrawlDelay(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"1": time.Second, "2.5": 2500 * time.Millisecond, ".5": time.Second / 2, "3.": 3 * time.Second, "0": 0, "0.0": 0, " 7 # s": 7 * time.Second,
		"99999999999999999999999": (1 << 30) * time.Second, strings.Repeat("9", 400): (1 << 30) * time.Second,
		"": -1, "-1": -1, "+1": -1, "1e3": -1, "0x10": -1, "NaN": -1, "inf": -1, "1s": -1, "1 s": -1, "1,5": -1, "1.2.3": -1, ".": -1, "ten": -1,
	} {
		group, _ := Parse([]byte("User-agent: *\nCrawl-delay: " + value)).Group(nil)
		if got, ok := group.Delay(0); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %v, %v; want %v", value, got, ok, want)
		}
	}
}

func TestExtentOfAFile(t *testing.T) {
	for body, want := range map[string]Extent{
		"":                           Everything,
		"User-agent: *\nDisallow:":   Everything,
		"User-agent: a\nDisallow:":   Everything,
		"User-agent: *\nDisallow: /": Nothing,
		"User-agent: *\nDisallow: /\nUser-agent: a\nDisallow: *": Nothing,
		"User-agent: a\nDisallow: /":                             Part, // a bot without a group may all
		"User-agent: *\nDisallow: /\nUser-agent: a\nDisallow:":   Part,
		"User-agent: *\nDisallow: /x":                            Part,
		"User-agent: *\nDisallow:\nUser-agent: a\nDisallow: /x":  Part,
	} {
		if got := Parse([]byte(body)).Extent(); got != want {
			t.Errorf("%q: %s, want %s", body, got, want)
		}
	}
	if Parse([]byte("User-agent: *\nDisallow:")).StatesDelay() || !Parse([]byte("User-agent: a\nCrawl-delay: 1")).StatesDelay() {
		t.Error("a stated delay is not known, or one that is not stated is")
	}
}

// An empty rule decides nothing, but Blank returns it.
func TestBlank(t *testing.T) {
	for _, c := range []struct {
		body string
		line int
	}{
		{"User-agent: *\nDisallow: /a", 0},
		{"User-agent: *\nDisallow: /a\nDisallow:", 3},
		{"User-agent: *\nDisallow:\nDisallow:", 2},
		{"User-agent: *\nDisallow:\nAllow: # nothing\nAllow:", 3},
		{"User-agent: *\nDisallow:\nUser-agent: other\nAllow:\nUser-agent: *\nAllow:", 6},
		{"Disallow:\nUser-agent: *\nDisallow: /", 0},
	} {
		group, _ := Parse([]byte(c.body)).Group(nil)
		if blank, is := group.Blank(); blank.Line != c.line || is != (c.line > 0) {
			t.Errorf("%q: line %d (%v), want %d", c.body, blank.Line, is, c.line)
		}
		if rule, matches := group.Match("/b"); matches && rule.Pattern == "" {
			t.Errorf("%q: an empty rule decided", c.body)
		}
	}
}

func TestFirstCrawlDelayOfTheGroup(t *testing.T) {
	file := Parse([]byte("Crawl-delay: 1\nUser-agent: a\nCrawl-delay: x\nCRAWLDELAY: 2\nCrawl-delay: 3\nDisallow: /\nCrawl-delay: 4\n" +
		"User-agent: b\nDisallow: /\nUser-agent: a\nUser-agent: b\nCrawl delay: 5\nUser-agent: *\nAllow: /\n"))
	if file.named(everyone).StatesDelay() {
		t.Error("* has the delay of the lines before")
	}
	for name, want := range map[string]time.Duration{"a": 2 * time.Second, "b": 5 * time.Second} {
		group, _ := file.Group([]string{name})
		if got, ok := group.Delay(0); !ok || got != want {
			t.Errorf("%s: %v, %v; want %v", name, got, ok, want)
		}
	}
}

func TestRealDelays(t *testing.T) {
	files := 0
	for name, body := range conformancetest.RealSites(t) {
		file, want := Parse(body), referenceDelays(string(body))
		if len(want) > 0 {
			files++
		}
		for i := range file.groups {
			group := &file.groups[i]
			value, stated := want[group.name]
			if stated != group.pace.delayed {
				t.Errorf("%s: %s states a Crawl-delay: %v, the reference says %q", name, group.name, group.pace.delayed, value)
				continue
			}
			if seconds, _ := strconv.ParseFloat(value, 64); stated && group.pace.delay != time.Duration(seconds*float64(time.Second)) {
				t.Errorf("%s: the Crawl-delay of %s is %v, the reference says %q", name, group.name, group.pace.delay, value)
			}
		}
	}
	if files < 700 {
		t.Errorf("%d files state a delay", files)
	}
}

func TestExtent(t *testing.T) {
	for rules, want := range map[string]Extent{
		"":                                     Everything,
		"Disallow:":                            Everything,
		"Allow: /":                             Everything,
		"Disallow: nothing":                    Everything,
		"Disallow: /\nAllow: /":                Everything,
		"Disallow: /\nAllow: /*":               Everything,
		"Disallow: /a\nAllow: /***":            Everything,
		"Disallow: /":                          Nothing,
		"Disallow: *":                          Nothing,
		"Disallow: /*":                         Nothing,
		"Disallow: /**$":                       Nothing,
		"Disallow: /*\nAllow: /":               Nothing,
		"Disallow: /\nDisallow: /a\nAllow: *":  Part,
		"Disallow: /a":                         Part,
		"Disallow: /$":                         Part,
		"Disallow: /*a":                        Part,
		"Disallow: /\nAllow: /a":               Part,
		"Disallow: /\nAllow: /$":               Part,
		"Disallow: /aa\nAllow: /":              Part,
		"Disallow: /aa\nAllow: /*":             Part,
		"Disallow: /\nUser-agent: *\nAllow: /": Everything,
	} {
		group, _ := Parse([]byte("User-agent: *\n" + rules)).Group(nil)
		if got := group.Extent(); got != want {
			t.Errorf("%q: %v, want %v", rules, got, want)
		}
	}
}

func TestGroupTellsItsToken(t *testing.T) {
	file := Parse([]byte("User-agent: MyBot\nDisallow: /\nUser-agent: *\nAllow: /"))
	for _, c := range []struct {
		tokens      []string
		name, token string
	}{
		{[]string{"Other", "MyBot"}, "mybot", "MyBot"},
		{[]string{" mybot/1.0 (+https://example.org) "}, "mybot", " mybot/1.0 (+https://example.org) "},
		{[]string{"*", "MyBot"}, "*", "*"},
		{[]string{"", "/", "My"}, "*", "*"},
		{nil, "*", "*"},
	} {
		group, token := file.Group(c.tokens)
		if group.Name() != c.name || token != c.token {
			t.Errorf("%q: group %q by %q, want %q by %q", c.tokens, group.Name(), token, c.name, c.token)
		}
	}
	if group, token := Parse(nil).Group([]string{"MyBot", "*"}); group != nil || token != "" {
		t.Errorf("no group: %v, %q", group, token)
	}
}

// Parse reads the body without a copy, and keeps no reference to it.
func TestFileKeepsNothingOfTheBody(t *testing.T) {
	body := []byte("\xEF\xBB\xBFUser-agent: ExampleBot\nDisallow: /a%7Eb*c$\nAllow:\nCrawl-delay: 2\nSitemap: https://example.com/sitemap.xml")
	file := Parse(body)
	for i := range body {
		body[i] = 'x'
	}
	group, token := file.Group([]string{"examplebot"})
	if group == nil || group.Name() != "examplebot" {
		t.Fatalf("its group is %v, by %q", group, token)
	}
	rule, matches := group.Match("/a~b/c")
	blank, _ := group.Blank()
	if !matches || rule.String() != "Disallow: /a%7Eb*c$" || blank.String() != "Allow:" || file.Sitemaps()[0] != "https://example.com/sitemap.xml" {
		t.Errorf("it has %q, %q and %q", rule, blank, file.Sitemaps())
	}
}

func TestRuleAsWritten(t *testing.T) {
	group, _ := Parse([]byte("User-agent: *\nDISALOW:\t/%7ea*$ # comment")).Group(nil)
	rule, matches := group.Match("/~a")
	if !matches || rule.String() != "Disallow: /%7ea*$" || rule.Line != 2 {
		t.Errorf("%v", rule)
	}
	if s := (Rule{Allow: true, Pattern: "/"}).String(); s != "Allow: /" {
		t.Error(s)
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for name, c := range map[string]struct {
		body, path string
		line       int
	}{
		"LF":                  {"User-agent: *\n\nDisallow: /a\n", "/a", 3},
		"CRLF":                {"User-agent: *\r\n\r\nDisallow: /a\r\n", "/a", 3},
		"CR":                  {"User-agent: *\r\rDisallow: /a\r", "/a", 3},
		"LF CR":               {"User-agent: *\n\rDisallow: /a", "/a", 3},
		"NUL":                 {"User-agent: *\x00bot\nDisallow: /a\x00b\n", "/a", 2},
		"byte-order mark":     {"\xEF\xBB\xBFUser-agent: *\nDisallow: /a", "/a", 2},
		"two octets of one":   {"\xEF\xBBUser-agent: *\nDisallow: /a", "/a", 2},
		"one octet of one":    {"\xEFUser-agent: *\nDisallow: /a", "/a", 2},
		"other white space":   {"\vUser-agent:\f*\v\n\tDisallow\v:\f/a", "/a", 2},
		"no-break space":      {"User-agent: *\nDisallow: /a\u00a0", "/a%C2%A0", 2},
		"a long line's end":   {"User-agent: *\nDisallow: /" + long + "y", "/" + long[:maxLine-11], 2},
		"a long line's colon": {"User-agent: *\nDisallow" + long + ": /", "/", 0},
	} {
		group, _ := Parse([]byte(c.body)).Group(nil)
		line := 0
		if group != nil {
			rule, _ := group.Match(c.path)
			line = rule.Line
		}
		if line != c.line {
			t.Errorf("%s: line %d decides, want %d", name, line, c.line)
		}
	}
}

func TestCut(t *testing.T) {
	const body = "Disallow: /a\nDisallow: /private\r\nAllow: /"
	for max, want := range map[int64]string{
		0: "", 5: "", 11: "", 12: body[:12], 13: body[:13], 14: body[:13], 22: body[:13], 24: body[:13], 30: body[:13],
		31: body[:31], 32: body[:32], 33: body[:33], 40: body[:33], int64(len(body)): body, 1000: body,
	} {
		read := []byte(body)[:min(int64(len(body)), max+1)]
		if got := string(Cut(read, max)); got != want {
			t.Errorf("at %d: %q, want %q", max, got, want)
		}
	}
}

// manyRules is a file of many plain rules and many with wildcards.
func manyRules(n int) []byte {
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for i := range n {
		fmt.Fprintf(&b, "Disallow: /dir%d/sub\nAllow: /*?key%d=*&x\n", i, i)
	}
	return []byte(b.String())
}

func TestMatchAllocatesNothing(t *testing.T) {
	file := Parse(manyRules(2000))
	group, _ := file.Group(nil)
	tokens := []string{"No-Such-Bot/1.0", "Another"}
	for name, do := range map[string]func(){
		"group":           func() { file.Group(tokens) },
		"normal path":     func() { group.Match("/dir1500/sub/x?key7=1&x") },
		"odd path":        func() { group.Match("/%64ir1500/./sub/é?key7=1&x*") },
		"long odd path":   func() { group.Match(longPath) },
		"robots.txt test": func() { Target{Path: "/%72obots.txt"}.IsRobotsTxt() },
	} {
		if n := testing.AllocsPerRun(100, do); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

var longPath = "/é" + strings.Repeat("/../a|b", 5000)

// TestParseIsLinear doubles hostile files and checks that the memory for parsing does not grow
// faster. If the time grew faster, the test would not end.
func TestParseIsLinear(t *testing.T) {
	manyAgents := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "User-agent: bot-%c%d\n", 'a'+rune(i%26), i)
		}
		return b.String()
	}
	for name, shape := range map[string]func(n int) string{
		"only CR":             func(n int) string { return strings.Repeat("User-agent: a\r", 20*n) },
		"only LF":             func(n int) string { return strings.Repeat("Disallow: /\n", 20*n) },
		"no line end":         func(n int) string { return strings.Repeat("Disallow: /", 20*n) },
		"agents share":        func(n int) string { return manyAgents(n) + string(manyRules(n)) },
		"agents share groups": func(n int) string { return strings.Repeat(manyAgents(n/64)+"Disallow: /a\nAllow: /*b*c\n", 64) },
		"same agent":          func(n int) string { return strings.Repeat("User-agent: a\nDisallow: /a\n", n) },
		"nested prefixes":     func(n int) string { return nested(n) },
		"wildcards": func(n int) string {
			return "User-agent: *\n" + strings.Repeat("Disallow: "+strings.Repeat("/*a", 100)+"\n", n/8)
		},
		"preferences of one bot": func(n int) string {
			return "User-agent: *\n" + strings.Repeat("Content-Usage: /*a train-ai=n\nContent-Signal: /b use=full,ai-train=no\n", n)
		},
		"preferences of many bots": func(n int) string {
			return strings.Repeat("Content-Signal: /x ai-train=no\n", n) + manyAgents(n) + strings.Repeat("Content-Usage: /*a train-ai=n\n", n)
		},
		"preferences in many groups": func(n int) string {
			return strings.Repeat(manyAgents(n/64)+"Content-Usage: /a train-ai=n\nAllow: /\nContent-Signal: use=immediate\n", 64)
		},
		"preferences of each bot": func(n int) string {
			return strings.ReplaceAll(manyAgents(n), "\n", "\nContent-Usage: /a train-ai=n, search=n, ai-use=n\n")
		},
		"keys of a dictionary": func(n int) string {
			return strings.Repeat("Content-Usage: "+strings.Repeat("a=(b c);d,", 100)+"a\n", n/32)
		},
		"keys of a signal": func(n int) string { return strings.Repeat("Content-Signal: "+strings.Repeat("a=b,", 200)+"a\n", n/32) },
		"escapes":          func(n int) string { return "User-agent: *\n" + strings.Repeat("Disallow: /%41%c3 *\n", n) },
	} {
		small, large := allocated(shape(4000)), allocated(shape(8000))
		if large > 3*small+1<<20 {
			t.Errorf("%s: twice the file takes %d octets, once %d", name, large, small)
		}
	}
}

// nested has rules that begin with all the shorter ones.
func nested(n int) string {
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for size := 1; b.Len() < 30*n; size = size%500 + 1 {
		fmt.Fprintf(&b, "Disallow: /%s%d\nDisallow: /%[1]s\n", strings.Repeat("a", size), size)
	}
	return b.String()
}

func allocated(body string) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	Parse([]byte(body))
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestSize compares Size with the memory that a file really takes.
func TestSize(t *testing.T) {
	var agents strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&agents, "User-agent: agent-number-%d\nDisallow: /%d\n", i, i)
	}
	for name, body := range map[string][]byte{
		"rules":                   manyRules(3000),
		"agents":                  []byte(agents.String()),
		"licenses":                bytes.Repeat([]byte("License: https://example.com/license.xml\n"), 3000),
		"preferences":             bytes.Repeat([]byte("User-agent: *\nContent-Usage: /a/b train-ai=n\nContent-Signal: /*c search=no, ai-train=no\n"), 3000),
		"preferences of each bot": bytes.ReplaceAll([]byte(agents.String()), []byte("Disallow: "), []byte("Content-Signal: ai-train=no, use=immediate, path=")),
		"sitemaps":                bytes.Repeat([]byte("Sitemap: https://example.com/sitemap.xml\n"), 3000),
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		file := Parse(body)
		runtime.GC()
		runtime.ReadMemStats(&after)
		held := float64(after.HeapAlloc) - float64(before.HeapAlloc)
		if ratio := float64(file.Size()) / held; ratio < 0.6 || ratio > 1.6 {
			t.Errorf("%s: size is %d, but it takes %.0f", name, file.Size(), held)
		}
	}
}

// A group written in many pieces takes no more memory than one in a single piece.
func TestSpreadGroupTakesNoMore(t *testing.T) {
	const rules = 1000
	whole := Parse([]byte("User-agent: a\n" + strings.Repeat("Disallow: /a\n", rules))).Size()
	spread := Parse([]byte(strings.Repeat("User-agent: a\nDisallow: /a\n", rules))).Size()
	if spread > whole+whole/4 {
		t.Errorf("in one piece it takes %d octets, in %d pieces %d", whole, rules, spread)
	}
}
