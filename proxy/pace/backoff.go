package pace

import (
	"math/rand/v2"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"robotsproxy/internal/keyerr"
	"robotsproxy/proxy/pace/fleet"
)

// BackOff says how sites that fail are left alone. It is the section "pace.back_off" of a
// configuration.
type BackOff struct {
	// After is how many failures in a row begin a pause; 0 means that none does.
	After int `yaml:"after"`
	// First is the length of the first pause. Each failure after a pause begins another one,
	// twice as long, up to Max.
	First time.Duration `yaml:"first"`
	Max   time.Duration `yaml:"max"`
}

func (b BackOff) validate() (errs []error) {
	if b.After < 0 {
		errs = append(errs, keyerr.New("back_off.after", "%d is less than 0; write 0 for no pauses", b.After))
	}
	if b.Max > maxHold {
		errs = append(errs, keyerr.New("back_off.max", "%v is too long; write 24h or less", b.Max))
	}
	if b.First > b.Max {
		errs = append(errs, keyerr.New("back_off.first", "%v is longer than back_off.max (%v); write %[2]v or less, or a longer back_off.max", b.First, b.Max))
	}
	return errs
}

// pause returns the length of the next pause after so many: half to full at random, so that
// proxies and sites that failed together are not tried together.
func (b BackOff) pause(before int) time.Duration {
	length := b.First
	for ; before > 0 && length < b.Max; before-- {
		length *= 2
	}
	half := min(length, b.Max) / 2
	return half + rand.N(half+1)
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

// rows are the rows of all sites. The one that has failed longest ago goes when there are too
// many.
type rows struct {
	known *simplelru.LRU[fleet.Site, *row]
}

// maxRows bounds the memory of rows to about 40 MB.
const maxRows = 100_000

func newRows() rows {
	known, _ := simplelru.NewLRU[fleet.Site, *row](maxRows, nil) // it fails if the size is not positive
	return rows{known}
}

// of returns the row of a site; nil if it has none.
func (r rows) of(key fleet.Site, now time.Time) *row {
	known, _ := r.known.Get(key)
	if known != nil && !now.Before(known.expires) {
		r.known.Remove(key)
		return nil
	}
	return known
}

// backOff returns the options by which the outcome of the permit's request counts; nil if it does
// not count.
func (p Permit) backOff() *Options {
	if p.waiter == nil {
		return nil
	}
	if opts := p.waiter.lane.pacer.opts.Load(); opts.BackOff.After > 0 {
		return opts
	}
	return nil
}

// Failed reports that the origin has failed the permit's request: it could not be reached, did
// not answer, broke its answer off, or answered with an error of its own. At most one of Failed
// and Succeeded may be called, before Release, and neither if the request failed for another
// reason.
func (p Permit) Failed() {
	opts := p.backOff()
	if opts == nil {
		return
	}
	w, pacer, key := p.waiter, p.waiter.lane.pacer, p.waiter.lane.site.key
	if pacer.fleet != nil {
		if state := pacer.fleet.Failed(key, w.name(), w.epoch, opts.shared()); state != nil {
			pacer.learn(key, w, state, opts)
			return
		}
	}
	pacer.mu.Lock()
	defer pacer.mu.Unlock()
	now := pacer.now()
	known := pacer.rowFor(key, now)
	if known.epoch != w.epoch {
		return
	}
	known.failures++
	known.expires = now.Add(opts.BackOff.Max)
	if known.pauses == 0 && known.failures < opts.BackOff.After {
		return
	}
	length := opts.BackOff.pause(known.pauses)
	known.pauses++
	known.epoch++
	known.expires = now.Add(length + opts.BackOff.Max)
	s := pacer.siteOf(key)
	pacer.hold(s, now.Add(length), ByBackOff)
	pacer.endProbe(s, w)
}

// Answered reports that the origin has begun a good answer to the permit's request. If that was
// the probe, the pauses end: the rest of the answer may take long. Failed or Succeeded may follow.
func (p Permit) Answered() {
	if p.waiter == nil {
		return
	}
	w, pacer := p.waiter, p.waiter.lane.pacer
	pacer.mu.Lock()
	s := pacer.sites[w.lane.site.key]
	probes := s != nil && s.probe == w
	pacer.mu.Unlock()
	if probes {
		p.Succeeded()
	}
}

// Succeeded reports that the origin has answered the permit's request, and ends a row of
// failures.
func (p Permit) Succeeded() {
	opts := p.backOff()
	if opts == nil {
		return
	}
	w, pacer, key := p.waiter, p.waiter.lane.pacer, p.waiter.lane.site.key
	pacer.mu.Lock()
	known := pacer.rows.of(key, pacer.now())
	ends := known != nil && known.failures > 0 && known.epoch == w.epoch
	pacer.mu.Unlock()
	if ends && pacer.fleet != nil {
		if state := pacer.fleet.Succeeded(key, w.epoch, opts.shared()); state != nil {
			pacer.learn(key, w, state, opts)
			if state.Failures == 0 {
				w.epoch = state.Epoch // it may yet fail in the new one
			}
			return
		}
	}
	pacer.mu.Lock()
	defer pacer.mu.Unlock()
	if ends {
		known.end(pacer.now().Add(opts.BackOff.Max))
		w.epoch = known.epoch
	}
	if s := pacer.sites[key]; s != nil {
		pacer.endProbe(s, w)
	}
}

// end ends a row. It remains known for a while, for the sake of its epoch.
func (r *row) end(expires time.Time) {
	if r.pauses > 0 {
		r.epoch++
	}
	r.failures, r.pauses, r.expires = 0, 0, expires
}

// rowFor returns the row of a site, a new one if it has none. It must be called with the lock
// held.
func (p *Pacer) rowFor(key fleet.Site, now time.Time) *row {
	known := p.rows.of(key, now)
	if known != nil {
		return known
	}
	if p.rows.known.Len() == maxRows {
		oldest, _, _ := p.rows.known.RemoveOldest()
		if s := p.sites[oldest]; s != nil && s.heldBy == ByBackOff {
			p.release(s)
		}
	}
	known = &row{}
	p.rows.known.Add(key, known)
	return known
}

// endProbe lets the next request start if w was the probe of its site. It must be called with
// the lock held.
func (p *Pacer) endProbe(s *site, w *waiter) {
	if s.probe == w {
		s.probe = nil
	}
	p.fill(s)
	p.tidy(s)
}
