package robots

import (
	"strings"
	"testing"
)

func TestLinesToShow(t *testing.T) {
	const file = "\uFEFFDisallow: /nobody's\r\n" +
		"User-agent: a\rUser-Agent: b\n" +
		"Disallow: /ab # why\n" +
		"Crawl-delay: 1\nRequest-rate: 1/9\n" +
		"Sitemap: http://s.example/\n" +
		"\n" +
		"User-agent: *\n" +
		"Disallow:\n" +
		"User-agent: B/2\n" +
		"Allow: relative\n" +
		"hello\n" +
		"User-agent: d\nCrawl-delay: 2\nUser-agent: a\nRequest-rate: 1/9\nAllow: /d\n"
	for _, test := range []struct{ tokens, want string }{
		// r: a rule; -: none; in capitals or +: of the group
		{"a", "r ++R++-- -r -r- +-++R"},
		{"b", "r ++R++-- -r +R- ----r"},
		{"c", "r --r---- +R -r- ----r"},
		{"c b", "r ++R++-- -r +R- ----r"},
		{"d", "r --r---- -r -r- +++-R"},
	} {
		got := ""
		for _, line := range Lines([]byte(file), strings.Fields(test.tokens)) {
			switch {
			case line.Rule && line.Group:
				got += "R"
			case line.Rule:
				got += "r"
			case line.Group:
				got += "+"
			default:
				got += "-"
			}
		}
		if want := strings.ReplaceAll(test.want, " ", ""); got != want {
			t.Errorf("%s: %s, want %s", test.tokens, got, want)
		}
	}
	if lines := Lines([]byte(file), nil); lines[0].Text != "Disallow: /nobody's" || lines[3].Text != "Disallow: /ab # why" {
		t.Errorf("lines %v", lines)
	}
	if lines := Lines(nil, []string{"a"}); len(lines) != 0 {
		t.Errorf("of nothing: %v", lines)
	}
}

func TestLinesAboutUseToShow(t *testing.T) {
	const file = "Content-Signal: ai-train=no\n" +
		"Crawl-delay: 1\n" +
		"User-agent: a\nContent-Usage: /x train-ai=n\nUser-agent: b\nDisallow: /\nContent-Signal: search=no\n" +
		"License: https://example.com/license.xml\n"
	for token, want := range map[string]string{"a": "+-+++++-", "b": "+-+-+++-", "c": "+-------"} {
		got := ""
		for _, line := range Lines([]byte(file), []string{token}) {
			if line.Group {
				got += "+"
			} else {
				got += "-"
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", token, got, want)
		}
	}
}
