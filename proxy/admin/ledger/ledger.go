// Package ledger keeps what the gate has decided lately: the last decisions one by one, counts
// of the last hour's by minute, and how often each line of a robots.txt decided. A [Ledger]'s
// memory is bounded, whatever clients ask for. A [Filter] selects decisions.
package ledger

import (
	"slices"
	"strings"
	"sync"
	"time"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/decision"
	"robotsproxy/robots/store/counts"
)

// Size is how many of the last decisions a ledger holds.
const Size = 1000

// MaxKept is how many decisions a ledger holds in all: the last ones, and as many of those
// before them that stopped a request or would have, which a flood of allowed requests does not
// push out.
const MaxKept = 2 * Size

// A Ledger records decisions. Make one with [New]. Its methods are safe for concurrent use.
type Ledger struct {
	mu           sync.Mutex
	last         [Size]decision.Decision // number n, counted from 1, is at n % Size
	count        uint64                  // the number of the last one
	stopped      [Size]decision.Decision // those that have left last and did not just pass; as last
	stoppedCount uint64
	minutes      [MinutesPerHour]Minute
	hits         *hits
}

// New returns an empty ledger.
func New() *Ledger { return &Ledger{hits: newHits()} }

// Enter records a decision. Every request waits for it, so it only copies and counts.
func (l *Ledger) Enter(d decision.Decision) {
	// Both may be parts of much longer texts, all of which they would keep in memory.
	d.Agent, d.Method = strings.Clone(printable.Cut(d.Agent, maxTextLength)), strings.Clone(printable.Cut(d.Method, maxTextLength))
	d.URL, d.Rule, d.Error = printable.Cut(d.URL, maxTextLength), printable.Cut(d.Rule, maxTextLength), printable.Cut(d.Error, maxTextLength)
	d.Price, d.Preference = strings.Clone(d.Price), printable.Cut(d.Preference, maxTextLength)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	slot := &l.last[l.count%Size]
	if l.count > Size && slot.Outcome() != counts.Passed {
		l.stoppedCount++
		l.stopped[l.stoppedCount%Size] = *slot
	}
	*slot = d
	l.minutes[minuteOf(d.Time)%MinutesPerHour].add(&d)
	l.hits.add(&d)
}

// maxTextLength bounds each text in the ledger, in octets. A client may send URLs of 64 KiB.
const maxTextLength = 2048

// Newest returns the number of the last decision; 0 if there is none. The first is number 1.
func (l *Ledger) Newest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// After copies the decisions that follow number n to buf, the oldest first. It returns how
// many it copied, and how many before them the ledger no longer holds.
func (l *Ledger) After(n uint64, buf []decision.Decision) (copied int, missed uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count > n+Size {
		missed = l.count - Size - n
		n += missed
	}
	for copied < len(buf) && n < l.count {
		n++
		buf[copied] = l.last[n%Size]
		copied++
	}
	return copied, missed
}

// Kept returns up to limit of the decisions that the ledger holds and a filter selects, the
// newest first, and the number of the last decision.
func (l *Ledger) Kept(f Filter, limit int) (found []decision.Decision, newest uint64) {
	all := make([]decision.Decision, 0, MaxKept)
	l.mu.Lock()
	all = appendLast(all, &l.stopped, l.stoppedCount)
	all = appendLast(all, &l.last, l.count)
	newest = l.count
	l.mu.Unlock()
	found = slices.DeleteFunc(all, func(d decision.Decision) bool { return !f.Selects(&d) })
	found = found[max(0, len(found)-limit):]
	slices.Reverse(found)
	return found, newest
}

// appendLast appends what a ring holds of count decisions, the oldest first.
func appendLast(to []decision.Decision, ring *[Size]decision.Decision, count uint64) []decision.Decision {
	for n := count - min(count, Size); n < count; {
		n++
		to = append(to, ring[n%Size])
	}
	return to
}

// MinutesPerHour is how many minutes a ledger counts.
const MinutesPerHour = 60

// A Minute counts the requests that ended in it.
type Minute struct {
	number           int64 // since 1970
	Allowed, Refused uint64
	WouldRefuse      uint64 // of Allowed, how many mode enforce would have refused
	Failed           uint64 // of Allowed, how many got no whole response from the origin
	Late             uint64 // of Refused, how many because their turn would have come too late
	Waited           uint64 // of all, how many waited noticeably before they were answered
}

// Start returns when the minute began.
func (m Minute) Start() time.Time { return time.Unix(m.number*60, 0) }

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// minWaitMS is the least wait, in milliseconds, of a request that counts as one that waited.
// To find a policy in memory or on disk takes less.
const minWaitMS = 100

func (m *Minute) add(d *decision.Decision) {
	if now := minuteOf(d.Time); m.number != now {
		*m = Minute{number: now}
	}
	if d.Refused {
		m.Refused++
	} else {
		m.Allowed++
	}
	switch d.Outcome() {
	case counts.WouldRefuse:
		m.WouldRefuse++
	case counts.Late:
		m.Late++
	}
	if failed(d) {
		m.Failed++
	}
	if d.WaitMS >= minWaitMS {
		m.Waited++
	}
}

// LastHour returns the minutes up to now, the oldest first.
func (l *Ledger) LastHour(now time.Time) [MinutesPerHour]Minute {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all [MinutesPerHour]Minute
	for i := range all {
		all[i].number = minuteOf(now) - MinutesPerHour + 1 + int64(i)
		if m := l.minutes[all[i].number%MinutesPerHour]; m.number == all[i].number {
			all[i] = m
		}
	}
	return all
}

// Hits returns how often a line of a robots.txt has decided; 0 if it is no longer counted.
func (l *Ledger) Hits(of Line) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hits.of(of)
}
