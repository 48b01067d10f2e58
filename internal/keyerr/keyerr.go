// Package keyerr has errors that say which key of the configuration they are about.
//
// Each package validates its own options and knows their keys alone. Package config puts
// the key of the section before them, and tells where in the file the whole key stands.
package keyerr

import (
	"errors"
	"fmt"
	"strings"
)

// Error is what is wrong with the value of one key.
type Error struct {
	Key string // as in "max_wait", "match.users[1]"; "" for a whole section
	Err error  // what is wrong, and what to write instead
}

func (e *Error) Error() string {
	if e.Key == "" {
		return e.Err.Error()
	}
	return e.Key + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// New is an error about key, with a message as [fmt.Errorf] makes it.
func New(key, format string, args ...any) error {
	return &Error{key, fmt.Errorf(format, args...)}
}

// Wrap makes err one about key; nil stays nil.
func Wrap(key string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{key, err}
}

// All are the single errors that err joins, in their order. One that names no key is about
// the whole section.
func All(err error) []*Error {
	switch err := err.(type) {
	case nil:
		return nil
	case *Error:
		return []*Error{err}
	case interface{ Unwrap() []error }:
		var all []*Error
		for _, one := range err.Unwrap() {
			all = append(all, All(one)...)
		}
		return all
	}
	return []*Error{{Err: err}}
}

// In puts the key of a section, or of a list's item, before the key of each error that err
// joins.
func In(section string, err error) error {
	var errs []error
	for _, e := range All(err) {
		errs = append(errs, &Error{strings.TrimSuffix(section+"."+e.Key, "."), e.Err})
	}
	return errors.Join(errs...)
}

// Item is the key of a list's item, from 0.
func Item(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }
