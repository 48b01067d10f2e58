package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"robotsproxy/internal/enum"
	"robotsproxy/internal/keyerr"
)

// Options bound how robots.txt is fetched and how long an answer counts. In a
// configuration they are the section "robots".
type Options struct {
	// TTL is the lifetime of an answer without a Cache-Control max-age. MinTTL and
	// MaxTTL bound a max-age. No lifetime is longer than MaxTTL.
	TTL    time.Duration `yaml:"ttl"`
	MinTTL time.Duration `yaml:"min_ttl"`
	MaxTTL time.Duration `yaml:"max_ttl"`

	// FetchTimeout bounds a whole fetch, redirects included.
	FetchTimeout time.Duration `yaml:"fetch_timeout"`
	MaxRedirects int           `yaml:"max_redirects"`
	// MaxBytes is how much of a body is read; RFC 9309 2.5 requires at least 500 KiB.
	MaxBytes int64 `yaml:"max_bytes,size"`

	// A robots.txt that is unreachable for DisallowFor no longer disallows everything
	// where an older text is known, which then rules. Where none is known, everything
	// is allowed after AllowAfter. RFC 9309 2.3.1.4.
	DisallowFor time.Duration `yaml:"disallow_for"`
	AllowAfter  time.Duration `yaml:"allow_after"`

	// RetryMin and RetryMax bound the wait between two tries of an
	// unreachable robots.txt.
	RetryMin time.Duration `yaml:"retry_min"`
	RetryMax time.Duration `yaml:"retry_max"`

	// Statuses gives single HTTP statuses another meaning.
	Statuses map[int]Meaning `yaml:"statuses"`

	// MaxFetches bounds the fetches that run at once, for all origins together.
	MaxFetches int `yaml:"max_fetches"`

	// Soft5xx treats a site that answers 5xx for any missing page as one without
	// robots.txt.
	Soft5xx bool `yaml:"soft_5xx"`
}

// Defaults are the options of a configuration that says nothing.
func Defaults() Options {
	const day = 24 * time.Hour
	return Options{
		TTL:          day,
		MinTTL:       5 * time.Minute,
		MaxTTL:       day,
		FetchTimeout: 10 * time.Second,
		MaxRedirects: 5,
		MaxBytes:     500 << 10,
		DisallowFor:  30 * day,
		AllowAfter:   30 * day,
		RetryMin:     30 * time.Second,
		RetryMax:     10 * time.Minute,
		MaxFetches:   256,
	}
}

// keep is how long a record may still be needed after the lifetime of its
// answer: until an unreachable robots.txt no longer disallows everything, and a
// week.
func (o Options) keep() time.Duration {
	return max(o.DisallowFor, o.AllowAfter) + 7*24*time.Hour
}

const maxMaxBytes = 1 << 30

// Validate joins all that is wrong with o, each fault a [keyerr.Error].
func (o Options) Validate() error {
	var errs []error
	wrong := func(key, format string, args ...any) { errs = append(errs, keyerr.New(key, format, args...)) }
	if o.MinTTL > o.MaxTTL {
		wrong("min_ttl", "%v is more than max_ttl %v; lower min_ttl or raise max_ttl", o.MinTTL, o.MaxTTL)
	}
	if o.RetryMin > o.RetryMax {
		wrong("retry_min", "%v is more than retry_max %v; lower retry_min or raise retry_max", o.RetryMin, o.RetryMax)
	}
	if o.MaxRedirects < 0 {
		wrong("max_redirects", "%d is less than 0; write 0 to follow none", o.MaxRedirects)
	}
	switch {
	case o.MaxBytes <= 0:
		wrong("max_bytes", "%d lets nothing be read; write 500KiB or more", o.MaxBytes)
	case o.MaxBytes > maxMaxBytes:
		wrong("max_bytes", "%d is more than memory should have to hold of one file; write 1GiB or less", o.MaxBytes)
	}
	if o.MaxFetches <= 0 {
		wrong("max_fetches", "%d lets no robots.txt be fetched; write 1 or more", o.MaxFetches)
	}
	for _, status := range slices.Sorted(maps.Keys(o.Statuses)) {
		if status < 100 || status > 599 {
			wrong(fmt.Sprintf("statuses.%d", status), "no HTTP status has this number; write one from 100 to 599")
		}
	}
	return errors.Join(errs...)
}

// A Meaning is the operator's own word on an HTTP status of robots.txt.
type Meaning string

const (
	MeansUnreachable Meaning = "unreachable" // as a failed fetch
	MeansDisallow    Meaning = "disallow"    // everything is disallowed
	MeansAllow       Meaning = "allow"       // everything is allowed
)

// UnmarshalText reads one of the words above.
func (m *Meaning) UnmarshalText(text []byte) error {
	return enum.Unmarshal(m, text, MeansUnreachable, MeansDisallow, MeansAllow)
}
