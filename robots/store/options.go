package store

import (
	"fmt"
	"time"
)

// Kind names a store.
type Kind string

const (
	SQLite Kind = "sqlite" // policies.db in the data directory
	None   Kind = "none"   // nothing lasts longer than the process
)

// UnmarshalText takes the name of a store that there is.
func (k *Kind) UnmarshalText(text []byte) error {
	switch kind := Kind(text); kind {
	case SQLite, None:
		*k = kind
		return nil
	}
	return fmt.Errorf("%q is no store; write %s or %s", text, SQLite, None)
}

// Options say where policies last. In a configuration they are part of the
// section "cache".
type Options struct {
	Kind Kind `yaml:"store"`

	Now func() time.Time `yaml:"-"` // nil means time.Now
}

// Defaults are the options of a configuration that says nothing.
func Defaults() Options { return Options{Kind: SQLite} }
