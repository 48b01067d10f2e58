package admin

import (
	"strings"
	"sync"
	"time"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/gate"
)

// ledgerSize is how many decisions the ledger holds.
const ledgerSize = 1000

// A ledger holds what the gate has decided lately: the last decisions one by one, and counts
// of the last hour's by minute and by rule. Its memory is bounded, whatever clients ask for.
// Its methods are safe for concurrent use.
type ledger struct {
	mu      sync.Mutex
	last    [ledgerSize]gate.Decision // number n, counted from 1, is at n % ledgerSize
	count   uint64                    // the number of the last one
	minutes [minutesPerHour]minute
	hits    *hits
}

func newLedger() *ledger { return &ledger{hits: newHits()} }

// enter records a decision. It is on the way of every request, so it only copies and counts.
func (l *ledger) enter(d gate.Decision) {
	// Both may be parts of much longer texts, all of which they would keep in memory.
	d.Agent, d.Method = strings.Clone(printable.Cut(d.Agent, maxTextLength)), strings.Clone(printable.Cut(d.Method, maxTextLength))
	d.URL, d.Rule, d.Error = printable.Cut(d.URL, maxTextLength), printable.Cut(d.Rule, maxTextLength), printable.Cut(d.Error, maxTextLength)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	l.last[l.count%ledgerSize] = d
	l.minutes[minuteOf(d.Time)%minutesPerHour].add(&d)
	l.hits.add(&d)
}

// maxTextLength bounds each text in the ledger, in octets. A client may send URLs of 64 KiB.
const maxTextLength = 2048

// newest is the number of the last decision; 0 if there is none.
func (l *ledger) newest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// after copies the decisions that follow number n to buf, the oldest first. It returns how
// many it copied, and how many before them the ledger no longer holds.
func (l *ledger) after(n uint64, buf []gate.Decision) (copied int, missed uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count > n+ledgerSize {
		missed = l.count - ledgerSize - n
		n += missed
	}
	for copied < len(buf) && n < l.count {
		n++
		buf[copied] = l.last[n%ledgerSize]
		copied++
	}
	return copied, missed
}

const minutesPerHour = 60

// A minute counts the requests that ended in it.
type minute struct {
	number                   int64 // since 1970
	allowed, refused, waited uint64
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// minWaitMS is the least wait, in milliseconds, of a request that counts as one that waited.
// Finding a copy in memory or on disk takes less.
const minWaitMS = 100

func (m *minute) add(d *gate.Decision) {
	if now := minuteOf(d.Time); m.number != now {
		*m = minute{number: now}
	}
	if d.Refused {
		m.refused++
	} else {
		m.allowed++
	}
	if d.WaitMS >= minWaitMS {
		m.waited++
	}
}

// lastHour are the minutes up to now, the oldest first.
func (l *ledger) lastHour(now time.Time) [minutesPerHour]minute {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all [minutesPerHour]minute
	for i := range all {
		all[i].number = minuteOf(now) - minutesPerHour + 1 + int64(i)
		if m := l.minutes[all[i].number%minutesPerHour]; m.number == all[i].number {
			all[i] = m
		}
	}
	return all
}

// hitsOf is how often a line of a robots.txt has decided, if it is still counted; else 0.
func (l *ledger) hitsOf(at line) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hits.of(at)
}
