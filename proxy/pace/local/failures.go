// Package local keeps in memory, for one proxy, what package fleet keeps in Redis for all that
// share one: the [Failures] of sites in a row, and the [Starts] of a day. It reads no clock, and
// nothing in it waits. Nothing in it is safe for concurrent use.
package local

import (
	"math/rand/v2"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"robotsproxy/proxy/pace/fleet"
)

// Failures are the failures in a row of all sites. The row that has grown longest ago goes when
// there are too many. Make one with [NewFailures].
type Failures struct {
	known     *simplelru.LRU[fleet.Site, *row]
	forgotten func(fleet.Site)
}

// row is the failures of a site in a row, as one identity has met them.
type row struct {
	failures int
	// pauses is how many pauses the row has begun. After a pause, one request at a time may
	// start: a probe.
	pauses int
	// epoch is another one after each beginning of a pause, and after the last one's good
	// end. The outcome of a request that started in another epoch changes nothing.
	epoch int64

	expires time.Time
}

// maxRows bounds the memory of rows to about 40 MB.
const maxRows = 100_000

// NewFailures returns Failures that call forgotten with each site whose row goes because there are
// too many.
func NewFailures(forgotten func(fleet.Site)) *Failures {
	known, _ := simplelru.NewLRU[fleet.Site, *row](maxRows, nil) // it fails if the size is not positive
	return &Failures{known, forgotten}
}

// Clear forgets all rows.
func (f *Failures) Clear() { f.known.Purge() }

// Start notes that a request starts. It returns the epoch in which it does, and whether the
// request is a probe.
func (f *Failures) Start(site fleet.Site, now time.Time, rules fleet.Rules) (epoch int64, probe bool) {
	r := f.of(site, now)
	if r == nil {
		return 0, false
	}
	if r.pauses > 0 {
		r.expires = now.Add(fleet.ProbeLease + rules.Max)
	}
	return r.epoch, r.pauses > 0
}

// Failed adds a failure of a request that started in an epoch. begins reports whether a pause
// begins, and pause is its length.
func (f *Failures) Failed(site fleet.Site, epoch int64, now time.Time, rules fleet.Rules) (pause time.Duration, begins bool) {
	r := f.make(site, now)
	if r.epoch != epoch {
		return 0, false
	}
	r.failures++
	r.expires = now.Add(rules.Max)
	if r.pauses == 0 && r.failures < rules.After {
		return 0, false
	}
	pause = pauseAfter(r.pauses, rules)
	r.pauses++
	r.epoch++
	r.expires = now.Add(pause + rules.Max)
	return pause, true
}

// pauseAfter returns the length of the next pause after so many: half to full at random, so that
// proxies and sites that failed together are not tried together.
func pauseAfter(pauses int, rules fleet.Rules) time.Duration {
	length := rules.First
	for ; pauses > 0 && length < rules.Max; pauses-- {
		length *= 2
	}
	half := min(length, rules.Max) / 2
	return half + rand.N(half+1)
}

// Ends reports whether the success of a request that started in an epoch ends a row.
func (f *Failures) Ends(site fleet.Site, epoch int64, now time.Time) bool {
	return f.of(site, now).endsBy(epoch)
}

func (r *row) endsBy(epoch int64) bool { return r != nil && r.failures > 0 && r.epoch == epoch }

// Succeeded ends the row of a site if the success of a request that started in an epoch ends it.
// It returns the epoch in which the request may yet fail.
func (f *Failures) Succeeded(site fleet.Site, epoch int64, now time.Time, rules fleet.Rules) int64 {
	r := f.of(site, now)
	if !r.endsBy(epoch) {
		return epoch
	}
	if r.pauses > 0 {
		r.epoch++
	}
	// It remains known for a while, for the sake of its epoch.
	r.failures, r.pauses, r.expires = 0, 0, now.Add(rules.Max)
	return r.epoch
}

// Learn replaces what is known of a site by what its fleet knows.
func (f *Failures) Learn(site fleet.Site, state *fleet.State, now time.Time, rules fleet.Rules) {
	if state.Failures == 0 && state.Pauses == 0 && f.of(site, now) == nil {
		return
	}
	r := f.make(site, now)
	r.failures, r.pauses, r.epoch = state.Failures, state.Pauses, state.Epoch
	r.expires = now.Add(state.Wait + rules.Max)
}

// of returns the row of a site; nil if it has none.
func (f *Failures) of(site fleet.Site, now time.Time) *row {
	r, _ := f.known.Get(site)
	if r != nil && !now.Before(r.expires) {
		f.known.Remove(site)
		return nil
	}
	return r
}

// make returns the row of a site, a new one if it has none.
func (f *Failures) make(site fleet.Site, now time.Time) *row {
	if r := f.of(site, now); r != nil {
		return r
	}
	if f.known.Len() == maxRows {
		oldest, _, _ := f.known.RemoveOldest()
		f.forgotten(oldest)
	}
	r := &row{}
	f.known.Add(site, r)
	return r
}
