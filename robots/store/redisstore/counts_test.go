//go:build unix

package redisstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"robotsproxy/internal/redistest"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/counts"
	"robotsproxy/robots/store/storetest"
)

func TestCounts(t *testing.T) {
	storetest.TestCounts(t, func(t *testing.T) counts.Store {
		now := storetest.Noon
		return open(redistest.Start(t), &now)
	})
}

// A batch whose answer is lost may be added again, by the same ID. Two proxies add to one count.
func TestBatchCountsOnce(t *testing.T) {
	server, now := redistest.Start(t), storetest.Noon
	day := counts.DayOf(now)
	decision := counts.Decision{Origin: "https://a.example"}
	batch := func(id string) counts.Batch {
		return counts.Batch{ID: id, Rows: []counts.Row{{Day: day, Decision: decision, Count: counts.Count{Requests: 2}}}}
	}
	one, other := open(server, &now), open(server, &now)
	for range 3 {
		storetest.AddCounts(t, one, batch("1"))
		storetest.AddCounts(t, other, batch("2"))
	}
	if got := storetest.ReadCounts(t, one, counts.Period{From: day, Until: day})[day][decision]; got.Requests != 4 {
		t.Errorf("got %+v", got)
	}
}

// Days that are older than the history are gone.
func TestOldDaysAreGone(t *testing.T) {
	server, now := redistest.Start(t), storetest.Noon
	s := open(server, &now)
	first := counts.DayOf(now)
	storetest.AddCounts(t, s, counts.Batch{ID: "1", Days: []counts.Day{first}})
	now = now.Add(366 * oneDay)
	last := counts.DayOf(now)
	storetest.AddCounts(t, s, counts.Batch{ID: "2", Days: []counts.Day{last}})
	if days := storetest.DaysRun(t, s, counts.Period{From: first, Until: last}); !slices.Equal(days, []counts.Day{last}) {
		t.Errorf("it has run on %v", days)
	}
}

func TestChanges(t *testing.T) {
	server, now := redistest.Start(t), storetest.Noon
	storetest.TestChanges(t, open(server, &now))
	s := open(server, &now)
	for i := range 3 * listPage / 2 { // more than a page
		for version := range 2 {
			storetest.Put(t, s, storetest.TextRecord(fmt.Sprintf("https://%d.example", i), fmt.Sprint(version), storetest.Noon.Add(time.Duration(version)*time.Minute)))
		}
	}
	n := 0
	if err := s.Changes(t.Context(), storetest.Noon, storetest.Noon.Add(time.Hour), func(store.Change) { n++ }); err != nil || n < 3*listPage/2 {
		t.Errorf("%d changes, %v", n, err)
	}
}
