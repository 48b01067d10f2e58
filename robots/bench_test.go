package robots_test

import (
	"fmt"
	"strings"
	"testing"

	"robotsproxy/robots"
	"robotsproxy/robots/preference"
)

// shop is a file like those of large shops: some bots are kept out, and of 90 rules for
// everyone every sixth has a wildcard.
func shop() []byte {
	var b strings.Builder
	b.WriteString("User-agent: BadBot\nUser-agent: WorseBot\nDisallow: /\n\nUser-agent: *\n")
	for i := range 30 {
		fmt.Fprintf(&b, "Disallow: /section-%d/\nDisallow: /account/page-%d\n", i, i)
		if i%2 == 0 {
			fmt.Fprintf(&b, "Allow: /section-%d/open\nDisallow: /*?filter%d=\n", i, i)
		}
	}
	b.WriteString("\nSitemap: https://example.com/sitemap.xml\n")
	return []byte(b.String())
}

func BenchmarkParse(b *testing.B) {
	text := shop()
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		robots.Parse(text)
	}
}

// BenchmarkMatch measures one verdict: find the group, match one path.
func BenchmarkMatch(b *testing.B) {
	file := robots.Parse(shop())
	tokens := []string{"ExampleBot"}
	for _, test := range []struct{ name, path string }{
		{"disallowed", "/section-7/page-17?colour=white"},
		{"allowed", "/section-8/open/page-17?colour=white"},
		{"unmatched", "/catalog/lamps/desk-lamp-17?colour=white"},
	} {
		b.Run("path="+test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				group, _ := file.Group(tokens)
				group.Match(test.path)
			}
		})
	}
}

func BenchmarkParseTarget(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := robots.ParseTarget("https://www.example.com/catalog/lamps/desk-lamp-17?colour=white"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTargetString(b *testing.B) {
	target, err := robots.ParseTarget("https://www.example.com:8443/shop/product%20list?page=3&sort=price")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = target.String()
	}
}

// BenchmarkPreferences measures how much longer a verdict takes where a file says something
// about use: one of 14,000 rules, a tenth of them with wildcards, and perhaps 100 lines of
// preferences with a path each, of one source or of both.
func BenchmarkPreferences(b *testing.B) {
	var rules, signals, both strings.Builder
	rules.WriteString("User-agent: *\nContent-Signal: search=yes\n")
	for i := range 14000 {
		if i%10 == 0 {
			fmt.Fprintf(&rules, "Disallow: /*?filter%d=\n", i)
		} else {
			fmt.Fprintf(&rules, "Disallow: /section-%d/page-%d\n", i%100, i)
		}
	}
	for i := range 100 {
		signal := fmt.Sprintf("Content-Signal: /section-%d/articles/ search=yes, ai-input=yes, ai-train=no\n", i)
		signals.WriteString(signal)
		if i%2 == 0 {
			both.WriteString(signal)
		} else {
			fmt.Fprintf(&both, "Content-Usage: /section-%d/articles/ search=y, train-ai=n\n", i)
		}
	}
	sources := preference.SourcesOf(preference.ContentSignal, preference.ContentUsage)
	uses := map[string]preference.Use{
		"none":  {},
		"train": {Purposes: preference.PurposesOf(preference.AITrain)},
		"all":   {Purposes: preference.PurposesOf(preference.Search, preference.AIInput, preference.AITrain), Content: preference.Full},
	}
	for _, test := range []struct{ lines, text, purposes string }{
		{"none", "", "all"}, {"signals", signals.String(), "none"}, {"signals", signals.String(), "train"},
		{"signals", signals.String(), "all"}, {"both", both.String(), "all"},
	} {
		file := robots.Parse([]byte(rules.String() + test.text))
		b.Run("lines="+test.lines+"/purposes="+test.purposes, func(b *testing.B) {
			const path = "/section-7/offers/lamps/desk-lamp-17?colour=white&size=2"
			use := uses[test.purposes]
			b.ReportAllocs()
			for b.Loop() {
				group, _ := file.Group([]string{"ExampleBot"})
				if _, matches := group.Match(path); matches {
					b.Fatal("the path is disallowed")
				}
				if refusal, refused := file.Preferences(group).Refusal(path, use, sources); refused {
					b.Fatal(refusal)
				}
			}
		})
	}
}
