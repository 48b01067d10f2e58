package robots

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"robotsproxy/robots/pattern"
	"robotsproxy/robots/preference"
)

// maxLine bounds the octets of a line that count, as in Google's parser.
const maxLine = 16663

// Parse reads a robots.txt. It never fails: it ignores what it cannot read (RFC 9309 2.2). Its
// time and memory grow linearly with the length of the body, whatever the body holds. It
// keeps no reference to body.
func Parse(body []byte) *File {
	text := trimMark(view(body))
	p := newParser(text)
	eachLine(text, p.line)
	return p.compile()
}

// Cut returns the part of a body that counts. Callers must have read up to one octet more than
// max. Cut drops what is beyond max, and a last line that is cut there, since half a rule is
// another rule (Disallow: / for Disallow: /private).
func Cut(body []byte, max int64) []byte {
	if int64(len(body)) <= max {
		return body
	}
	over := body[max]
	body = body[:max]
	if over == '\n' || over == '\r' {
		return body
	}
	return body[:bytes.LastIndexAny(body, "\r\n")+1]
}

// newParser makes a parser for a text, with room for its rules: growing would copy them over
// and over. Most lines are rules, and most rules are longer than 16 octets.
func newParser(text string) *parser {
	return &parser{
		named: map[string][]int32{},
		rules: pattern.NewBuilder(1+min(strings.Count(text, "\n"), len(text)/16), len(text)),
	}
}

// trimMark removes a byte-order mark, or its first one or two octets.
func trimMark(text string) string {
	for _, octet := range []string{"\xEF", "\xBB", "\xBF"} {
		var found bool
		if text, found = strings.CutPrefix(text, octet); !found {
			break
		}
	}
	return text
}

// eachLine calls do with each line of text and its number. Lines end with LF, CR or
// CRLF.
func eachLine(text string, do func(number int, line string)) {
	// LF and CR are searched for separately. Otherwise a file that has only one of them would
	// be searched to its end for the other at each line.
	at := 0
	next := func(c byte) int {
		if i := strings.IndexByte(text[at:], c); i >= 0 {
			return at + i
		}
		return len(text)
	}
	lf, cr := next('\n'), next('\r')
	for number := 1; ; number++ {
		end := min(lf, cr)
		do(number, text[at:end])
		if end == len(text) {
			return
		}
		at = end + 1
		if end == cr {
			if strings.HasPrefix(text[at:], "\n") {
				at++
			}
			cr = next('\r')
		}
		if lf < at {
			lf = next('\n')
		}
	}
}

// A field is the kind of a line.
type field int

const (
	unknown field = iota
	userAgent
	allow
	disallow
	sitemap
	crawlDelay
	requestRate
	contentSignal
	contentUsage
	license
)

// fields has the accepted spellings of each field. A longer name that begins with one is
// accepted too. They are those of Google's parser, and similar ones of the fields that it
// does not know.
var fields = []struct {
	prefix string
	field  field
}{
	{"disallow", disallow},
	{"allow", allow},
	{"user-agent", userAgent},
	{"useragent", userAgent},
	{"user agent", userAgent},
	{"sitemap", sitemap},
	{"site-map", sitemap},
	{"crawl-delay", crawlDelay},
	{"crawldelay", crawlDelay},
	{"crawl delay", crawlDelay},
	{"request-rate", requestRate},
	{"requestrate", requestRate},
	{"request rate", requestRate},
	{"dissallow", disallow},
	{"dissalow", disallow},
	{"disalow", disallow},
	{"diasllow", disallow},
	{"disallaw", disallow},
	{"content-signal", contentSignal},
	{"contentsignal", contentSignal},
	{"content signal", contentSignal},
	{"content-usage", contentUsage},
	{"contentusage", contentUsage},
	{"content usage", contentUsage},
	{"license", license},
	{"licence", license},
}

// splitLine returns the field and the value of a line.
func splitLine(line string) (field, string) {
	line = line[:min(len(line), maxLine)]
	line, _, _ = strings.Cut(line, "\x00")
	line, _, _ = strings.Cut(line, "#")
	line = trimSpace(line)
	end := strings.IndexByte(line, ':')
	if end < 0 {
		// Some authors forget the colon. Exactly two words are clear enough.
		end = strings.IndexAny(line, " \t")
		if end < 0 || strings.ContainsAny(strings.TrimLeft(line[end:], " \t"), " \t") {
			return unknown, ""
		}
	}
	key := trimSpace(line[:end])
	for _, f := range fields {
		if hasPrefixFold(key, f.prefix) {
			return f.field, trimSpace(line[end+1:])
		}
	}
	return unknown, ""
}

