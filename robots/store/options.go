package store

import (
	"errors"
	"time"

	"robotsproxy/internal/enum"
	"robotsproxy/internal/keyerr"
	"robotsproxy/internal/redisclient"
)

// A Kind names a store. The zero Kind names none.
type Kind string

const (
	SQLite Kind = "sqlite" // policies.db in the data directory
	Redis  Kind = "redis"  // a server that several machines share
	None   Kind = "none"   // nothing lasts longer than the process
)

// UnmarshalText reads one of the words above.
func (k *Kind) UnmarshalText(text []byte) error {
	return enum.Unmarshal(k, text, SQLite, Redis, None)
}

// Options say where policies last, and for how long. In a configuration they are part of
// the section "cache".
type Options struct {
	Kind Kind `yaml:"store"`

	// Server is the Redis, if that is the store.
	Server redisclient.Options `yaml:",inline"`

	// MaxSize bounds policies.db, in bytes; 0 means no bound. When it is reached, the
	// oldest versions that are no longer served go. When none are left, the origins go
	// whose last request is the longest ago. Redis has a bound of its own, maxmemory.
	MaxSize int64 `yaml:"max_size,size"`

	// History is how long a version that is no longer served, and a record that nobody
	// asks for, is kept. 0 means without end.
	History time.Duration `yaml:"history"`

	Now func() time.Time `yaml:"-"` // nil means time.Now
}

// Defaults returns the options of a configuration that says nothing.
func Defaults() Options {
	return Options{Kind: SQLite, Server: redisclient.Options{URL: "redis://127.0.0.1:6379/0"}, History: 365 * 24 * time.Hour}
}

// Validate joins the faults of o, each a [keyerr.Error].
func (o Options) Validate() error {
	var errs []error
	errs = append(errs, o.Server.Validate())
	if o.MaxSize != 0 && o.MaxSize < minMaxSize {
		errs = append(errs, keyerr.New("max_size", "%d holds next to no policy; write %dMiB or more, or 0 for no bound", o.MaxSize, minMaxSize>>20))
	}
	return errors.Join(errs...)
}

// minMaxSize is enough for what is written between two looks at the size.
const minMaxSize = 16 << 20
