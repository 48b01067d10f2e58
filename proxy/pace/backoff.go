package pace

import (
	"time"

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
	length, begins := pacer.failures.Failed(key, w.epoch, now, opts.shared())
	if !begins {
		return
	}
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
	ends := pacer.failures.Ends(key, w.epoch, pacer.now())
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
	w.epoch = pacer.failures.Succeeded(key, w.epoch, pacer.now(), opts.shared())
	if s := pacer.sites[key]; s != nil {
		pacer.endProbe(s, w)
	}
}

// forgotten ends the pause of a site whose row of failures is forgotten. It must be called with
// the lock held.
func (p *Pacer) forgotten(key fleet.Site) {
	if s := p.sites[key]; s != nil && s.heldBy == ByBackOff {
		p.release(s)
	}
}

// startProbe makes w the probe of its site. It ends by itself after [fleet.ProbeLease]: a client
// that sends its request slowly must not hold up the others for as long as it likes. It must be
// called with the lock held.
func (p *Pacer) startProbe(s *site, w *waiter) {
	s.probe = w
	s.lease = time.AfterFunc(fleet.ProbeLease, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.endProbe(s, w)
	})
}

// endProbe lets the next request start if w was the probe of its site. It must be called with
// the lock held.
func (p *Pacer) endProbe(s *site, w *waiter) {
	if s.probe == w {
		s.probe = nil
		s.lease.Stop()
	}
	p.fill(s)
	p.tidy(s)
}
