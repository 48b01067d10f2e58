package fetch

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"robotsproxy/internal/enum"
	"robotsproxy/internal/keyerr"
)

// Options bound a fetch and say what its answer means. In a configuration they are a part
// of the section "robots".
type Options struct {
	// TTL is the lifetime of an answer without a Cache-Control max-age. MinTTL and
	// MaxTTL bound a max-age. No lifetime is longer than MaxTTL.
	TTL    time.Duration `yaml:"ttl"`
	MinTTL time.Duration `yaml:"min_ttl"`
	MaxTTL time.Duration `yaml:"max_ttl"`

	// FetchTimeout bounds a whole fetch, redirects included.
	FetchTimeout time.Duration `yaml:"fetch_timeout"`
	MaxRedirects int           `yaml:"max_redirects"`
	// MaxBytes is how much of a body is read. RFC 9309 2.5 requires at least 500 KiB.
	MaxBytes int64 `yaml:"max_bytes,size"`

	// Statuses gives single HTTP statuses another meaning.
	Statuses map[int]Meaning `yaml:"statuses"`

	// Soft5xx treats a site that answers 5xx for any missing page as one without
	// robots.txt.
	Soft5xx bool `yaml:"soft_5xx"`
}

// Defaults are the options of a configuration that states none.
func Defaults() Options {
	const day = 24 * time.Hour
	return Options{
		TTL:          day,
		MinTTL:       5 * time.Minute,
		MaxTTL:       day,
		FetchTimeout: 10 * time.Second,
		MaxRedirects: 5,
		MaxBytes:     500 << 10,
	}
}

const maxMaxBytes = 1 << 30

// Validate joins all that is wrong with o, each fault a [keyerr.Error].
func (o Options) Validate() error {
	var errs []error
	wrong := func(key, format string, args ...any) { errs = append(errs, keyerr.New(key, format, args...)) }
	if o.MinTTL > o.MaxTTL {
		wrong("min_ttl", "%v is more than max_ttl %v; lower min_ttl or raise max_ttl", o.MinTTL, o.MaxTTL)
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
	for _, status := range slices.Sorted(maps.Keys(o.Statuses)) {
		if status < 100 || status > 599 {
			wrong(fmt.Sprintf("statuses.%d", status), "no HTTP status has this number; write one from 100 to 599")
		}
	}
	return errors.Join(errs...)
}

// A Meaning is what the HTTP status that ends a fetch says about the file.
type Meaning string

// The meanings that a status has by itself.
const (
	MeansFile       Meaning = "file"        // the body is the file
	MeansNoFile     Meaning = "no_file"     // there is no file
	MeansBadRequest Meaning = "bad_request" // the request, or the rate of requests, is at fault: nothing is said about the file
)

// The meanings that an operator may give a status.
const (
	MeansUnreachable Meaning = "unreachable" // the fetch has failed
	MeansDisallow    Meaning = "disallow"    // everything is disallowed
	MeansAllow       Meaning = "allow"       // everything is allowed
)

// UnmarshalText reads one of the words that an operator may write.
func (m *Meaning) UnmarshalText(text []byte) error {
	return enum.Unmarshal(m, text, MeansUnreachable, MeansDisallow, MeansAllow)
}

// Meaning is the meaning of an HTTP status: the operator's, or that of RFC 9309 2.3.1.
// A redirect that ends a fetch leads nowhere. A fetch with Soft5xx ends with a 5xx only if
// it has checked that the site answers any missing page so.
func (o *Options) Meaning(status int) Meaning {
	if meaning, given := o.Statuses[status]; given {
		return meaning
	}
	switch status {
	case http.StatusBadRequest, http.StatusRequestURITooLong,
		http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge:
		return MeansBadRequest
	}
	switch status / 100 {
	case 2:
		return MeansFile
	case 3, 4:
		return MeansNoFile
	case 5:
		if o.Soft5xx {
			return MeansNoFile
		}
	}
	return MeansUnreachable
}
