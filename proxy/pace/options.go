package pace

import (
	"errors"
	"time"

	"robotsproxy/internal/keyerr"
	"robotsproxy/proxy/pace/fleet"
)

// Options say how requests are spaced. They are the section "pace" of a configuration.
type Options struct {
	// CrawlDelay says whether to keep the delay that a robots.txt states, up to
	// MaxCrawlDelay.
	CrawlDelay    bool          `yaml:"crawl_delay"`
	MaxCrawlDelay time.Duration `yaml:"max_crawl_delay"`
	// DefaultDelay is the delay where a robots.txt states none, or CrawlDelay is off.
	DefaultDelay time.Duration `yaml:"default_delay,zero"`
	// MaxWait is how long a request may wait for its turn. One that would wait longer is
	// late. It should be several times any delay: Scrapy asks for eight pages at once, and
	// takes a 429 as the answer.
	MaxWait time.Duration `yaml:"max_wait"`
	// RetryAfter says whether an origin's Retry-After holds further requests.
	RetryAfter bool `yaml:"retry_after"`
	// MaxInFlight bounds the requests in flight of one identity at one origin; 0 means no
	// limit.
	MaxInFlight int `yaml:"max_in_flight"`
	// MinDelay is the least delay everywhere, whatever a robots.txt states.
	MinDelay time.Duration `yaml:"min_delay,zero"`
	// Scope says what hosts share delays, holds and counts.
	Scope   Scope   `yaml:"scope"`
	BackOff BackOff `yaml:"back_off"`
	// MaxPerDay bounds the requests of one identity to one origin in 24 hours; 0 means no
	// limit.
	MaxPerDay int `yaml:"max_per_day"`
}

// Defaults returns the options of an empty configuration.
func Defaults() Options {
	return Options{
		CrawlDelay:    true,
		MaxCrawlDelay: time.Minute,
		MaxWait:       5 * time.Minute,
		RetryAfter:    true,
		Scope:         PerOrigin,
		BackOff:       BackOff{First: time.Minute, Max: time.Hour},
	}
}

// Validate joins all that is wrong with o, each fault a [keyerr.Error].
func (o Options) Validate() error {
	errs := o.BackOff.validate()
	if o.MaxPerDay < 0 {
		errs = append(errs, keyerr.New("max_per_day", "%d is less than 0; write 0 for no limit", o.MaxPerDay))
	}
	if o.MaxInFlight < 0 {
		errs = append(errs, keyerr.New("max_in_flight", "%d is less than 0; write 0 for no limit", o.MaxInFlight))
	}
	for _, d := range []struct {
		key    string
		length time.Duration
	}{{"max_crawl_delay", o.MaxCrawlDelay}, {"default_delay", o.DefaultDelay}, {"min_delay", o.MinDelay}, {"max_wait", o.MaxWait}} {
		if d.length > maxDelay {
			errs = append(errs, keyerr.New(d.key, "%v is too long; write 8760h or less", d.length))
		}
	}
	return errors.Join(errs...)
}

// Warnings joins what is valid in o but refuses requests needlessly, each a [keyerr.Error].
func (o Options) Warnings() error {
	var all []error
	warn := func(key string, delay time.Duration) {
		if o.MaxWait < delay {
			all = append(all, keyerr.New("max_wait", "%v is shorter than %s (%v), so a client that asks for one page after another may get 429 each time; write %[3]v or more, or a shorter %[2]s", o.MaxWait, key, delay))
		}
	}
	if o.CrawlDelay {
		warn("max_crawl_delay", o.MaxCrawlDelay)
	}
	warn("default_delay", o.DefaultDelay)
	warn("min_delay", o.MinDelay)
	return errors.Join(all...)
}

// maxDelay bounds delays and waits, so that their sums stay within a Duration.
const maxDelay = 365 * 24 * time.Hour

// delay returns how long after this request the next one may start.
func (o *Options) delay(r *Request) time.Duration {
	delay := o.DefaultDelay
	if r.Stated && o.CrawlDelay {
		delay = min(r.Delay, o.MaxCrawlDelay)
	}
	return max(delay, o.MinDelay)
}

// states reports whether that delay is the one that the request's robots.txt states.
func (o *Options) states(r *Request) bool {
	return r.Stated && o.CrawlDelay && min(r.Delay, o.MaxCrawlDelay) >= o.MinDelay
}

// paces reports whether requests are spaced or counted. stated says whether their robots.txt
// states a delay.
func (o *Options) paces(stated bool) bool {
	return o.DefaultDelay > 0 || o.MinDelay > 0 || o.counts() || stated && o.CrawlDelay
}

// counts reports whether requests without a delay are counted too, or their outcomes.
func (o *Options) counts() bool { return o.MaxInFlight > 0 || o.asksFleet() }

// asksFleet reports whether each request of a fleet asks Redis whether it may start.
func (o *Options) asksFleet() bool { return o.MaxPerDay > 0 || o.BackOff.After > 0 }

// shared returns what a fleet keeps of o.
func (o *Options) shared() fleet.Rules {
	return fleet.Rules{RetryAfter: o.RetryAfter, MaxPerDay: o.MaxPerDay, After: o.BackOff.After, First: o.BackOff.First, Max: o.BackOff.Max}
}
