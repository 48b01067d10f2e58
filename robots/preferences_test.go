package robots

import (
	"strconv"
	"strings"
	"testing"

	"robotsproxy/robots/preference"
)

// use reads "ai-train" or "search ai-input full": purposes, and perhaps a use of content.
func use(words string) (u preference.Use) {
	for _, word := range strings.Fields(words) {
		var p preference.Purpose
		if err := p.UnmarshalText([]byte(word)); err == nil {
			u.Purposes |= preference.PurposesOf(p)
		} else if err := u.Content.UnmarshalText([]byte(word)); err != nil {
			panic(err)
		}
	}
	return u
}

// inRobotsTxt are the sources that a robots.txt has.
var inRobotsTxt = preference.SourcesOf(preference.ContentSignal, preference.ContentUsage)

// attachExample is the example of draft-ietf-aipref-attach, section 3.4, without its Allow lines.
const attachExample = `User-agent: *
Disallow: /never/
Content-Usage: train-ai=n
Content-Usage: /ai-ok/ train-ai=y

User-agent: ExampleBot
Content-Usage: train-ai=y
`

// cloudflare is the text that Cloudflare puts before a site's robots.txt, shortened where
// many bots follow.
const cloudflare = `# As a condition of accessing this website, you agree to abide by the following
# content signals:

# (a)  If a Content-Signal = yes, you may collect content for the corresponding
#      use.
# (b)  If a Content-Signal = no, you may not collect content for the
#      corresponding use.
# (c)  If the website operator does not include a Content-Signal for a
#      corresponding use, the website operator neither grants nor restricts
#      permission via Content-Signal with respect to the corresponding use.

# The content signals and their meanings are:

# search:   building a search index and providing search results (e.g., returning
#           hyperlinks and short excerpts from your website's contents). Search does not
#           include providing AI-generated search summaries.
# ai-input: inputting content into one or more AI models (e.g., retrieval
#           augmented generation, grounding, or other real-time taking of content for
#           generative AI search answers).
# ai-train: training or fine-tuning AI models.
# use:      how AI systems may consume the content (immediate, reference, or full).

# ANY RESTRICTIONS EXPRESSED VIA CONTENT SIGNALS ARE EXPRESS RESERVATIONS OF
# RIGHTS UNDER ARTICLE 4 OF THE EUROPEAN UNION DIRECTIVE 2019/790 ON COPYRIGHT
# AND RELATED RIGHTS IN THE DIGITAL SINGLE MARKET.

# BEGIN Cloudflare Managed content

User-agent: *
Content-Signal: search=yes,ai-train=no,use=reference
Allow: /

User-agent: Amazonbot
Disallow: /

User-agent: GPTBot
Disallow: /

# END Cloudflare Managed Content

User-agent: *
Disallow: /private/
`

