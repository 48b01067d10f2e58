package config

import (
	"fmt"
	"slices"
	"strings"

	"robotsproxy/proxy/gate"
)

// Log says what is written to the log, and where to.
type Log struct {
	Level     Level          `yaml:"level"`
	Format    Format         `yaml:"format"`
	Decisions gate.LogFilter `yaml:"decisions"`
	File      string         `yaml:"file,path"` // "" means standard error
}

// Level is the least severity that is logged: debug, info, warn or error.
type Level string

// UnmarshalText takes a level that there is.
func (l *Level) UnmarshalText(text []byte) error {
	return oneOf(l, text, "debug", "info", "warn", "error")
}

// Format is how a line of the log looks: json, console, or auto, which is
// console on a terminal and else json.
type Format string

// UnmarshalText takes a format that there is.
func (f *Format) UnmarshalText(text []byte) error {
	return oneOf(f, text, "auto", "json", "console")
}

func oneOf[T ~string](target *T, text []byte, words ...string) error {
	if slices.Contains(words, string(text)) {
		*target = T(text)
		return nil
	}
	return fmt.Errorf("%q is none of %s", text, strings.Join(words, ", "))
}
