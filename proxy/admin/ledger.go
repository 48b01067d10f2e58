package admin

import (
	"strings"
	"sync"
	"time"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/gate"
)

// kept is how many decisions are kept to be shown.
const kept = 1000

// A ledger has what the gate has decided of late: the last decisions one by one, and
// counts of those of the last hour and by rule. It takes as much room as its bounds
// say, whatever is asked for. Its methods may be called by many at once.
type ledger struct {
	mu      sync.Mutex
	last    [kept]gate.Decision // the one with number n, from 1, is at n % kept
	count   uint64              // the number of the last one
	minutes [hour]minute
	hits    *hits
}

func newLedger() *ledger { return &ledger{hits: newHits()} }

// enter writes down a decision. It is on every request's way: it copies, counts and
// is done.
func (l *ledger) enter(d gate.Decision) {
	// Both may be a part of a text that is much longer, and would keep all of it.
	d.Agent, d.Method = strings.Clone(printable.Cut(d.Agent, longest)), strings.Clone(printable.Cut(d.Method, longest))
	d.URL, d.Rule, d.Error = printable.Cut(d.URL, longest), printable.Cut(d.Rule, longest), printable.Cut(d.Error, longest)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	l.last[l.count%kept] = d
	l.minutes[minuteOf(d.Time)%hour].add(&d)
	l.hits.add(&d)
}

// longest is how much of a text is kept. A client may send URLs of 64 KiB.
const longest = 2048

// newest is the number of the last decision; 0 if there is none.
func (l *ledger) newest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// after copies decisions to buf, the oldest first, from the one that follows number
// n. It returns how many it has copied, and how many before them are no longer kept.
func (l *ledger) after(n uint64, buf []gate.Decision) (copied int, missed uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count > n+kept {
		missed = l.count - kept - n
		n += missed
	}
	for copied < len(buf) && n < l.count {
		n++
		buf[copied] = l.last[n%kept]
		copied++
	}
	return copied, missed
}

// hour is an hour in minutes.
const hour = 60

// A minute counts the requests that ended in it.
type minute struct {
	number                   int64 // since 1970
	allowed, refused, waited uint64
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// long is from when on a request counts as one that has waited: no copy in memory or
// on disk takes that long to find.
const long = 100 // milliseconds

func (m *minute) add(d *gate.Decision) {
	if now := minuteOf(d.Time); m.number != now {
		*m = minute{number: now}
	}
	if d.Refused {
		m.refused++
	} else {
		m.allowed++
	}
	if d.WaitMS >= long {
		m.waited++
	}
}

// lastHour are the minutes up to now, the oldest first.
func (l *ledger) lastHour(now time.Time) [hour]minute {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all [hour]minute
	for i := range all {
		all[i].number = minuteOf(now) - hour + 1 + int64(i)
		if m := l.minutes[all[i].number%hour]; m.number == all[i].number {
			all[i] = m
		}
	}
	return all
}

// hitsOf is how often a line of a robots.txt has decided, as far as that is known.
func (l *ledger) hitsOf(at line) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hits.of(at)
}
