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
