package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"robotsproxy/internal/keyerr"
)

// A Setting overrides the value of one key, as a flag of the command line does.
type Setting struct {
	Key    string // as in "log.level"
	Value  string
	Source string // its name in errors, as in "--log-level"
}

// Errors are all faults of a configuration in the order of their positions; those of
// settings come last.
type Errors []Error

// An Error is one fault of a configuration, or a warning about it.
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

func (e Error) Error() string {
	switch {
	case e.Source == "":
		return e.Message
	case e.Line == 0:
		return e.Source + ": " + e.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.Source, e.Line, e.Column, e.Message)
}

// Load starts from base, applies the file at path and then the settings in order, and
// validates the result. If path is "" there is no file. An error is always of type
// [Errors] and has all faults.
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
		if !d.failed[invalid.Key] { // else its own fault has been reported
			d.fail(invalid.Key, d.positionOf(invalid.Key), invalid.Err.Error())
		}
	}
	if len(d.errs) == 0 {
		warnings := errors.Join(
			keyerr.In("pace", c.Pace.Warnings()),
			keyerr.In("preferences", c.Preferences.Warnings()),
			c.warnUnread(),
			c.warnEmptyDirectory(),
			c.warnExpiring(time.Now()),
		)
		for _, warning := range keyerr.All(warnings) {
			c.warnings = append(c.warnings, faultOf(warning.Key, d.positionOf(warning.Key), warning.Err.Error()))
		}
		return c, nil
	}
	line := func(e Error) int {
		if e.Line == 0 {
			return math.MaxInt // settings come last
		}
		return e.Line
	}
	slices.SortStableFunc(d.errs, func(a, b Error) int {
		return cmp.Or(cmp.Compare(line(a), line(b)), cmp.Compare(a.Column, b.Column))
	})
	return Config{}, d.errs
}

// setting applies a setting. A relative path in it stays relative to the working
// directory, as paths on a command line are.
func (d *decoder) setting(s Setting, v reflect.Value) {
	var f field
	for key := range strings.SplitSeq(s.Key, ".") {
		all := fields(v)
		i := slices.IndexFunc(all, func(f field) bool { return f.key == key })
		if i < 0 {
			panic("config: setting for the unknown key " + s.Key)
		}
		f, v = all[i], all[i].value
	}
	d.positions[s.Key] = Position{Source: s.Source}
	if err := setScalar(v, f.option, scalar{text: s.Value}); err != nil {
		d.fail(s.Key, d.positions[s.Key], err.Error())
	}
}

// positionOf returns the position of a key, or else of the nearest section that holds it.
func (d *decoder) positionOf(key string) Position {
	for above := key; above != ""; above = above[:max(0, strings.LastIndexAny(above, ".["))] {
		if found, ok := d.positions[above]; ok {
			return found
		}
	}
	return d.positions[""]
}

// fail records a fault of key; "" if it belongs to none.
func (d *decoder) fail(key string, at Position, message string) {
	d.failed[key] = true
	d.errs = append(d.errs, faultOf(key, at, message))
}

// faultOf puts the key before the message, except for a setting, which its source names.
func faultOf(key string, at Position, message string) Error {
	if key != "" && (at.Line > 0 || at.Source == "") {
		message = key + ": " + message
	}
	return Error{at, message}
}
