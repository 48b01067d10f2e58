package pace

import (
	"container/list"
	"crypto/sha256"
	"slices"
	"time"
)

// site is the state of one identity at one origin. It exists only while there is any.
type site struct {
	key      siteKey
	lanes    map[sum]*lane // by group
	inFlight int           // counted requests that have started and not ended
	stalled  []*lane       // those whose first request waits for a permit, in order of arrival

	held    time.Time   // until when no request may start; zero: it is not held
	release *time.Timer // ends the hold
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
	last    time.Time     // when the last request started; zero: none has
	delay   time.Duration // of that request; the lane is kept until it is over
	stalled bool          // it is in site.stalled
	timer   *time.Timer   // calls run when a request is due
}

// waiter is a request in a lane.
type waiter struct {
	delay   time.Duration // from the start before it
	arrived time.Time
	maxWait time.Duration
	slot    *turn // in the fleet; nil: it has none

	at      *list.Element // nil when it has left the lane
	started bool
	permit  Permit
	turn    chan error // gets nil when it has started, or a *Late
}

// All functions below, except join and leave, must be called with the pacer's lock held.

func (p *Pacer) siteOf(r *Request) *site {
	s := p.sites[r.site()]
	if s == nil {
		s = &site{key: r.site(), lanes: map[sum]*lane{}}
		p.sites[s.key] = s
	}
	return s
}

// tidy removes a site that has no state.
func (p *Pacer) tidy(s *site) {
	if len(s.lanes) == 0 && s.inFlight == 0 && s.held.IsZero() && p.sites[s.key] == s {
		delete(p.sites, s.key)
	}
}

// join adds a request to its lane, unless it would wait too long.
func (p *Pacer) join(r *Request, w *waiter) *lane {
	group := sum(sha256.Sum256([]byte(r.Group)))
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.siteOf(r)
	l := s.lanes[group]
	if l == nil {
		l = &lane{pacer: p, site: s, group: group}
		s.lanes[group] = l
	}
	if wait := l.estimate(w).Sub(w.arrived); wait > w.maxWait {
		w.turn <- w.late(wait, s.held.Sub(w.arrived))
	} else {
		l.add(w)
	}
	l.run()
	return l
}

// leave removes a request from its lane. If it has just started, or is late already, it
// returns that result instead.
func (p *Pacer) leave(l *lane, w *waiter, cause error) (Permit, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.at == nil {
		return w.permit, <-w.turn
	}
	l.drop(w)
	l.run()
	return Permit{}, cause
}

// add appends a request. Its slot may come before those of requests ahead of it. Slots are
// exchanged so that they follow the order of the lane.
func (l *lane) add(w *waiter) {
	w.at = l.waiters.PushBack(w)
	l.delays += w.delay
	for at := w.at.Prev(); w.slot != nil && at != nil; at = at.Prev() {
		before := at.Value.(*waiter)
		if before.slot == nil {
			continue
		}
		if !before.slot.comes.After(w.slot.comes) {
			return
		}
		w.slot, before.slot = before.slot, w.slot
		w = before
	}
}

// drop removes a request that has not started. The requests behind it move up by one slot,
// and the removed one is left with the last.
func (l *lane) drop(w *waiter) {
	for at := w.at.Next(); w.slot != nil && at != nil; at = at.Next() {
		if next := at.Value.(*waiter); next.slot != nil {
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

// due returns when a request may start if the one before it started at last.
func (l *lane) due(w *waiter, last time.Time) time.Time {
	at := l.site.held
	if w.slot != nil {
		at = later(at, w.slot.comes)
	}
	if !last.IsZero() {
		at = later(at, last.Add(w.delay))
	}
	return at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// estimate returns when a request that comes now would start, if there were enough permits.
func (l *lane) estimate(w *waiter) time.Time {
	at := l.due(w, l.last)
	if first := l.first(); first != nil {
		at = later(at, later(l.due(first, l.last), w.arrived).Add(l.delays-first.delay+w.delay))
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
			if left := l.last.Add(l.delay).Sub(now); left > 0 {
				l.runAfter(left)
			} else {
				l.end()
			}
			return
		}
		at := l.due(w, l.last)
		if wait := at.Sub(now); wait > 0 {
			l.runAfter(wait)
			return
		}
		if !l.enter(w) {
			return // fill runs it again when there is a permit
		}
		l.remove(w)
		// If the timer is only a little late, the slot's time counts as the start, so that
		// a fleet keeps its pace. Otherwise the actual start counts.
		if l.last = now; w.slot != nil && now.Sub(at) < w.delay/4 {
			l.last = at
		}
		l.delay = w.delay
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

// enter gives the lane's first request a permit, if it needs one. If none is free it returns
// false, and the lane waits in site.stalled.
func (l *lane) enter(w *waiter) bool {
	limit, s := l.pacer.opts.Load().MaxInFlight, l.site
	switch {
	case limit == 0:
		return true
	case s.inFlight < limit:
		s.inFlight++
		w.permit = Permit{l.pacer, s}
		return true
	}
	if !l.stalled {
		l.stalled = true
		s.stalled = append(s.stalled, l)
	}
	return false
}

// fill gives free permits to the lanes that wait for one.
func (p *Pacer) fill(s *site) {
	for limit := p.opts.Load().MaxInFlight; len(s.stalled) > 0 && (limit == 0 || s.inFlight < limit); {
		l := s.stalled[0]
		s.stalled = slices.Delete(s.stalled, 0, 1)
		l.stalled = false
		l.run()
	}
}

// hold keeps the requests of a site from starting before until. Those that would then wait
// too long are late at once.
func (p *Pacer) hold(s *site, until time.Time) {
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
	s.held = until
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
	s.held = time.Time{}
	for _, l := range s.lanes {
		l.run()
	}
	p.tidy(s)
}

// refuseLate ends the wait of every request whose turn would come too late.
func (l *lane) refuseLate() {
	now, last := l.pacer.now(), l.last
	for at := l.waiters.Front(); at != nil; {
		w := at.Value.(*waiter)
		at = at.Next()
		start := l.due(w, last)
		if start.Sub(w.arrived) <= w.maxWait {
			last = start
			continue
		}
		l.drop(w)
		late := w.late(start.Sub(w.arrived), l.site.held.Sub(w.arrived))
		late.Wait = start.Sub(now)
		w.turn <- late
	}
	l.run()
}