// section is a group as it is written: user-agent lines, then rules, which are those of the
// section of the same number in parser.rules. A Crawl-delay, a Request-rate or a
// preference ends no section (RFC 9309 2.2.4), but a run of its user-agent lines:
// before the rules it belongs to the run right above it, after them to all runs.
type section struct {
	pace        pace  // stated after a rule
	preferences int32 // those after a rule: a section of parser.preferences; 0 if there are none
	blank       Rule  // see Group.Blank
}

// run is a part of the user-agent lines of a section.
type run struct {
	section     int32
	pace        pace  // stated before the rules
	preferences int32 // those before the rules, as in section
}

type parser struct {
	sections []section
	runs     []run
	named    map[string][]int32 // the runs that address a bot, by its name in lower case
	rules    *pattern.Builder
	sitemaps []string
	licenses []string
	ruled    bool // a rule came after the last user-agent line
	parted   bool // a Crawl-delay, Request-rate or preference came after it

	// preferences has the lines before the first user-agent line in section 0.
	preferences preference.Builder
}

func (p *parser) line(number int, line string) {
	switch field, value := splitLine(line); field {
	case userAgent:
		p.userAgent(value)
	case allow, disallow:
		if len(p.sections) == 0 {
			return
		}
		// A rule that can match nothing ends the run of user-agent lines too.
		p.ruled = true
		if value == "" {
			s := &p.sections[len(p.sections)-1]
			s.blank = firstBlank(s.blank, Rule{Allow: field == allow, Line: number})
			return
		}
		rank := disallowRank
		if field == allow {
			rank = allowRank
		}
		p.rules.Add(pattern.Pattern{Text: value, Rank: rank, Line: number})
	case sitemap:
		if value != "" {
			p.sitemaps = append(p.sitemaps, value)
		}
	case crawlDelay, requestRate:
		if len(p.sections) == 0 {
			return
		}
		p.parted = true
		stated := &p.runs[len(p.runs)-1].pace
		if p.ruled {
			stated = &p.sections[len(p.sections)-1].pace
		}
		stated.add(readPace(field, value))
	case contentSignal:
		p.preference(preference.ContentSignal, value, number)
	case contentUsage:
		p.preference(preference.ContentUsage, value, number)
	case license:
		if value != "" {
			p.licenses = append(p.licenses, value)
		}
	}
}

func (p *parser) preference(source preference.Source, value string, number int) {
	if len(p.sections) > 0 {
		section := &p.runs[len(p.runs)-1].preferences
		if p.ruled {
			section = &p.sections[len(p.sections)-1].preferences
		}
		if *section == 0 {
			*section = p.preferences.Section()
		}
	}
	if p.preferences.Add(source, value, number) {
		p.parted = true
	}
}

// firstBlank returns the one of two empty rules that Group.Blank returns. a comes first in the
// file.
func firstBlank(a, b Rule) Rule {
	if a.Line == 0 || b.Allow && !a.Allow {
		return b
	}
	return a
}

func (p *parser) userAgent(value string) {
	if len(p.sections) == 0 || p.ruled {
		p.sections = append(p.sections, section{})
		p.rules.Section()
		p.ruled, p.parted = false, true
	}
	if p.parted {
		p.runs = append(p.runs, run{section: int32(len(p.sections) - 1)})
		p.parted = false
	}
	name, lead := agentNames(value)
	p.address(name)
	if lead != name {
		p.address(lead)
	}
}

// address adds a name to those of the current run.
func (p *parser) address(name string) {
	if name == "" {
		return
	}
	var stack [64]byte
	lower := appendLower(stack[:0], name)
	at := int32(len(p.runs) - 1)
	if before := p.named[string(lower)]; len(before) == 0 || before[len(before)-1] != at {
		p.named[string(lower)] = append(before, at)
	}
}

// parseNumber reads a decimal number of at most 2^53. A larger one counts as that.
func parseNumber(s string) (float64, bool) {
	if strings.Trim(s, "0123456789.") != "" {
		return 0, false // ParseFloat would take a sign, an exponent, NaN
	}
	n, err := strconv.ParseFloat(s, 64)
	return min(n, 1<<53), err == nil || errors.Is(err, strconv.ErrRange)
}

// seconds returns n seconds as a duration, at most maxSeconds.
func seconds(n float64) time.Duration {
	const maxSeconds = 1 << 30 // 34 years; a Duration holds nine times that
	return time.Duration(min(n, maxSeconds) * float64(time.Second))
}

// trimSpace is strings.TrimSpace for ASCII: U+0085 and U+00A0 are text here.
func trimSpace(s string) string {
	for s != "" && isSpace(s[0]) {
		s = s[1:]
	}
	for s != "" && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && s[0]|0x20 == prefix[0] && strings.EqualFold(s[:len(prefix)], prefix)
}

// view returns b as a string, without a copy. b must not change while the string is in use.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
