package strictyaml

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"robotsproxy/internal/keyerr"
)

// Errors are all faults of a file and its settings, in the order of their positions; those of
// settings come last.
type Errors []Error

// An Error is one fault, or a warning.
type Error struct {
	Position
	Message string
}

// Error returns one line for each fault.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, fault := range e {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// Error returns the position, as FILE:LINE:COLUMN or as the name of a setting, and the message.
func (e Error) Error() string {
	switch {
	case e.Source == "":
		return e.Message
	case e.Line == 0:
		return e.Source + ": " + e.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.Source, e.Line, e.Column, e.Message)
}

// Refuse makes faults of the errors that a validation joins, each a [keyerr.Error] with its
// whole key. It drops what is about a key that has a fault already, since the validation saw
// another value than the file has.
func (d *Decoder) Refuse(invalid error) {
	for _, e := range keyerr.All(invalid) {
		if !d.failed[e.Key] {
			d.fail(e.Key, d.keyPosition(e.Key), e.Err.Error())
		}
	}
}

// Faults returns what Decode, Set and Refuse found; nil if there is no fault.
func (d *Decoder) Faults() Errors {
	sortByPosition(d.faults)
	return d.faults
}

func sortByPosition(all []Error) {
	line := func(e Error) int {
		if e.Line == 0 {
			return math.MaxInt // settings come last
		}
		return e.Line
	}
	slices.SortStableFunc(all, func(a, b Error) int {
		return cmp.Or(cmp.Compare(line(a), line(b)), cmp.Compare(a.Column, b.Column))
	})
}

// Locate returns the errors that err joins, each a [keyerr.Error] with its whole key, with their
// positions and in their order. It makes no faults of them: they may be warnings.
func (d *Decoder) Locate(err error) []Error {
	var all []Error
	for _, e := range keyerr.All(err) {
		all = append(all, newError(e.Key, d.keyPosition(e.Key), e.Err.Error()))
	}
	sortByPosition(all)
	return all
}

// keyPosition returns the position of a key, or else of the nearest section that holds it.
func (d *Decoder) keyPosition(key string) Position {
	for above := key; above != ""; above = above[:max(0, strings.LastIndexAny(above, ".["))] {
		if found, ok := d.positions[above]; ok {
			return found
		}
	}
	return d.positions[""]
}

// fail records a fault of key; "" if it belongs to none.
func (d *Decoder) fail(key string, at Position, message string) {
	d.failed[key] = true
	d.faults = append(d.faults, newError(key, at, message))
}

// newError puts the key before the message, except for a setting, which its source names.
func newError(key string, at Position, message string) Error {
	if key != "" && (at.Line > 0 || at.Source == "") {
		message = key + ": " + message
	}
	return Error{at, message}
}

// malformed records that the file is not YAML, with the remedy that the library's message lacks.
func (d *Decoder) malformed(fault yaml.Error) {
	at, message := d.position(fault.GetToken()), fault.GetMessage()
	if strings.Contains(message, "tab character") || strings.Contains(message, "'\t'") {
		// The library may notice it only in a later line.
		for line := at.Line; line > 0; line-- {
			text := d.lines[line-1]
			indentation := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
			if i := strings.Index(indentation, "\t"); i >= 0 {
				d.fail("", Position{d.file, line, i + 1}, "a tab in the indentation; use spaces")
				return
			}
		}
	}
	switch {
	case strings.Contains(d.lines[at.Line-1], "${"):
		message += `; inside [ ] and { }, "${…}" needs quotes`
	case strings.HasPrefix(message, "mapping value is not allowed"):
		message += `; if ": " is part of a value, put the value in quotes`
	case strings.HasPrefix(message, "value is not allowed"):
		message += `; indent the keys of a section alike, and put a value that begins with [ or { in quotes`
	case strings.HasSuffix(message, "is a reserved character"):
		message += "; put the value in quotes"
	}
	d.fail("", at, message)
}
