package robots

import "slices"

// Line is a line of a robots.txt, for display.
type Line struct {
	Text string // as written, without its end
	Rule bool   // it is an Allow or a Disallow line
	// Preference says that the line is a Content-Signal or a Content-Usage.
	Preference bool
	// Group says that the line belongs to the group asked for: it is one of its user-agent
	// lines, rules, Crawl-delays, Request-rates, Content-Signals or Content-Usages. Of the
	// last two, those before the first user-agent line belong to every bot.
	Group bool
}

// Lines splits a robots.txt as Parse does, so that the first element is line 1 of a [Rule]. It
// marks the lines of the group that applies to a bot with these product tokens, wherever
// they are (see [File.Group]). It parses the whole text again; use [Parse] to judge.
func Lines(body []byte, tokens []string) []Line {
	var lines []Line
	var sections, runs []int32 // of each line; -1: none, or not of one run
	text := trimMark(string(body))
	p := newParser(text)
	eachLine(text, func(number int, text string) {
		p.line(number, text)
		line, section, run := Line{Text: text}, int32(-1), int32(-1)
		switch field, _ := splitLine(text); field {
		case allow, disallow:
			line.Rule = true
			fallthrough
		case userAgent:
			section = int32(len(p.sections) - 1)
		case contentSignal, contentUsage:
			line.Preference, line.Group = true, len(p.sections) == 0
			fallthrough
		case crawlDelay, requestRate:
			section = int32(len(p.sections) - 1)
			if !p.ruled {
				run = int32(len(p.runs) - 1)
			}
		}
		lines, sections, runs = append(lines, line), append(sections, section), append(runs, run)
	})
	if group, _ := p.compile().Group(tokens); group != nil {
		ofGroup := p.sectionsOf(group.name)
		for i := range lines {
			if sections[i] < 0 {
				continue
			}
			_, lines[i].Group = slices.BinarySearch(ofGroup, sections[i]) // they are in order
			if lines[i].Group && runs[i] >= 0 {
				_, lines[i].Group = slices.BinarySearch(p.named[group.name], runs[i])
			}
		}
	}
	if last := len(lines) - 1; lines[last].Text == "" {
		lines = lines[:last] // nothing follows the last line's end
	}
	return lines
}
