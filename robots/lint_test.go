package robots

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLint(t *testing.T) {
	const group = "User-agent: *\n"
	for text, want := range map[string]string{
		"":    "",
		group: "",
		"# a comment\n\n" + group + "Disallow: /a # why\nAllow: *.png$\nDisallow:\nCrawl-delay: 2.5\nRequest-rate: 1/5\nSitemap: https://example.com/s.xml\nHost: example.com\n": "",
		"<!doctype html>\n<title>Not found</title>":                "1: this is a page",
		group + "Dissalow: /a":                                     `2: some crawlers don't know "Dissalow"; write Disallow`,
		"user agent: *\nDisallow: /":                               `1: some crawlers don't know "user agent"; write User-agent`,
		group + "Disallow /a":                                      "2: there is no colon, so some crawlers ignore the line; write Disallow: /a",
		group + "do not crawl this site":                           "2: this line has no FIELD: VALUE",
		group + "Noindex: /a":                                      `2: "Noindex" is no field of robots.txt`,
		"Disallow: /\n" + group:                                    "1: it comes before the first User-agent line",
		"Crawl-delay: 5\n" + group:                                 "1: it comes before the first User-agent line",
		"User-agent:\nDisallow: /":                                 "1: it names no bot",
		group + "Disallow: private":                                "2: a path begins with /, so this rule matches nothing; write /private",
		group + "Disallow: /a\nAllow: /b\nAllow: /a":               "4: line 2 says the contrary for the same paths, and the Allow wins",
		group + "Disallow: /a\nDisallow: /a":                       "3: line 2 says the same; remove one",
		group + "Disallow: /a\nUser-agent: B\nAllow: /a":           "",
		"User-agent: A\nUser-agent: B\nDisallow: /a\nDisallow: /a": "4: line 3 says the same",
		group + "Crawl-delay: ten":                                 `2: "ten" can't be read`,
		"Sitemap: /sitemap.xml":                                    "1: crawlers need the whole URL",
		"\xEF\xBB\xBFUser-agent: *\r\nDisallow: a\rDisallow: /\nb": "2: a path begins with /|4: this line has no FIELD",
	} {
		var got []string
		for _, f := range Lint([]byte(text)) {
			got = append(got, fmt.Sprintf("%d: %s", f.Line, f.Message))
		}
		parts := strings.Split(want, "|")
		if want == "" {
			parts = nil
		}
		if len(got) != len(parts) {
			t.Errorf("%q: got %q, want %q", text, got, parts)
			continue
		}
		for i := range parts {
			if !strings.HasPrefix(got[i], parts[i]) {
				t.Errorf("%q: got %q, want %q", text, got[i], parts[i])
			}
		}
	}
}

// A careful author's file has no findings.
func TestLintOfAGoodFile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "cli", "testdata", "robots", "shop.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if findings := Lint(text); findings != nil {
		t.Errorf("got %v", findings)
	}
}