var preferenceCases = []struct {
	name    string
	robots  string // for everyone, if it names no bot
	use     string // see use
	agent   string // "" for a bot that no group names
	path    string
	refusal string // and the number of its line; "" if it passes
}{
	{"the example of the draft", attachExample, "ai-train", "", "/test", "content-usage: train-ai=n 3"},
	{"a longer path allows", attachExample, "ai-train", "", "/ai-ok/test", ""},
	{"a disallowed path has its preference too", attachExample, "ai-train", "", "/never/test", "content-usage: train-ai=n 3"},
	{"a group of its own", attachExample, "ai-train", "ExampleBot", "/never/test", ""},
	{"the last value of a key", `Content-Usage: train-ai=y, train-ai, search=n, search="n"`, "search ai-input ai-train", "", "/", ""},
	{"parameters", "Content-Usage: train-ai;allow=n, train-ai=y", "ai-train", "", "/", ""},
	{"a capital letter in a key", "Content-Usage: Train-AI=n", "ai-train", "", "/", ""},
	{"the signal of a purpose", "Content-Signal: search=yes, ai-train=no", "search", "", "/", ""},
	{"one of several purposes", "Content-Signal: search=yes, ai-train=no", "search ai-input ai-train", "", "/", "content-signal: ai-train=no 2"},
	{"more is kept than use= says", "Content-Signal: search=yes,ai-train=no,use=reference", "search full", "", "/", "content-signal: use=reference 2"},
	{"as much is kept as use= says", "Content-Signal: search=yes,ai-train=no,use=reference", "search reference", "", "/", ""},
	{"nothing may be kept", "Content-Signal: use=immediate", "search reference", "", "/", "content-signal: use=immediate 2"},
	{"another path", "Content-Signal: /blog/ ai-train=no", "ai-train", "", "/about", ""},
	{"that path", "Content-Signal: /blog/ ai-train=no", "ai-train", "", "/blog/1", "content-signal: /blog/ ai-train=no 2"},
	{"equal paths", "Content-Usage: /a train-ai=y\nContent-Usage: /a train-ai=n", "ai-train", "", "/a", "content-usage: /a train-ai=n 3"},
	{"two sources", "Content-Signal: ai-train=yes\nContent-Usage: train-ai=n", "ai-train", "", "/", "content-usage: train-ai=n 3"},
	{"the whole line decides", "Content-Usage: train-ai=n, search=n\nContent-Usage: /x train-ai=y", "search", "", "/x", ""},
	{"a path that is longer where it is normal", "Content-Usage: /%7Eab train-ai=n\nContent-Usage: /~a train-ai=y", "ai-train", "", "/%7eabc", "content-usage: /%7Eab train-ai=n 2"},
	{"a path of wildcards", "Content-Signal: *.jpg$ ai-train=no", "ai-train", "", "/a/b.jpg", "content-signal: *.jpg$ ai-train=no 2"},
	{"equal lengths, other paths", "Content-Signal: /a* ai-train=no\nContent-Signal: /ab ai-train=yes", "ai-train", "", "/abc", "content-signal: /a* ai-train=no 2"},
	{"equal lengths, each with a category", "Content-Signal: search=no\nContent-Signal: ai-train=no", "search", "", "/", "content-signal: search=no 2"},
	{"the shortest path is longer than none", "Content-Signal: ai-train=no\nContent-Signal: * ai-train=yes", "ai-train", "", "/", ""},
	{"a path and nothing else", "Content-Usage: train-ai=n\nContent-Usage: /x", "ai-train", "", "/x", ""},
	{"a path and what does not parse", "Content-Usage: train-ai=n\nContent-Usage: /x train-ai=Y;A, train-ai=y", "ai-train", "", "/x", "content-usage: train-ai=n 2"},
	{"what looks like a path", "Content-Usage: blog/ train-ai=n", "ai-train", "", "/blog/", ""},
	{"no value", "Content-Usage:\nContent-Signal:", "search ai-input ai-train full", "", "/", ""},
	{"a tab after the path", "Content-Usage: /x\ttrain-ai=n", "ai-train", "", "/x", "content-usage: /x train-ai=n 2"},
	{"no space after the path", "Content-Usage: /x,train-ai=n", "ai-train", "", "/x", ""},
	{"a yes of another source does not help", "Content-Usage: train-ai=n\nContent-Signal: / ai-train=yes", "ai-train", "", "/", "content-usage: train-ai=n 2"},
	{"a boolean", "Content-Usage: train-ai=?0", "ai-train", "", "/", ""},
	{"an inner list", "Content-Usage: train-ai=(n)", "ai-train", "", "/", ""},
	{"a string", `Content-Usage: train-ai="n"`, "ai-train", "", "/", ""},
	{"a capital token", "Content-Usage: train-ai=N", "ai-train", "", "/", ""},
	{"a parameter of a token", "Content-Usage: train-ai=n;since=2020", "ai-train", "", "/", "content-usage: train-ai=n 2"},
	{"a comma at the end", "Content-Usage: train-ai=n,", "ai-train", "", "/", ""},
	{"a comment at the end", "Content-Usage: train-ai=n # , never", "ai-train", "", "/", "content-usage: train-ai=n 2"},
	{"NUL at the end", "Content-Usage: train-ai=n\x00;", "ai-train", "", "/", "content-usage: train-ai=n 2"},
	{"no words of the other line", "Content-Usage: ai-train=n, ai-input=n, use=immediate\nContent-Signal: train-ai=no, ai-use=no, ai-train=n", "ai-input ai-train full", "", "/", ""},
	{"the input of models", "Content-Usage: ai-use=n", "ai-input", "", "/", "content-usage: ai-use=n 2"},
	{"white space and case in a signal", "content-signals:  /\tAI-Train = No ,use=FULL", "ai-train", "", "/", "content-signal: / ai-train=no 2"},
	{"a key twice in a signal", "Content-Signal: ai-train=no, ai-train=yes", "ai-train", "", "/", "content-signal: ai-train=no 2"},
	{"use= twice in a signal", "Content-Signal: use=immediate, use=full", "search reference", "", "/", "content-signal: use=immediate 2"},
	{"use= does not concern a bot that declares none", "Content-Signal: use=immediate", "search", "", "/", ""},
	{"use= does not concern a bot without purposes", "Content-Signal: use=immediate", "full", "", "/", ""},
	{"immediate use is always right", "Content-Signal: use=immediate", "search immediate", "", "/", ""},
	{"no purposes", "Content-Signal: search=no, ai-input=no, ai-train=no", "", "", "/", ""},
	{"other spellings", "CONTENT USAGE : /x train-ai=n\ncontentusage: train-ai=n", "ai-train", "", "/", "content-usage: train-ai=n 3"},
	{"two words without a colon", "Content-Signal ai-train=no", "ai-train", "", "/", "content-signal: ai-train=no 2"},
	{"before any group", "Content-Signal: ai-train=no\nUser-agent: ExampleBot\nAllow: /", "ai-train", "ExampleBot", "/", "content-signal: ai-train=no 1"},
	{"before any group, for a bot without one", "Content-Signal: ai-train=no\nUser-agent: ExampleBot\nAllow: /", "ai-train", "", "/", "content-signal: ai-train=no 1"},
	{"before any group, a yes counts for nothing", "Content-Usage: /x train-ai=y\nUser-agent: *\nContent-Usage: train-ai=n", "ai-train", "", "/x", "content-usage: train-ai=n 3"},
	{"before any group, a yes among them", "Content-Usage: train-ai=n\nContent-Usage: /x train-ai=y\nUser-agent: *", "ai-train", "", "/x", ""},
	{"before any group, no yes of a group helps", "Content-Usage: train-ai=n\nUser-agent: *\nContent-Usage: /x train-ai=y", "ai-train", "", "/x", "content-usage: train-ai=n 1"},
	{"a group does not inherit", "User-agent: *\nContent-Signal: ai-train=no\nUser-agent: ExampleBot\nDisallow:", "ai-train", "ExampleBot", "/", ""},
	{"groups of one name", "User-agent: ExampleBot\nContent-Usage: train-ai=y\nDisallow:\nUser-agent: examplebot/2\nContent-Usage: train-ai=n", "ai-train", "ExampleBot", "/", "content-usage: train-ai=n 5"},
	{"among user-agent lines, the ones above", "User-agent: ExampleBot\nContent-Signal: ai-train=no\nUser-agent: *\nDisallow: /x", "ai-train", "ExampleBot", "/", "content-signal: ai-train=no 2"},
	{"among user-agent lines, not the ones below", "User-agent: ExampleBot\nContent-Signal: ai-train=no\nUser-agent: *\nDisallow: /x", "ai-train", "", "/", ""},
	{"after a rule, all of the group", "User-agent: ExampleBot\nCrawl-delay: 1\nUser-agent: *\nDisallow: /x\nContent-Signal: ai-train=no", "ai-train", "ExampleBot", "/", "content-signal: ai-train=no 5"},
	{"among user-agent lines, what does not parse parts nothing", "User-agent: ExampleBot\nContent-Usage: N\nUser-agent: *\nContent-Usage: train-ai=n", "ai-train", "ExampleBot", "/", "content-usage: train-ai=n 4"},
	{"Cloudflare: search", cloudflare, "search", "", "/page", ""},
	{"Cloudflare: input", cloudflare, "ai-input", "", "/page", ""},
	{"Cloudflare: training", cloudflare, "ai-train", "", "/page", "content-signal: ai-train=no 30"},
	{"Cloudflare: full use", cloudflare, "search full", "", "/page", "content-signal: use=reference 30"},
	{"Cloudflare: a bot with a group", cloudflare, "ai-train", "GPTBot", "/page", ""},
}

