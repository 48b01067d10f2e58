package robots

import (
	"fmt"
	"strings"
)

// A Finding is a line of a robots.txt that probably does not do what its author meant.
type Finding struct {
	Line    int    // from 1
	Message string // what is wrong, and what to write instead
}

// Lint returns what the author of a robots.txt has probably not meant, in the order of lines:
// lines that are ignored, spellings that only some crawlers understand, rules that match no
// path, and rules that contradict each other.
func Lint(body []byte) []Finding {
	text := trimMark(string(body))
	if strings.HasPrefix(strings.TrimSpace(text), "<") {
		return []Finding{{1, "this is a page, not a robots.txt; crawlers find no rule in it"}}
	}
	var l linter
	eachLine(text, l.line)
	return l.findings
}

type linter struct {
	findings []Finding
	grouped  bool            // there was a user-agent line
	ruled    bool            // a rule came after the last user-agent line
	rules    map[string]Rule // of the present group, by pattern
}

// spelled are the fields as RFC 9309 and other specifications spell them.
var spelled = map[field]string{
	userAgent: "User-agent", allow: "Allow", disallow: "Disallow", sitemap: "Sitemap", crawlDelay: "Crawl-delay",
	requestRate: "Request-rate", contentSignal: "Content-Signal", contentUsage: "Content-Usage", license: "License",
}

// others are fields that other crawlers know, in lower case.
var others = []string{"host", "clean-param"}

func (l *linter) line(number int, text string) {
	found := func(format string, args ...any) {
		l.findings = append(l.findings, Finding{number, fmt.Sprintf(format, args...)})
	}
	bare, _, _ := strings.Cut(text, "#")
	if bare = trimSpace(bare); bare == "" {
		return
	}
	field, value := splitLine(text)
	written, _, colon := strings.Cut(bare, ":")
	written = trimSpace(written)
	switch {
	case field == unknown && !colon:
		found("this line has no FIELD: VALUE, so crawlers ignore it; write # before a comment")
		return
	case field == unknown:
		for _, other := range others {
			if strings.EqualFold(written, other) {
				return
			}
		}
		found("%q is no field of robots.txt, so crawlers ignore the line", written)
		return
	case !colon:
		found("there is no colon, so some crawlers ignore the line; write %s: %s", spelled[field], value)
	case !strings.EqualFold(written, spelled[field]):
		found("some crawlers don't know %q; write %s", written, spelled[field])
	}
	switch field {
	case userAgent:
		if l.ruled || !l.grouped {
			l.rules = map[string]Rule{}
		}
		l.grouped, l.ruled = true, false
		if value == "" {
			found("it names no bot; write a product token, or * for all others")
		}
	case allow, disallow:
		if !l.grouped {
			found("it comes before the first User-agent line, so crawlers ignore it")
			return
		}
		l.ruled = true
		l.rule(Rule{Allow: field == allow, Pattern: value, Line: number}, found)
	case crawlDelay, requestRate:
		pace := readPace(field, value)
		if !l.grouped {
			found("it comes before the first User-agent line, so crawlers ignore it")
		} else if !pace.stated() {
			found("%q can't be read, so crawlers ignore it; write a number of seconds, for example Crawl-delay: 10", value)
		}
	case sitemap:
		if !strings.Contains(value, "://") {
			found("crawlers need the whole URL; write it with https:// and the host")
		}
	}
}

func (l *linter) rule(r Rule, found func(format string, args ...any)) {
	if r.Pattern == "" {
		return
	}
	if !strings.HasPrefix(r.Pattern, "/") && !strings.HasPrefix(r.Pattern, "*") {
		found("a path begins with /, so this rule matches nothing; write /%s", r.Pattern)
		return
	}
	before, again := l.rules[r.Pattern]
	switch {
	case !again:
		l.rules[r.Pattern] = r
	case before.Allow == r.Allow:
		found("line %d says the same; remove one", before.Line)
	default:
		found("line %d says the contrary for the same paths, and the Allow wins; remove one", before.Line)
	}
}
