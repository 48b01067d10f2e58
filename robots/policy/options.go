package policy

import (
	"errors"
	"time"

	"robotsproxy/internal/keyerr"
	"robotsproxy/robots/fetch"
)

// Options are those of a fetch, and say how long its result counts. In a configuration they
// are the section "robots".
type Options struct {
	fetch.Options `yaml:",inline"`

	// An unreachable robots.txt disallows everything for DisallowFor if an older text is
	// known, which then rules. If none is known, everything is allowed after AllowAfter.
	// RFC 9309 2.3.1.4. A tdmrep.json differs: see For.
	DisallowFor time.Duration `yaml:"disallow_for"`
	AllowAfter  time.Duration `yaml:"allow_after"`

	// RetryMin and RetryMax bound the wait between two tries of an unreachable robots.txt.
	RetryMin time.Duration `yaml:"retry_min"`
	RetryMax time.Duration `yaml:"retry_max"`

	// MaxFetches bounds the fetches that run at once, for all origins together.
	MaxFetches int `yaml:"max_fetches"`
}

// Defaults are the options of a configuration that states none.
func Defaults() Options {
	const day = 24 * time.Hour
	return Options{
		Options:     fetch.Defaults(),
		DisallowFor: 30 * day,
		AllowAfter:  30 * day,
		RetryMin:    30 * time.Second,
		RetryMax:    10 * time.Minute,
		MaxFetches:  256,
	}
}

// Keep is how long a record may be needed after the lifetime of its answer: until an
// unreachable robots.txt no longer disallows everything, and a week more.
func (o Options) Keep() time.Duration {
	return max(o.DisallowFor, o.AllowAfter) + 7*24*time.Hour
}

// Validate joins all that is wrong with o, each fault a [keyerr.Error].
func (o Options) Validate() error {
	err := o.Options.Validate()
	if o.RetryMin > o.RetryMax {
		err = errors.Join(err, keyerr.New("retry_min", "%v is more than retry_max %v; lower retry_min or raise retry_max", o.RetryMin, o.RetryMax))
	}
	if o.MaxFetches <= 0 {
		err = errors.Join(err, keyerr.New("max_fetches", "%d lets no robots.txt be fetched; write 1 or more", o.MaxFetches))
	}
	return err
}