func TestPreferences(t *testing.T) {
	for _, test := range preferenceCases {
		text := test.robots
		if !strings.Contains(text, "User-agent") {
			text = "User-agent: *\n" + text
		}
		file := Parse([]byte(text))
		group, _ := file.Group([]string{test.agent})
		got := ""
		if refusal, refused := file.Preferences(group).Refusal(test.path, use(test.use), inRobotsTxt); refused {
			got = refusal.String() + " " + strconv.Itoa(refusal.Line)
		}
		if got != test.refusal {
			t.Errorf("%s: %q, want %q", test.name, got, test.refusal)
		}
	}
}

// A Content-Signal among user-agent lines changes nothing about the rules.
func TestPreferencesEndNoGroup(t *testing.T) {
	for _, line := range []string{"Content-Signal: ai-train=no", "Content-Usage: /x train-ai=n", "License: https://example.com/license.xml"} {
		file := Parse([]byte("User-agent: a\n" + line + "\nUser-agent: b\n" + line + "\nDisallow: /x\n" + line + "\nAllow: /x/y\n"))
		for _, agent := range []string{"a", "b"} {
			group, _ := file.Group([]string{agent})
			if rule, matches := group.Match("/x/z"); !matches || rule.Allow || rule.Line != 5 {
				t.Errorf("%s, %s: %+v decides about /x/z", line, agent, rule)
			}
			if rule, matches := group.Match("/x/y"); !matches || !rule.Allow || rule.Line != 7 {
				t.Errorf("%s, %s: %+v decides about /x/y", line, agent, rule)
			}
		}
	}
}

