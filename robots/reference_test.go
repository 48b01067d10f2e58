package robots

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// This is a slow and obvious implementation of robots.txt: regular expressions, and every rule
// tried. It shares nothing with the package but the types that are compared.

type referenceFile struct {
	groups []referenceGroup
}

type referenceGroup struct {
	names []string
	rules []referenceRule
}

type referenceRule struct {
	Rule
	length  int
	pattern *regexp.Regexp
}

var (
	referenceBOM    = regexp.MustCompile(`\A\xEF(?:\xBB\xBF?)?`)
	referenceEnd    = regexp.MustCompile(`\r\n|\r|\n`)
	referenceFields = []struct {
		name string
		line *regexp.Regexp
	}{
		{"user-agent", referenceField(`user-agent|useragent|user agent`)},
		{"allow", referenceField(`allow`)},
		{"disallow", referenceField(`disallow|dissallow|dissalow|disalow|diasllow|disallaw`)},
	}
	referenceName   = regexp.MustCompile(`^[A-Za-z_-]*`)
	referenceWord   = regexp.MustCompile(`^[^ \t\v\f\r\n]*`)
	referenceOctet  = regexp.MustCompile(`(?s)%[0-9A-Fa-f]{2}|.`)
	referenceStatic = regexp.MustCompile(`^[A-Za-z0-9._~:/?#\[\]@!$&'()+,;=%-]$`)
)

