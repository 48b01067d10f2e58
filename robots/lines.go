package robots

import "slices"

// Line is a line of a robots.txt, to be shown.
type Line struct {
	Text string // as written, without its end
	Rule bool   // it is an Allow or a Disallow
	// Group says that the line is part of the group that was asked for: one of its
	// user-agent lines, its rules, Crawl-delays or Request-rates.
	Group bool
}

// Lines splits a robots.txt as Parse does, so that the first is line 1 of a [Rule],
// and marks the group that rules a bot of these product tokens, wherever in the file
// it is (see [File.Group]). It reads the whole text again: it is for people to look
// at, not for judging.
func Lines(body []byte, tokens []string) []Line {
	var lines []Line
	var sections []int32 // that the lines are in; -1: none
	p := &parser{named: map[string][]int32{}}
	eachLine(trimMark(string(body)), func(number int, text string) {
		p.line(number, text)
		line, section := Line{Text: text}, int32(-1)
		switch field, _ := splitLine(text); field {
		case allow, disallow:
			line.Rule = true
			fallthrough
		case userAgent, crawlDelay, requestRate:
			section = int32(len(p.sections) - 1)
		}
		lines, sections = append(lines, line), append(sections, section)
	})
	if group, _ := p.compile().Group(tokens); group != nil {
		for i, section := range sections {
			_, lines[i].Group = slices.BinarySearch(p.named[group.name], section) // they are in order
		}
	}
	if last := len(lines) - 1; lines[last].Text == "" {
		lines = lines[:last] // what follows the last line's end
	}
	return lines
}
