package robots

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"robotsproxy/robots/preference"
)

// This is a slow and obvious implementation of what a robots.txt says about use. It tries
// every line, and shares nothing with the packages but the types that are compared.

type referencePreferences struct {
	of    map[string][]referencePreference // by the names of bots in lower case
	every []referencePreference            // before the first user-agent line
}

type referencePreference struct {
	source preference.Source
	number int
	path   string
	rule   *referenceRule    // nil for all paths
	values map[string]string // by category
}

var (
	referenceSignal = referenceField(`content-signal|contentsignal|content signal`)
	referenceUsage  = referenceField(`content-usage|contentusage|content usage`)
	referencePrefix = regexp.MustCompile(`^([/*][^ \t\v\f\r\n]*)[ \t\v\f\r\n]*(.*)$`)
)

func referencePreferencesOf(body string) *referencePreferences {
	f := &referencePreferences{of: map[string][]referencePreference{}}
	var group, above []string
	named, ruled, stated := false, true, false
	for i, line := range referenceLines(body) {
		if m := referenceAgent.FindStringSubmatch(line); m != nil {
			if ruled {
				group = nil
			}
			if ruled || stated {
				above = nil
			}
			named, ruled, stated = true, false, false
			names := referenceNames(octets(strings.Trim(m[1]+m[2], referenceSpace)))
			group, above = append(group, names...), append(above, names...)
			continue
		}
		if named && referenceRuleLine.MatchString(line) {
			ruled, above = true, group
		} else if referenceDelay.MatchString(line) || referenceRate.MatchString(line) {
			stated = true
		}
		p, ok := referencePreferenceIn(line)
		if !ok {
			continue
		}
		p.number = i + 1
		stated = true
		if !named {
			f.every = append(f.every, p)
		}
		for _, name := range slices.Compact(slices.Sorted(slices.Values(above))) {
			f.of[name] = append(f.of[name], p)
		}
	}
	return f
}

// referenceLines are the lines of a file without comments and white space around them.
func referenceLines(body string) []string {
	lines := referenceEnd.Split(referenceBOM.ReplaceAllString(latin(body), ""), -1)
	for i, line := range lines {
		runes := []rune(line)
		line = string(runes[:min(len(runes), 16663)])
		line, _, _ = strings.Cut(line, "\x00")
		line, _, _ = strings.Cut(line, "#")
		lines[i] = strings.Trim(line, referenceSpace)
	}
	return lines
}

func referencePreferenceIn(line string) (p referencePreference, ok bool) {
	read := referenceReadSignal
	m := referenceSignal.FindStringSubmatch(line)
	p.source = preference.ContentSignal
	if m == nil {
		read = referenceReadUsage
		m = referenceUsage.FindStringSubmatch(line)
		p.source = preference.ContentUsage
	}
	if m == nil {
		return p, false
	}
	value := strings.Trim(m[1]+m[2], referenceSpace)
	if m := referencePrefix.FindStringSubmatch(value); m != nil {
		p.path, value = octets(m[1]), m[2]
		p.rule = &referenceCompile(Rule{Pattern: p.path})[0]
	}
	p.values, ok = read(value)
	return p, ok
}

// referenceStrict has the values of each category, from the least restrictive on.
var referenceStrict = map[string][]string{
	"search": {"", "yes", "no"}, "ai-input": {"", "yes", "no"}, "ai-train": {"", "yes", "no"},
	"use": {"", "full", "reference", "immediate"},
}

func referenceReadSignal(value string) (map[string]string, bool) {
	values := map[string]string{}
	for _, pair := range strings.Split(value, ",") {
		key, value, _ := strings.Cut(pair, "=")
		key, value = strings.ToLower(strings.Trim(key, referenceSpace)), strings.ToLower(strings.Trim(value, referenceSpace))
		order := referenceStrict[key]
		if slices.Index(order, value) > slices.Index(order, values[key]) {
			values[key] = value
		}
	}
	return values, true
}

// The grammar of a Dictionary (RFC 9651).
const (
	referenceKey    = `[a-z*][a-z0-9_.*-]*`
	referenceToken  = `[A-Za-z*][A-Za-z0-9!#$%&'*+.^_|~:/\x60-]*`
	referenceBinary = `:[A-Za-z0-9+/=]*:`
	referenceShown  = `%"(?:[ !#$&-~]|%[0-9a-f]{2})*"`
	referenceBare   = `(?:-?[0-9]{1,15}|-?[0-9]{1,12}\.[0-9]{1,3}|"(?:[ !#-\[\]-~]|\\["\\])*"|` + referenceToken + `|` + referenceBinary + `|\?[01]|@-?[0-9]{1,15}|` + referenceShown + `)`
	referenceParams = `(?:; *` + referenceKey + `(?:=` + referenceBare + `)?)*`
	referenceItem   = referenceBare + referenceParams
	referenceInner  = `\( *(?:` + referenceItem + `(?: +` + referenceItem + `)* *)?\)` + referenceParams
	referenceMember = `(` + referenceKey + `)(?:=(` + referenceItem + `|` + referenceInner + `)|` + referenceParams + `)`
)

