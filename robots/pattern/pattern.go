// Package pattern finds the line of a robots.txt that decides about a path: of the lines
// whose patterns match it, the one with the longest pattern (RFC 9309 2.2.2 and 2.2.3). In
// files of another format that has the same patterns, it may be the first one.
//
// A [Builder] takes a file's patterns and makes a [Set] for each group. Making them takes
// time and memory that grow linearly with the file, matching allocates nothing, and the
// cost of a match is bounded. A [Search] asks several sets about one path.
package pattern

import (
	"strings"

	"robotsproxy/robots/urlpath"
)

// Pattern is the pattern of a line. It must begin with "/" or "*". "*" is any run of octets,
// "$" at its end is the end of the path. The empty pattern is that of a line without one: it
// matches every path, and is shorter than any other.
type Pattern struct {
	Text string // as written
	Rank Rank   // of patterns of equal length that match, the greatest decides
	Line int    // from 1; of equal ranks, the first line decides
}

// Rank orders patterns of equal length. A file's lines mean different things by different
// ranks: an Allow ranks above a Disallow.
type Rank uint8

const (
	rankBits = 2
	ranks    = 1 << rankBits // each Rank is below it
)

// compiled is a Pattern compiled for matching. It holds no pointers, since the garbage
// collector would have to follow those of the millions of patterns that may be in memory.
type compiled struct {
	written  span // the text as written
	text     span // the text in normal form, without a last "*" or "$"
	line     int32
	weight   int32 // the greater decides: one more than the length in octets or, if the first decides, less for each one later; in the last rankBits the rank
	anchored bool  // the match must end where the path ends
	plain    bool  // it matches all paths that begin with its text
}

// span is a piece of the text of patterns. An octet of a file adds at most four octets to
// that text: itself as written, and %XX in the normal form. So 32 bits are enough for
// files of 1 GiB.
type span struct{ at, len uint32 }

// patterns are those of a file, in its order, and the text that their spans point into.
type patterns struct {
	text string
	all  []compiled
}

func (ps *patterns) cut(s span) string { return ps.text[s.at : s.at+s.len] }

// textOf is the text of the pattern with that index in the file.
func (ps *patterns) textOf(id int32) string { return ps.cut(ps.all[id].text) }

func (ps *patterns) size() int64 { return int64(len(ps.text)) + sizeOf[compiled](cap(ps.all)) }

// compile compiles a pattern. To dst, the text of its file so far, it appends the text as
// written and, if that differs, its normal form. False if the pattern can match nothing,
// since every path begins with a slash.
func (p Pattern) compile(dst []byte) (compiled, []byte, bool) {
	text := p.Text
	if text != "" && text[0] != '/' && text[0] != '*' {
		return compiled{}, dst, false
	}
	written := span{uint32(len(dst)), uint32(len(text))}
	dst = append(dst, text...)
	text, anchored := strings.CutSuffix(text, "$")
	octets, at := len(text), written.at
	if !urlpath.IsNormalPattern(text) {
		// A literal "$" or "*" is one octet in the normal form, but counts as written.
		octets = 2 * (strings.Count(text, "%24") + strings.Count(text, "%2A") + strings.Count(text, "%2a"))
		at = uint32(len(dst))
		dst = urlpath.AppendPattern(dst, text)
		octets += len(dst) - int(at)
		text = view(dst[at:])
	}
	if anchored {
		octets++
	}
	if strings.HasSuffix(text, "*") {
		text, anchored = strings.TrimRight(text, "*"), false
	}
	return compiled{
		written:  written,
		text:     span{at, uint32(len(text))},
		line:     int32(p.Line),
		weight:   int32((octets+1)<<rankBits | int(p.Rank%ranks)),
		anchored: anchored,
		plain:    !anchored && strings.IndexByte(text, '*') < 0,
	}, dst, true
}

func (c *compiled) rank() Rank { return Rank(c.weight & (ranks - 1)) }

// beats reports whether the pattern decides where both match (RFC 9309 2.2.2).
func (c *compiled) beats(other *compiled) bool {
	if other == nil || c.weight != other.weight {
		return other == nil || c.weight > other.weight
	}
	return c.line < other.line
}
