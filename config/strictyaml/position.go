package strictyaml

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// A Position is where a fault is: a line and column of the file, or a setting.
type Position struct {
	Source       string // the file's name, or that of the setting; "" for a default
	Line, Column int    // from 1, in characters; 0 for a setting
}

// position returns where a token begins. The library counts a tab after a colon too low,
// so the token's text is searched for in the rest of the line.
func (d *Decoder) position(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return d.positions[""]
	}
	line := min(max(t.Position.Line, 1), len(d.lines))
	if line != d.row.line {
		d.row = newRow(line, d.lines[line-1])
	}
	column := min(max(t.Position.Column, 1), len(d.row.starts))
	rest := d.row.text[d.row.starts[column-1]:]
	start, _, _ := strings.Cut(strings.TrimSpace(t.Origin), "\n")
	if i := strings.Index(rest, start); i > 0 {
		column += utf8.RuneCountInString(rest[:i])
	}
	return Position{d.file, line, column}
}

// A row is a line of the file and the offsets of its characters. The decoder keeps the last
// one, since a whole file may be one line.
type row struct {
	line   int
	text   string
	starts []int // of each character, and of the end
}

func newRow(line int, text string) row {
	r := row{line: line, text: text}
	for i := range text {
		r.starts = append(r.starts, i)
	}
	r.starts = append(r.starts, len(text))
	return r
}

// begin returns the first token of a node. The library's token of a block mapping is the
// colon after its first key.
func begin(n ast.Node) *token.Token {
	if n == nil {
		return nil
	}
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return begin(m.Values[0].Key)
	}
	return n.GetToken()
}

// isText reports whether the file is UTF-8 without control characters. The library accepts
// both.
func (d *Decoder) isText() bool {
	unreadable := func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) && r != '\t' }
	for i, line := range d.lines {
		if j := strings.IndexFunc(line, unreadable); j >= 0 {
			at := Position{d.file, i + 1, utf8.RuneCountInString(line[:j]) + 1}
			d.fail("", at, "this is not UTF-8, or a control character; save the file as UTF-8 text")
			return false
		}
	}
	return true
}
