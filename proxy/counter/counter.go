// Package counter counts what the gate decides, and has a store keep the counts of each day. A
// [Counter] adds decisions up in memory and hands them to the store in the background, a few
// seconds later. While the store is away, they wait and add up.
package counter

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"robotsproxy/internal/outage"
	"robotsproxy/internal/printable"
	"robotsproxy/proxy/decision"
	"robotsproxy/robots/store/counts"
)

const (
	// flushEvery is less than the five seconds that a process which is killed may lose,
	// since to write takes time too.
	flushEvery = 4 * time.Second
	// maxBatch is how many rows a store gets at once: others have to wait meanwhile.
	maxBatch = 2000
	// closeTimeout bounds the last writes.
	closeTimeout = 5 * time.Second
	// maxText bounds each text of a decision, in octets. A rule may have 16 KiB.
	maxText = 256
)

// A Counter counts decisions. Make one with [New]. Its methods are safe for concurrent use.
type Counter struct {
	store  counts.Store
	now    func() time.Time
	log    zerolog.Logger
	outage *outage.Reporter
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	days    map[counts.Day]counts.Table // what no batch has yet
	crowded counts.Day                  // the last one that had too many different decisions

	hour hour // what batches had lately

	// These are for the one writer.
	batches []counts.Batch // to be written, in this order
	ran     counts.Day     // the last day that a batch has
}

// New returns a Counter whose counts go to a store. From then on the store knows that a proxy
// runs. Callers must call Close before they close the store.
func New(store counts.Store, now func() time.Time, log zerolog.Logger) *Counter {
	c := &Counter{store: store, now: now, log: log, days: map[counts.Day]counts.Table{}}
	c.outage = outage.New(
		func(err error) {
			log.Warn().Err(err).Msg("counts of decisions cannot be kept: they wait in memory, and add up there")
		},
		func() { log.Info().Msg("counts of decisions are kept again") },
	)
	var ctx context.Context
	ctx, c.stop = context.WithCancel(context.Background())
	c.done.Go(func() { c.run(ctx) })
	return c
}

// run writes every few seconds until ctx ends.
func (c *Counter) run(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		c.flush(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Close writes what has been counted. What can't be written is lost, and the log says how
// much that is. Nothing must be added afterwards.
func (c *Counter) Close() {
	c.stop()
	c.done.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	c.flush(ctx) // what an earlier flush could not write
	c.flush(ctx)
	c.outage.Close()
	c.take()
	var lost int64
	for _, b := range c.batches {
		for _, row := range b.Rows {
			lost += row.Requests
		}
	}
	if lost > 0 {
		c.log.Error().Int64("requests", lost).Msg("the store is away at the end: these requests are missing in the counts")
	}
}

// Add counts a decision. Every request waits for it, so it does no more than that.
func (c *Counter) Add(d decision.Decision) {
	day := counts.DayOf(d.Time)
	what := decisionOf(&d)
	n := countOf(&d)
	c.mu.Lock()
	defer c.mu.Unlock()
	table := c.days[day]
	if table == nil {
		table = counts.Table{}
		c.days[day] = table
	}
	if table.Add(what, n, c.room(day)) || c.crowded == day {
		return
	}
	c.crowded = day
	c.log.Warn().Int("decisions", counts.MaxDecisions).
		Msg("there are too many different decisions to count each: further ones of this day count without origin and rule")
}

// room is how many decisions the table of a day may have. All tables share it: while a store
// is away for long, there is one for each day.
func (c *Counter) room(day counts.Day) int {
	room := counts.MaxDecisions
	if len(c.days) == 1 { // as almost always
		return room
	}
	for other, table := range c.days {
		if other != day {
			room -= len(table)
		}
	}
	return room
}

// flush writes the batches that there are or, if there are none, what has been counted.
func (c *Counter) flush(ctx context.Context) {
	if len(c.batches) == 0 {
		c.take()
	}
	for len(c.batches) > 0 {
		attempt := c.outage.Begin()
		if err := c.store.AddCounts(ctx, c.batches[0]); err != nil {
			if ctx.Err() == nil {
				c.outage.Failed(err)
			}
			return
		}
		attempt.Succeeded()
		c.batches = c.batches[1:]
	}
}

// take makes batches of what has been counted.
func (c *Counter) take() {
	rows := c.hour.take(c.now(), func() (rows []counts.Row) {
		c.mu.Lock()
		days := c.days
		c.days = make(map[counts.Day]counts.Table, len(days))
		c.mu.Unlock()
		for day, table := range days {
			rows = table.AppendRows(rows, day)
		}
		return rows
	})
	for rows := range slices.Chunk(rows, maxBatch) {
		c.batches = append(c.batches, counts.Batch{ID: rand.Text(), Rows: rows})
	}
	if today := counts.DayOf(c.now()); today != c.ran {
		c.ran = today
		c.batches = append(c.batches, counts.Batch{ID: rand.Text(), Days: []counts.Day{today}})
	}
}

// countOf returns what one decision adds to the counts.
func countOf(d *decision.Decision) counts.Count {
	n := counts.Count{Requests: 1}
	if d.PacedMS > 0 {
		n.Paced, n.Waited = 1, time.Duration(d.PacedMS)*time.Millisecond
	}
	switch d.Edge {
	case decision.Challenged:
		n.Challenged = 1
	case decision.TurnedAway:
		n.TurnedAway = 1
	case decision.Priced:
		n.Priced = 1
	}
	return n
}

// decisionOf returns what tells a decision apart. The price that a site names does not: it may
// be another one for each page.
func decisionOf(d *decision.Decision) counts.Decision {
	return counts.Decision{
		Identity:       d.Identity,
		Origin:         text(d.Origin),
		Outcome:        d.Outcome(),
		Verdict:        string(d.Judgment),
		Reason:         string(d.Reason),
		Rule:           text(d.Rule),
		Preference:     text(d.Preference),
		Cause:          text(d.Cause),
		OverrideReason: text(d.OverrideReason),
	}
}

// text returns what is counted of a text.
func text(s string) string {
	if !utf8.ValidString(s) { // far cheaper to ask than ToValidUTF8
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return printable.Cut(s, maxText)
}