func TestPreferencesOfSources(t *testing.T) {
	set := Parse([]byte("Content-Signal: ai-train=no\nContent-Usage: /x train-ai=n\n")).Preferences(nil)
	for _, test := range []struct {
		sources []preference.Source
		path    string
		line    int // 0: it passes
	}{
		{nil, "/x", 0},
		{[]preference.Source{preference.ContentSignal}, "/x", 1},
		{[]preference.Source{preference.ContentUsage}, "/x", 2},
		{[]preference.Source{preference.ContentUsage}, "/", 0},
		{[]preference.Source{preference.ContentUsage, preference.ContentSignal}, "/", 1},
		{[]preference.Source{preference.TDMRep, preference.Response}, "/x", 0},
	} {
		refusal, refused := set.Refusal(test.path, use("ai-train"), preference.SourcesOf(test.sources...))
		if refusal.Line != test.line || refused != (test.line > 0) {
			t.Errorf("%v on %s: %+v (%v)", test.sources, test.path, refusal, refused)
		}
	}
}

func TestPreferencesForAllPaths(t *testing.T) {
	for _, test := range []struct {
		lines     string
		all, none bool // for training
	}{
		{"", false, true},
		{"Content-Signal: search=no", false, true},
		{"Content-Signal: ai-train=no", true, false},
		{"Content-Signal: ai-train=no\nContent-Usage: train-ai=y", true, false},
		{"Content-Signal: ai-train=no\nContent-Signal: /x ai-train=yes", false, false},
		{"Content-Signal: ai-train=no\nContent-Signal: /x search=yes", false, false},
		{"Content-Signal: /x ai-train=no\nContent-Signal: ai-train=no", true, false},
		{"Content-Signal: ai-train=no\nContent-Signal: / ai-train=yes", false, true},
		{"Content-Usage: /x train-ai=n", false, false},
		{"Content-Usage: /* train-ai=n", true, false},
	} {
		file := Parse([]byte("User-agent: *\n" + test.lines))
		group, _ := file.Group(nil)
		set := file.Preferences(group)
		all, none := set.RefusesAll(use("ai-train"), inRobotsTxt), set.RefusesNone(use("ai-train"), inRobotsTxt)
		if all != test.all || none != test.none {
			t.Errorf("%q: all %v, none %v", test.lines, all, none)
		}
		if set.RefusesAll(use("full"), inRobotsTxt) || !set.RefusesNone(use("full"), inRobotsTxt) {
			t.Errorf("%q concerns a bot without purposes", test.lines)
		}
	}
}

// Refusal neither allocates nor keeps a reference to the body.
func TestRefusal(t *testing.T) {
	body := []byte("User-agent: *\nContent-Usage: /%7Ea train-ai=n\nLicense: https://example.com/license.xml\nContent-Signal: /*b$ search=yes, ai-train=no, use=reference\n")
	file := Parse(body)
	clear(body)
	group, _ := file.Group(nil)
	want := preference.Refusal{Source: preference.ContentUsage, Preference: "train-ai=n", Path: "/%7Ea", Line: 2}
	everything := use("search ai-input ai-train full")
	if got, _ := file.Preferences(group).Refusal("/~a", everything, inRobotsTxt); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if licenses := file.Licenses(); len(licenses) != 1 || licenses[0] != "https://example.com/license.xml" {
		t.Errorf("licenses %q", licenses)
	}
	for _, path := range []string{"/c", "/~a", "/%7E./b", longPath} {
		if n := testing.AllocsPerRun(100, func() { file.Preferences(group).Refusal(path, everything, inRobotsTxt) }); n != 0 {
			t.Errorf("%.20s: %v allocations", path, n)
		}
	}
}

// A search that would take too long refuses, but only if some line refuses.
func TestHostilePreferencesRefuse(t *testing.T) {
	long := "/" + strings.Repeat("a", 60000)
	many := "User-agent: *\n" + strings.Repeat("Content-Signal: /*aaa*b search=yes, ai-train=no\n", 10000)
	file := Parse([]byte(many))
	group, _ := file.Group(nil)
	if refusal, refused := file.Preferences(group).Refusal(long, use("ai-train"), inRobotsTxt); !refused || refusal.Line != 0 || refusal.String() != "content-signal: ai-train=no" {
		t.Errorf("%v (%v)", refusal, refused)
	}
	if refusal, refused := file.Preferences(group).Refusal(long, use("search"), inRobotsTxt); refused {
		t.Errorf("%v", refusal)
	}
	if refusal, refused := file.Preferences(group).Refusal("/short", use("ai-train"), inRobotsTxt); refused {
		t.Errorf("%v", refusal)
	}
}
