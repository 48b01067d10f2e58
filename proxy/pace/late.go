package pace

import (
	"fmt"
	"time"
)

// Late is the error of a request that would have to wait longer than it may. The request has
// taken no turn.
type Late struct {
	Wait  time.Duration // until its turn would have come, as far as known
	Max   time.Duration // how long it may wait: max_wait
	Delay time.Duration // between two requests
	Hold  *Hold         // of its origin at this proxy; nil if it is not held
	cause cause
}

// cause is what keeps a request from its turn for too long.
type cause int

const (
	// crowd is too many requests that wait before it.
	crowd cause = iota
	// longDelay is a delay longer than max_wait: of two requests in a row, the second
	// is always late.
	longDelay
	// heldByOrigin is the origin's own Retry-After.
	heldByOrigin
	// pausing is a pause after failures in a row.
	pausing
	// dayOver is max_per_day requests in the last 24 hours.
	dayOver
	// probing is the one request that finds out whether the site still fails.
	probing
	// noPermit is requests in flight that do not end: max_in_flight of them.
	noPermit
)

// late returns the error of a request that would have to wait for wait, at an origin that
// is held for hold.
func (w *waiter) late(wait, hold time.Duration, by Holder) *Late {
	l := &Late{Wait: wait, Max: w.maxWait, Delay: w.delay}
	switch {
	case hold > w.maxWait:
		l.cause = map[Holder]cause{ByRetryAfter: heldByOrigin, ByBackOff: pausing, ByMaxPerDay: dayOver}[by]
	case w.delay > w.maxWait:
		l.cause = longDelay
	}
	return l
}

// Error says why the request is late and when to ask again.
func (l *Late) Error() string {
	why := "other requests are before it"
	switch l.cause {
	case longDelay:
		why = fmt.Sprintf("the delay between two requests is %v", l.Delay)
	case heldByOrigin:
		why = "the origin has asked for a pause (Retry-After)"
	case pausing:
		why = "the origin has failed pace.back_off.after times in a row or more, and has a pause"
	case probing:
		why = "the origin has failed several times in a row, and one request is trying it (pace.back_off)"
	case dayOver:
		why = "pace.max_per_day requests have started in the last 24 hours"
	case noPermit:
		why = "pace.max_in_flight others have not ended"
	}
	return fmt.Sprintf("its turn does not come within pace.max_wait (%v): %s; ask again in %v", l.Max, why, l.Wait.Round(time.Millisecond))
}

// Advice says in whole sentences what to do, to the person who runs the client.
func (l *Late) Advice() string {
	const again = "Retry-After says when to ask again. "
	switch l.cause {
	case longDelay:
		return again + fmt.Sprintf("A client that asks for one page after another is refused too: raise pace.max_wait to %v or more.", l.Delay)
	case heldByOrigin:
		return again + "Until then the origin wants no requests."
	case pausing, probing:
		return again + "Then one request tries the origin. If that succeeds, the others may follow."
	case dayOver:
		return again + "The earliest requests of the last 24 hours no longer count then. More are allowed with a larger pace.max_per_day."
	case noPermit:
		return again + "Fewer requests at once would not be refused, nor with a larger pace.max_in_flight."
	}
	return again + "Fewer requests at once would not be refused, nor with a longer pace.max_wait."
}
