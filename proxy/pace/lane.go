package pace

import (
	"container/list"
	"crypto/sha256"
	"slices"
	"time"
)

// site is what is known of one identity at one origin. It is forgotten when there
// is nothing more to know.
type site struct {
	key      siteKey
	lanes    map[sum]*lane // by group
	inFlight int           // requests that have started, as far as they are counted
	stalled  []*lane       // those whose first request waits for a permit, in that order

	held  time.Time   // until when no request may start; zero: it is not held
	letGo *time.Timer // ends the hold
}

// lane is where the requests of one group wait, in the order in which they came.
// Whatever they wait for, it is the first alone that does: when it has started, or
// left, the next is the first. So the lane has one timer.
type lane struct {
	pacer *Pacer
	site  *site
	group sum

	waiters list.List     // of *waiter
	delays  time.Duration // of all waiters
	last    time.Time     // when the last one started; zero: none has
	delay   time.Duration // of that one, for which the lane is remembered
	stalled bool          // it is in site.stalled
	timer   *time.Timer   // has it run when something is due
}

// waiter is a request in a lane.
type waiter struct {
	delay   time.Duration // after the start before it
	arrived time.Time
	most    time.Duration // it may wait
	slot    *turn         // in the fleet; nil: it has none

	at      *list.Element // nil when it has left the lane
	started bool
	permit  Permit
	turn    chan error // gets nil when it has started, or a *Late
}

// All that follows is called with the pacer's lock held, but for join and leave.

func (p *Pacer) siteOf(r *Request) *site {
	s := p.sites[r.site()]
	if s == nil {
		s = &site{key: r.site(), lanes: map[sum]*lane{}}
		p.sites[s.key] = s
	}
	return s
}

// tidy forgets a site of which there is nothing to know.
func (p *Pacer) tidy(s *site) {
	if len(s.lanes) == 0 && s.inFlight == 0 && s.held.IsZero() && p.sites[s.key] == s {
		delete(p.sites, s.key)
	}
}

// join puts a request in its lane, unless it would wait too long.
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
	if wait := l.estimate(w).Sub(w.arrived); wait > w.most {
		w.turn <- w.late(wait, s.held.Sub(w.arrived))
	} else {
		l.add(w)
	}
	l.run()
	return l
}

// leave takes a request out of its lane, unless it has started just now.
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

// add puts a request at the end. Its slot may have been given before those of others:
// the slots go by the order of the lane, each to who stands where it falls.
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

// drop takes out a request that has not started. Those behind it move up: it is left
// with the last slot.
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

// due is when a request may start after one that started at last.
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

// estimate is when a request that comes now would start, if there were permits enough.
func (l *lane) estimate(w *waiter) time.Time {
	at := l.due(w, l.last)
	if first := l.first(); first != nil {
		at = later(at, later(l.due(first, l.last), w.arrived).Add(l.delays-first.delay+w.delay))
	}
	return at
}

// run starts all that may start now, and sees to it that it runs again when the
// next is due. A lane in which nobody waits, and whose last delay is over, ends.
func (l *lane) run() {
	for {
		now := l.pacer.now()
		w := l.first()
		if w == nil {
			if left := l.last.Add(l.delay).Sub(now); left > 0 {
				l.again(left)
			} else {
				l.end()
			}
			return
		}
		at := l.due(w, l.last)
		if wait := at.Sub(now); wait > 0 {
			l.again(wait)
			return
		}
		if !l.enter(w) {
			return // it is run again when there is a permit
		}
		l.remove(w)
		// A slot is kept to even if the timer is a little late, so that a fleet keeps
		// its pace. Else, and when something held it up, what counts is when the
		// request did start.
		if l.last = now; w.slot != nil && now.Sub(at) < w.delay/4 {
			l.last = at
		}
		l.delay = w.delay
		w.started = true
		w.turn <- nil
	}
}

// again has the lane run after so long.
func (l *lane) again(after time.Duration) {
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

// enter gives the lane's first request a permit; false if there is none. Then the
// lane gets one in its turn.
func (l *lane) enter(w *waiter) bool {
	most, s := l.pacer.opts.Load().MaxInFlight, l.site
	switch {
	case most == 0:
		return true
	case s.inFlight < most:
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
	for most := p.opts.Load().MaxInFlight; len(s.stalled) > 0 && (most == 0 || s.inFlight < most); {
		l := s.stalled[0]
		s.stalled = slices.Delete(s.stalled, 0, 1)
		l.stalled = false
		l.run()
	}
}

// hold has no request of a site start before until. Those that would wait too long
// then are late at once.
func (p *Pacer) hold(s *site, until time.Time) {
	if !until.After(s.held) {
		return
	}
	if s.held.IsZero() {
		p.holds.Add(1)
		s.letGo = time.AfterFunc(until.Sub(p.now()), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !s.held.After(p.now()) { // else it is held again
				p.letGo(s)
			}
		})
	} else {
		s.letGo.Reset(until.Sub(p.now()))
	}
	s.held = until
	for _, l := range s.lanes {
		l.refuseLate()
	}
}

// letGo ends a site's hold, if it is held.
func (p *Pacer) letGo(s *site) {
	if s.held.IsZero() {
		return
	}
	s.letGo.Stop()
	p.holds.Add(-1)
	s.held = time.Time{}
	for _, l := range s.lanes {
		l.run()
	}
	p.tidy(s)
}

// refuseLate ends the wait of all that will have waited too long when their turn
// comes.
func (l *lane) refuseLate() {
	now, last := l.pacer.now(), l.last
	for at := l.waiters.Front(); at != nil; {
		w := at.Value.(*waiter)
		at = at.Next()
		start := l.due(w, last)
		if start.Sub(w.arrived) <= w.most {
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
