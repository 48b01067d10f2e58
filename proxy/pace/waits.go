package pace

import (
	"cmp"
	"slices"
	"time"
)

// A Wait is why requests of an identity to an origin or, by [PerSite], to a site, do not start
// now.
type Wait struct {
	Origin   string    `json:"origin"`
	Identity string    `json:"identity"`
	Until    time.Time `json:"held_until,omitzero"` // zero: until another request ends
	By       Holder    `json:"held_by"`
	Waiting  int       `json:"waiting"` // requests that wait

	// Delay is the longest between the starts of those that wait, in seconds. NextTurn is when
	// the first of them starts, and LastTurn when the last does, if they all go on waiting; zero
	// if none waits, or the next has to wait until another request ends.
	Delay    float64   `json:"delay,omitempty"`
	NextTurn time.Time `json:"next_turn,omitzero"`
	LastTurn time.Time `json:"last_turn,omitzero"`
}

// Waits returns what this proxy holds now, and where requests wait for their turns: up to limit
// of them, those that wait longest first, and how many there are. It knows what other proxies of
// a fleet hold only where it has asked for a turn itself.
func (p *Pacer) Waits(limit int) (waits []Wait, all int) {
	now := p.now()
	p.mu.Lock()
	for _, s := range p.sites {
		if w, held := s.wait(now); held {
			waits = append(waits, w)
		}
	}
	p.mu.Unlock()
	slices.SortFunc(waits, func(a, b Wait) int {
		return cmp.Or(b.Until.Compare(a.Until), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.Identity, b.Identity))
	})
	return append([]Wait{}, waits[:min(len(waits), limit)]...), len(waits)
}

// Waiting returns how many sites [Pacer.Waits] has, and how many requests wait there.
func (p *Pacer) Waiting() (sites, requests int) {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sites {
		if w, held := s.wait(now); held {
			sites++
			requests += w.Waiting
		}
	}
	return sites, requests
}

// wait returns what the site's requests wait for; held is false if that is nothing. It must be
// called with the pacer's lock held.
func (s *site) wait(now time.Time) (w Wait, held bool) {
	w = Wait{Origin: s.key.Origin, Identity: s.key.Identity}
	for _, l := range s.lanes {
		w.Waiting += l.waiters.Len()
		first := l.first()
		if first == nil {
			continue
		}
		due := l.due(first, l.free)
		w.Until = later(w.Until, due)
		w.Delay = max(w.Delay, first.delay.Seconds())
		if w.NextTurn.IsZero() || due.Before(w.NextTurn) {
			w.NextTurn = due
		}
		last := l.waiters.Back().Value.(*waiter)
		w.LastTurn = later(w.LastTurn, later(l.due(last, time.Time{}), due.Add(l.delays-last.delay)))
	}
	held = s.held.After(now)
	if !held && w.Waiting == 0 {
		return w, false
	}
	w.By = s.heldNow(now)
	switch {
	case held:
		w.Until = s.held
	case w.By != ByDelay:
		w.Until = time.Time{}
	}
	if w.By == ByBackOff && s.probe != nil || w.By == ByMaxInFlight {
		w.NextTurn, w.LastTurn = time.Time{}, time.Time{}
	}
	w.Until, w.NextTurn, w.LastTurn = w.Until.UTC(), w.NextTurn.UTC(), w.LastTurn.UTC()
	return w, true
}

// heldNow returns what a request of the site that does not start now waits for. It must be
// called with the pacer's lock held.
func (s *site) heldNow(now time.Time) Holder {
	switch {
	case s.held.After(now):
		return s.heldBy
	case s.probe != nil:
		return ByBackOff
	case len(s.stalled) > 0:
		return ByMaxInFlight
	}
	return ByDelay
}
