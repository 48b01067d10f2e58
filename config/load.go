package config

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"

	"robotsproxy/internal/keyerr"
)

// A Setting gives one key another value than the file does.
type Setting struct {
	Key    string // as in "log.level"
	Value  string
	Source string // what errors call it, as in "--log-level"
}

// Errors are all faults of a configuration, in the order of their positions.
type Errors []Error

// An Error is one fault.
type Error struct {
	Position
	Message string
}

// Error has one fault a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, fault := range e {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

func (e Error) Error() string {
	switch {
	case e.Source == "":
		return e.Message
	case e.Line == 0:
		return e.Source + ": " + e.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.Source, e.Line, e.Column, e.Message)
}

// Load reads the file at path over base, and settings over both, a later one
// over an earlier. No path means no file. All that is wrong is told at once: an
// error is always of type [Errors].
func Load(base Config, path string, settings ...Setting) (Config, error) {
	var text []byte
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return Config{}, Errors{{Message: fmt.Sprintf("read the configuration: %v", err)}}
		}
	}
	return load(base, path, text, settings)
}

func load(c Config, path string, text []byte, settings []Setting) (Config, error) {
	d := newDecoder(path, text)
	d.document(reflect.ValueOf(&c).Elem())
	for _, setting := range settings {
		d.setting(setting, reflect.ValueOf(&c).Elem())
	}
	for _, invalid := range keyerr.All(c.Validate()) {
		if !d.failed[invalid.Key] { // else the key could not be read, which has been said
			d.fail(invalid.Key, d.positionOf(invalid.Key), invalid.Err.Error())
		}
	}
	if len(d.errs) == 0 {
		for _, warning := range keyerr.All(keyerr.In("pace", c.Pace.Warnings())) {
			c.warnings = append(c.warnings, faultOf(warning.Key, d.positionOf(warning.Key), warning.Err.Error()))
		}
		return c, nil
	}
	line := func(e Error) int {
		if e.Line == 0 {
			return math.MaxInt // settings stand last
		}
		return e.Line
	}
	slices.SortStableFunc(d.errs, func(a, b Error) int {
		return cmp.Or(cmp.Compare(line(a), line(b)), cmp.Compare(a.Column, b.Column))
	})
	return Config{}, d.errs
}

// setting gives a key its value from outside the file. Such a path is relative
// to the working directory, as paths on a command line are.
func (d *decoder) setting(s Setting, v reflect.Value) {
	var f field
	for key := range strings.SplitSeq(s.Key, ".") {
		all := fields(v)
		i := slices.IndexFunc(all, func(f field) bool { return f.key == key })
		if i < 0 {
			panic("config: a setting for a key that is not there: " + s.Key)
		}
		f, v = all[i], all[i].value
	}
	d.positions[s.Key] = Position{Source: s.Source}
	if err := setScalar(v, f.option, scalar{text: s.Value}); err != nil {
		d.fail(s.Key, d.positions[s.Key], err.Error())
	}
}

// positionOf is the position of a key, else that of the nearest section above it.
func (d *decoder) positionOf(key string) Position {
	for above := key; above != ""; above = above[:max(0, strings.LastIndexAny(above, ".["))] {
		if found, ok := d.positions[above]; ok {
			return found
		}
	}
	return d.positions[""]
}

// fail notes a fault of key.
func (d *decoder) fail(key string, at Position, message string) {
	d.failed[key] = true
	d.errs = append(d.errs, faultOf(key, at, message))
}

// faultOf names the key in the message, but where a setting's own name makes it plain.
func faultOf(key string, at Position, message string) Error {
	if key != "" && (at.Line > 0 || at.Source == "") {
		message = key + ": " + message
	}
	return Error{at, message}
}
