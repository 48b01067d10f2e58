package pace

import (
	"container/list"
	"crypto/sha256"
	"slices"
	"time"

	"robotsproxy/proxy/pace/fleet"
)

// site is the state of one identity at one origin or, by [PerSite], at one registrable domain.
// It exists only while there is any.
type site struct {
	key      fleet.Site
	lanes    map[sum]*lane // by group
	inFlight int           // counted requests that have started and not ended
	stalled  []*lane       // those whose first request waits for a permit, in order of arrival

	held    time.Time   // until when no request may start; zero: it is not held
	heldBy  Holder      // "" if it is not held
	release *time.Timer // ends the hold
	probe   *waiter     // the request that finds out whether the site still fails; nil: none does
	lease   *time.Timer // ends the probe, if it takes too long
}

// lane is the queue of the requests of one group, in order of arrival. Whatever they wait
// for, only the first one waits for it: when it has started or left, the next one is first.
// So a lane needs one timer.
type lane struct {
	pacer *Pacer
	site  *site
	group sum

	waiters list.List     // of *waiter
	delays  time.Duration // of all waiters
	free    time.Time     // when the delay after the last start is over; the lane is kept until then
	stalled bool          // it is in site.stalled
	timer   *time.Timer   // calls run when a request is due
}

// waiter is a request in a lane.
type waiter struct {
	delay   time.Duration // from its start to the next
	arrived time.Time
	maxWait time.Duration
	stated  bool        // delay is what the robots.txt states
	waited  Holder      // for what, when it came; "": it has not waited
	slot    *fleet.Turn // in the fleet; nil: it has none

	lane    *lane
	at      *list.Element // nil when it has left the lane
	started bool
	counted bool       // in site.inFlight
	epoch   int64      // of the site's row of failures, when it started
	token   string     // see name
	turn    chan error // gets nil when it has started, or a *Late
}

// All functions below, except join and leave, must be called with the pacer's lock held.

func (p *Pacer) siteOf(key fleet.Site) *site {
	s := p.sites[key]
	if s == nil {
		s = &site{key: key, lanes: map[sum]*lane{}}
		p.sites[key] = s
	}
	return s
}

// tidy removes a site that has no state.
func (p *Pacer) tidy(s *site) {
	if len(s.lanes) == 0 && s.inFlight == 0 && s.held.IsZero() && s.probe == nil && p.sites[s.key] == s {
		delete(p.sites, s.key)
	}
}

// join adds a request to its lane, unless it would wait too long.
func (p *Pacer) join(r *Request, w *waiter) {
	group := sum(sha256.Sum256([]byte(r.Group)))
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.siteOf(r.site())
	l := s.lanes[group]
	if l == nil {
		l = &lane{pacer: p, site: s, group: group}
		s.lanes[group] = l
	}
	w.lane = l
	if wait := l.estimate(w).Sub(w.arrived); wait > w.maxWait {
		w.turn <- w.late(wait, s.held.Sub(w.arrived), s.heldBy)
	} else {
		l.add(w)
	}
	l.run()
	if w.at != nil && w.waited == "" {
		if w.waited = s.heldNow(p.now()); w.waited == ByDelay && w.stated {
			w.waited = ByCrawlDelay
		}
	}
}

// leave removes a request from its lane. If it has just started, or is late already, it
// returns that result instead.
func (p *Pacer) leave(w *waiter, cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.at == nil {
		return <-w.turn
	}
	w.lane.drop(w)
	w.lane.run()
	return cause
}

// add appends a request. Its slot may come before those of requests ahead of it. Slots are
// exchanged so that they follow the order of the lane. A slot has room for a delay, so if the
// delays differ, the request moves forward instead.
func (l *lane) add(w *waiter) {
	w.at = l.waiters.PushBack(w)
	l.delays += w.delay
	for at := w.at.Prev(); w.slot != nil && at != nil; at = at.Prev() {
		before := at.Value.(*waiter)
		if before.slot == nil {
			continue
		}
		if !before.slot.At.After(w.slot.At) {
			return
		}
		if before.delay != w.delay {
			l.waiters.MoveBefore(w.at, at)
			at = w.at
			continue
		}
		w.slot, before.slot = before.slot, w.slot
		w = before
	}
}

// drop removes a request that has not started. The requests behind it move up by one slot,
// and the removed one is left with the last.
func (l *lane) drop(w *waiter) {
	for at := w.at.Next(); w.slot != nil && at != nil; at = at.Next() {
		if next := at.Value.(*waiter); next.slot != nil && next.delay == w.delay {
			w.slot, next.slot = next.slot, w.slot
		}
	}
	l.remove(w)
}

func (l *lane) remove(w *waiter) {
	l.waiters.Remove(w.at)
	w.at = nil
	l.delays -= w.delay
}

func (l *lane) first() *waiter {
	if at := l.waiters.Front(); at != nil {
		return at.Value.(*waiter)
	}
	return nil
}

