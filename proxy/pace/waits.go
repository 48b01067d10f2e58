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

// wait returns what the site's requests wait for; held is false if that is nothing. It must be
// called with the pacer's lock held.
func (s *site) wait(now time.Time) (w Wait, held bool) {
	w = Wait{Origin: s.key.Origin, Identity: s.key.Identity}
	for _, l := range s.lanes {
		w.Waiting += l.waiters.Len()
		if first := l.first(); first != nil {
			w.Until = later(w.Until, l.due(first, l.free))
		}
	}
	switch {
	case s.held.After(now):
		w.Until, w.By = s.held, s.heldBy
	case w.Waiting == 0:
		return w, false
	case s.probe != nil:
		w.Until, w.By = time.Time{}, ByBackOff
	case len(s.stalled) > 0:
		w.Until, w.By = time.Time{}, ByMaxInFlight
	default:
		w.By = ByDelay
	}
	w.Until = w.Until.UTC()
	return w, true
}