// referenceField matches a line that has a colon after the field, or is of two words.
func referenceField(names string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)^(?:(?:` + names + `)[^:]*:(.*)|(?:` + names + `)[^: \t]*[ \t]+([^: \t]+))$`)
}

const referenceSpace = " \t\n\v\f\r"

// latin turns each octet into the character of that number, for regular expressions.
func latin(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}

func octets(s string) string {
	var b []byte
	for _, c := range s {
		b = append(b, byte(c))
	}
	return string(b)
}

func referenceParse(body string) *referenceFile {
	f := new(referenceFile)
	afterRule := true
	for i, line := range referenceEnd.Split(referenceBOM.ReplaceAllString(latin(body), ""), -1) {
		runes := []rune(line)
		line = string(runes[:min(len(runes), 16663)])
		line, _, _ = strings.Cut(line, "\x00")
		line, _, _ = strings.Cut(line, "#")
		line = strings.Trim(line, referenceSpace)
		for _, field := range referenceFields {
			m := field.line.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			value := strings.Trim(m[1]+m[2], referenceSpace)
			if field.name == "user-agent" {
				if afterRule {
					f.groups = append(f.groups, referenceGroup{})
					afterRule = false
				}
				g := &f.groups[len(f.groups)-1]
				g.names = append(g.names, referenceNames(octets(value))...)
			} else if len(f.groups) > 0 {
				afterRule = true
				g := &f.groups[len(f.groups)-1]
				g.rules = append(g.rules, referenceCompile(Rule{field.name == "allow", octets(value), i + 1})...)
			}
		}
	}
	return f
}

func referenceNames(value string) []string {
	word := referenceLower(referenceWord.FindString(value))
	if word == "*" {
		return []string{"*"}
	}
	lead := referenceLower(referenceName.FindString(value))
	word, _, _ = strings.Cut(word, "/")
	word = strings.TrimSuffix(word, "*")
	return slices.DeleteFunc([]string{lead, word}, func(name string) bool { return name == "" || name == "*" })
}

var (
	referenceAgent    = referenceField(`user-agent|useragent|user agent`)
	referenceDelay    = referenceField(`crawl-delay|crawldelay|crawl delay`)
	referenceRate     = referenceField(`request-rate|requestrate|request rate`)
	referenceRuleLine = referenceField(`allow|disallow|dissallow|dissalow|disalow|diasllow|disallaw`)
)

// referenceDelays returns the first Crawl-delay of each name, as written. Before the rules it
// belongs to the names directly above it, after them to all names of its group.
func referenceDelays(body string) map[string]string {
	delays := map[string]string{}
	var group, above []string
	ruled, stated := true, false
	for _, line := range referenceEnd.Split(referenceBOM.ReplaceAllString(latin(body), ""), -1) {
		line, _, _ = strings.Cut(line, "\x00")
		line, _, _ = strings.Cut(line, "#")
		line = strings.Trim(line, referenceSpace)
		if m := referenceAgent.FindStringSubmatch(line); m != nil {
			if ruled {
				group = nil
			}
			if ruled || stated {
				above = nil
			}
			ruled, stated = false, false
			named := referenceNames(octets(strings.Trim(m[1]+m[2], referenceSpace)))
			group, above = append(group, named...), append(above, named...)
		} else if referenceRuleLine.MatchString(line) {
			ruled, above = true, group
		} else if referenceRate.MatchString(line) {
			stated = true
		} else if m := referenceDelay.FindStringSubmatch(line); m != nil {
			stated = true
			value := strings.Trim(m[1]+m[2], referenceSpace)
			for _, name := range above {
				if delays[name] == "" && regexp.MustCompile(`^(\d+\.?\d*|\.\d+)$`).MatchString(value) {
					delays[name] = value
				}
			}
		}
	}
	return delays
}

// referenceLower lowers ASCII letters alone.
func referenceLower(s string) string {
	return regexp.MustCompile(`[A-Z]`).ReplaceAllStringFunc(s, strings.ToLower)
}

// referenceNormal returns the octets of s, each normalised.
func referenceNormal(s string) []string {
	var all []string
	for _, octet := range referenceOctet.FindAllString(latin(s), -1) {
		c := []rune(octet)[0]
		if len(octet) == 3 {
			fmt.Sscanf(octet, "%%%02X", &c)
			switch {
			case regexp.MustCompile(`[A-Za-z0-9._~-]`).MatchString(string(c)):
				octet = string(c)
			default:
				octet = strings.ToUpper(octet)
			}
		} else if octet != "*" && !referenceStatic.MatchString(octet) {
			octet = fmt.Sprintf("%%%02X", c)
		}
		all = append(all, octet)
	}
	return all
}

func referenceCompile(r Rule) []referenceRule {
	if r.Pattern == "" || r.Pattern[0] != '/' && r.Pattern[0] != '*' {
		return nil
	}
	octets := referenceNormal(r.Pattern)
	length := len(strings.Join(octets, ""))
	var b strings.Builder
	for i, octet := range octets {
		switch {
		case octet == "*":
			b.WriteString(`.*`)
		case octet == "$" && i == len(octets)-1:
			b.WriteString(`\z`)
		case octet == "%2A":
			b.WriteString(`\*`)
		case octet == "%24":
			b.WriteString(`\$`)
		default:
			b.WriteString(regexp.QuoteMeta(octet))
		}
	}
	pattern, err := regexp.Compile(`(?s)\A` + b.String())
	if err != nil {
		return nil // longer than regexp takes; the caller keeps clear of it
	}
	return []referenceRule{{r, length, pattern}}
}

// referencePath removes dot segments as RFC 3986 5.2.4 does it, and normalises.
func referencePath(path string) string {
	path, query, hasQuery := strings.Cut(path, "?")
	in, out := strings.Join(referenceNormal(path), ""), ""
	if !strings.HasPrefix(in, "/") {
		in = "/" + in
	}
	for in != "" {
		switch {
		case strings.HasPrefix(in, "/./"):
			in = in[2:]
		case in == "/.":
			in = "/"
		case strings.HasPrefix(in, "/../"), in == "/..":
			in = "/" + strings.TrimPrefix(in[3:], "/")
			out = out[:max(strings.LastIndex(out, "/"), 0)]
		default:
			end := strings.Index(in[1:], "/") + 1
			if end == 0 {
				end = len(in)
			}
			out, in = out+in[:end], in[end:]
		}
	}
	if hasQuery {
		out += "?" + strings.Join(referenceNormal(query), "")
	}
	return strings.NewReplacer("%2A", "*", "%24", "$").Replace(out)
}

// verdict returns the rule that decides, and whether there is a group for the name.
func (f *referenceFile) verdict(name, path string) (best *Rule, hasGroup bool) {
	rules, hasGroup := f.rules(name)
	if !hasGroup {
		rules, hasGroup = f.rules("*")
	}
	path = referencePath(path)
	length := 0
	for _, r := range rules {
		if !r.pattern.MatchString(path) {
			continue
		}
		if best == nil || r.length > length || r.length == length && r.Allow && !best.Allow {
			best, length = &r.Rule, r.length
		}
	}
	return best, hasGroup
}

func (f *referenceFile) rules(name string) (rules []referenceRule, found bool) {
	for _, g := range f.groups {
		if slices.Contains(g.names, name) {
			rules, found = append(rules, g.rules...), true
		}
	}
	return rules, found
}