// due returns when a request may start if the delay after the one before it ends at free.
func (l *lane) due(w *waiter, free time.Time) time.Time {
	at := later(l.site.held, free)
	if w.slot != nil {
		at = later(at, w.slot.At)
	}
	return at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// estimate returns when a request that comes now would start, if it need not wait until others
// end.
func (l *lane) estimate(w *waiter) time.Time {
	at := l.due(w, l.free)
	if first := l.first(); first != nil {
		at = later(at, later(l.due(first, l.free), w.arrived).Add(l.delays))
	}
	return at
}

// run starts every request that may start now, and sets the timer for the next one. It ends
// a lane that is empty and whose last delay is over.
func (l *lane) run() {
	for {
		now := l.pacer.now()
		w := l.first()
		if w == nil {
			if left := l.free.Sub(now); left > 0 {
				l.runAfter(left)
			} else {
				l.end()
			}
			return
		}
		at := l.due(w, l.free)
		if wait := at.Sub(now); wait > 0 {
			l.runAfter(wait)
			return
		}
		if !l.enter(w) {
			return // it runs again when there is a permit, or a hold ends
		}
		l.remove(w)
		// If the timer is only a little late, the slot's time counts as the start, so that
		// a fleet keeps its pace. Otherwise the actual start counts.
		begun := now
		if w.slot != nil && now.Sub(at) < w.delay/4 {
			begun = at
		}
		l.free = begun.Add(w.delay)
		w.started = true
		w.turn <- nil
	}
}

// runAfter sets the timer that calls run.
func (l *lane) runAfter(after time.Duration) {
	if l.timer != nil {
		l.timer.Reset(after)
		return
	}
	l.timer = time.AfterFunc(after, func() {
		l.pacer.mu.Lock()
		defer l.pacer.mu.Unlock()
		l.run()
	})
}

func (l *lane) end() {
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.stalled {
		l.stalled = false
		l.site.stalled = slices.DeleteFunc(l.site.stalled, func(other *lane) bool { return other == l })
	}
	if l.site.lanes[l.group] == l {
		delete(l.site.lanes, l.group)
		l.pacer.tidy(l.site)
	}
}

// enter reports whether the lane's first request may start, whose time has come. If that has to
// wait until another request ends, the lane waits in site.stalled. If as many have started as
// may in a day, the site is held.
func (l *lane) enter(w *waiter) bool {
	opts, s := l.pacer.opts.Load(), l.site
	if !s.admits(opts) {
		if !l.stalled {
			l.stalled = true
			s.stalled = append(s.stalled, l)
		}
		return false
	}
	if opts.MaxPerDay > 0 && l.pacer.fleet == nil && !l.pacer.countToday(s, opts.MaxPerDay) {
		return false
	}
	if opts.BackOff.After > 0 {
		var probes bool
		if w.epoch, probes = l.pacer.failures.Start(s.key, l.pacer.now(), opts.shared()); probes {
			l.pacer.startProbe(s, w)
		}
	}
	if w.counted = opts.MaxInFlight > 0; w.counted {
		s.inFlight++
	}
	return true
}

// admits reports whether one more request may be in flight.
func (s *site) admits(opts *Options) bool {
	return s.probe == nil && (opts.MaxInFlight == 0 || s.inFlight < opts.MaxInFlight)
}

// countToday counts a request that starts. If it may not, it holds the site.
func (p *Pacer) countToday(s *site, limit int) bool {
	again, counted := p.today.Count(s.key, p.now(), limit)
	if !counted {
		p.hold(s, again, ByMaxPerDay)
	}
	return counted
}

// fill lets the lanes go on that wait until a request ends.
func (p *Pacer) fill(s *site) {
	for opts := p.opts.Load(); len(s.stalled) > 0 && s.admits(opts); {
		l := s.stalled[0]
		s.stalled = slices.Delete(s.stalled, 0, 1)
		l.stalled = false
		l.run()
	}
}

// hold keeps the requests of a site from starting before until. Those that would then wait
// too long are late at once.
func (p *Pacer) hold(s *site, until time.Time, by Holder) {
	if !until.After(s.held) {
		return
	}
	if s.held.IsZero() {
		p.holds.Add(1)
		s.release = time.AfterFunc(until.Sub(p.now()), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !s.held.After(p.now()) { // else it is held again
				p.release(s)
			}
		})
	} else {
		s.release.Reset(until.Sub(p.now()))
	}
	s.held, s.heldBy = until, by
	for _, l := range s.lanes {
		l.refuseLate()
	}
}

// release ends a site's hold, if there is one.
func (p *Pacer) release(s *site) {
	if s.held.IsZero() {
		return
	}
	s.release.Stop()
	p.holds.Add(-1)
	s.held, s.heldBy = time.Time{}, ""
	for _, l := range s.lanes {
		l.run()
	}
	p.tidy(s)
}

// refuseLate ends the wait of every request whose turn would come too late.
func (l *lane) refuseLate() {
	now, free := l.pacer.now(), l.free
	for at := l.waiters.Front(); at != nil; {
		w := at.Value.(*waiter)
		at = at.Next()
		start := l.due(w, free)
		if start.Sub(w.arrived) <= w.maxWait {
			free = start.Add(w.delay)
			continue
		}
		l.drop(w)
		late := w.late(start.Sub(w.arrived), l.site.held.Sub(w.arrived), l.site.heldBy)
		late.Wait = start.Sub(now)
		w.turn <- late
	}
	l.run()
}
