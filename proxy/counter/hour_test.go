package counter_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/proxy/counter"
	"robotsproxy/robots/store/counts"
)

// The last hour has what was decided in it, whether a store has got it or not, and nothing
// else.
func TestLastHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &flaky{}
		c := counter.New(store, time.Now, zerolog.Nop())
		defer c.Close()
		requests := func() map[string]int64 {
			since, rows := c.LastHour()
			if ago := time.Since(since); ago < 50*time.Minute || ago > time.Hour {
				t.Errorf("the hour began %v ago", ago)
			}
			n := map[string]int64{}
			for _, row := range rows {
				n[row.Origin] += row.Requests
			}
			return n
		}
		for i := range 9 { // one more every ten minutes
			store.set(i == 8, false)
			for range i + 1 {
				c.Add(decided("https://a.example"))
			}
			if i == 7 {
				c.Add(decided("https://b.example"))
			}
			want := int64(0)
			for back := 0; back < 6 && i-back >= 0; back++ {
				want += int64(i-back) + 1
			}
			if got := requests()["https://a.example"]; got != want {
				t.Errorf("at once: %d requests, want %d", got, want)
			}
			time.Sleep(time.Minute)
			if got := requests()["https://a.example"]; got != want {
				t.Errorf("a minute later: %d requests, want %d", got, want)
			}
			time.Sleep(9 * time.Minute)
		}
		if got := requests()["https://b.example"]; got != 1 {
			t.Errorf("another site: %d requests", got)
		}
		store.set(false, false)
		time.Sleep(2 * time.Hour)
		if got := requests(); len(got) != 0 {
			t.Errorf("after two hours without a request: %v", got)
		}
	})
}

// However many sites are asked, the memory of the hour is bounded, and no request is lost.
func TestLastHourIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := counter.New(&counts.Memory{}, time.Now, zerolog.Nop())
		defer c.Close()
		const sites = 20_000
		for i := range sites {
			c.Add(decided(fmt.Sprintf("https://%d.example", i)))
		}
		time.Sleep(time.Minute)
		_, rows := c.LastHour()
		total := int64(0)
		for _, row := range rows {
			total += row.Requests
		}
		if total != sites || len(rows) > 5010 {
			t.Errorf("%d requests in %d rows", total, len(rows))
		}
	})
}
