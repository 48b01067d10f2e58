// Package outage tells the log of an outage once, and of its end once, however often the
// failing thing fails, works and fails again.
package outage

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Reporter follows attempts to use something that may fail. It is safe for concurrent
// use. Callers of [New] must call Close.
type Reporter struct {
	// QuietPeriod is how long the thing must work without a failure before its outage
	// counts as over. It must not change once the Reporter is in use.
	QuietPeriod time.Duration

	away func(error)
	back func()

	failures atomic.Int64 // so far
	failing  atomic.Bool

	mu       sync.Mutex
	reported bool        // away was called, and back not yet
	quiet    *time.Timer // calls back
	closed   bool
}

// New returns a Reporter that calls away with the first error of an outage, and back at
// its end, ten seconds after the thing has begun to work again. The two are never called
// at the same time.
func New(away func(error), back func()) *Reporter {
	return &Reporter{QuietPeriod: 10 * time.Second, away: away, back: back}
}

// Failing reports whether no attempt has begun and succeeded since the last failure.
func (r *Reporter) Failing() bool { return r.failing.Load() }

// Failed takes note of a failure.
func (r *Reporter) Failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures.Add(1)
	r.failing.Store(true)
	if !r.reported && !r.closed {
		r.reported = true
		r.away(err)
	}
}

// An Attempt is one use of the thing.
type Attempt struct {
	reporter *Reporter
	failures int64 // before it
}

// Begin is to be called when an attempt begins.
func (r *Reporter) Begin() Attempt { return Attempt{r, r.failures.Load()} }

// Succeeded takes note of a success. One of an attempt that began before the last failure
// says nothing about what came after.
func (a Attempt) Succeeded() {
	r := a.reporter
	if !r.failing.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failures.Load() != a.failures || !r.failing.Swap(false) || r.closed {
		return
	}
	if r.quiet != nil {
		r.quiet.Stop()
	}
	r.quiet = time.AfterFunc(r.QuietPeriod, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.failures.Load() == a.failures && r.reported && !r.closed {
			r.reported = false
			r.back()
		}
	})
}

// Close ends the reports. Neither function is called afterwards.
func (r *Reporter) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.quiet != nil {
		r.quiet.Stop()
	}
}
