package config

import (
	"robotsproxy/internal/enum"
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

// UnmarshalText reads one of the four words.
func (l *Level) UnmarshalText(text []byte) error {
	return enum.Unmarshal(l, text, "debug", "info", "warn", "error")
}

// Format is how a line of the log looks: json, console, or auto, which is
// console on a terminal and else json.
type Format string

// UnmarshalText reads one of the three words.
func (f *Format) UnmarshalText(text []byte) error {
	return enum.Unmarshal(f, text, "auto", "json", "console")
}