var (
	referenceDictionary = regexp.MustCompile(`^ *(?:` + referenceMember + `(?:[ \t]*,[ \t]*` + referenceMember + `)*)? *$`)
	referenceNext       = regexp.MustCompile(`^[ \t,]*` + referenceMember + `[ \t]*(?:,|$)`)
	referenceOpaque     = regexp.MustCompile(`"(?:[^"\\%]|\\.)*"|` + referenceShown + `|` + referenceBinary)
	referenceYesOrNo    = regexp.MustCompile(`^([yn])(?:;|$)`)
)

func referenceReadUsage(value string) (map[string]string, bool) {
	if !referenceDictionary.MatchString(value) {
		return nil, false
	}
	for _, opaque := range referenceOpaque.FindAllString(value, -1) {
		if !referenceOpaqueIsValid(opaque) {
			return nil, false
		}
	}
	last := map[string]string{}
	for value = strings.Trim(value, " \t"); value != ""; {
		m := referenceNext.FindStringSubmatch(value)
		last[m[1]] = m[2]
		value = value[len(m[0]):]
	}
	values := map[string]string{}
	for label, category := range map[string]string{"search": "search", "ai-use": "ai-input", "train-ai": "ai-train"} {
		if m := referenceYesOrNo.FindStringSubmatch(last[label]); m != nil {
			values[category] = map[string]string{"y": "yes", "n": "no"}[m[1]]
		}
	}
	return values, true
}

// referenceOpaqueIsValid reports whether base64 or a display string can be decoded.
func referenceOpaqueIsValid(s string) bool {
	if s[0] == ':' {
		_, err := base64.StdEncoding.DecodeString(strings.Trim(s, ":"))
		return err == nil
	}
	if s[0] == '%' {
		decoded := regexp.MustCompile(`%[0-9a-f]{2}`).ReplaceAllStringFunc(s, func(octet string) string {
			n, _ := strconv.ParseUint(octet[1:], 16, 8)
			return string([]byte{byte(n)})
		})
		return utf8.ValidString(decoded)
	}
	return true
}

// refusal is the answer to a bot of that name; group says whether there is a group for it.
func (f *referencePreferences) refusal(name string, path string, u preference.Use, sources preference.Sources) (preference.Refusal, bool) {
	for _, lines := range [][]referencePreference{f.of[name], f.every} {
		for _, source := range []preference.Source{preference.ContentSignal, preference.ContentUsage} {
			if !sources.Has(source) || u.Purposes == 0 {
				continue
			}
			longest := referenceLongest(lines, source, referencePath(path))
			for _, category := range []string{"search", "ai-input", "ai-train", "use"} {
				var strictest *referencePreference
				order := referenceStrict[category]
				for i, l := range longest {
					if strictest == nil || slices.Index(order, l.values[category]) > slices.Index(order, strictest.values[category]) {
						strictest = &longest[i]
					}
				}
				if strictest == nil || !referenceRefuses(category, strictest.values[category], u) {
					continue
				}
				said := category + "=" + strictest.values[category]
				if source == preference.ContentUsage {
					said = map[string]string{"search": "search=n", "ai-input": "ai-use=n", "ai-train": "train-ai=n"}[category]
				}
				return preference.Refusal{Source: source, Preference: said, Path: strictest.path, Line: strictest.number}, true
			}
		}
	}
	return preference.Refusal{}, false
}

// referenceLongest are the lines of a source that match and have the longest path.
func referenceLongest(lines []referencePreference, source preference.Source, path string) (longest []referencePreference) {
	length := -1
	for _, l := range lines {
		its := 0
		if l.rule != nil {
			its = l.rule.length
		}
		if l.source != source || l.rule != nil && !l.rule.pattern.MatchString(path) || its < length {
			continue
		}
		if its > length {
			longest, length = nil, its
		}
		longest = append(longest, l)
	}
	return longest
}

func referenceRefuses(category, value string, u preference.Use) bool {
	switch category {
	case "use":
		return u.Content == preference.Full && (value == "reference" || value == "immediate") || u.Content == preference.Reference && value == "immediate"
	default:
		return u.Purposes.Has(preference.Purpose(category)) && value == "no"
	}
}
