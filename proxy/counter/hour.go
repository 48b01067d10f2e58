package counter

import (
	"sync"
	"time"

	"robotsproxy/robots/store/counts"
)

const (
	slotLength   = 10 * time.Minute
	slotsPerHour = int64(time.Hour / slotLength)
	// maxPerSlot is how many different decisions a slot tells apart. Those beyond count as
	// their [counts.Decision.Rest].
	maxPerSlot = 5000
)

// An hour has the counts of the last hour, in slots of ten minutes. The writer fills it, so that
// no request waits for that.
type hour struct {
	mu    sync.Mutex
	slots [slotsPerHour]slot
}

// A slot has the counts of ten minutes.
type slot struct {
	number int64 // since 1970
	table  counts.Table
}

func slotOf(t time.Time) int64 { return t.Unix() / int64(slotLength/time.Second) }

// take adds the rows that next returns to the slot of a time, and returns them. For the hour,
// they count from that time on, whatever their days.
func (h *hour) take(now time.Time, next func() []counts.Row) []counts.Row {
	h.mu.Lock()
	defer h.mu.Unlock()
	rows := next()
	number := slotOf(now)
	s := &h.slots[number%slotsPerHour]
	if s.number != number {
		*s = slot{number, counts.Table{}}
	}
	for i := range rows {
		s.table.Add(rows[i].Decision, rows[i].Count, maxPerSlot)
	}
	return rows
}

// LastHour returns what has been decided since a time that is 50 to 60 minutes ago, as rows of
// one day. Several rows may be of one decision.
func (c *Counter) LastHour() (since time.Time, rows []counts.Row) {
	now := c.now()
	first, day := slotOf(now)-slotsPerHour+1, counts.DayOf(now)
	c.hour.mu.Lock() // so that no row is in a batch and in none
	defer c.hour.mu.Unlock()
	for _, s := range c.hour.slots {
		if s.number >= first {
			rows = s.table.AppendRows(rows, day)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, table := range c.days {
		rows = table.AppendRows(rows, day)
	}
	return time.Unix(first*int64(slotLength/time.Second), 0).UTC(), rows
}
