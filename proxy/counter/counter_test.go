package counter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"robotsproxy/proxy/counter"
	"robotsproxy/proxy/decision"
	"robotsproxy/robots/store/counts"
	"robotsproxy/robots/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A flaky store fails while it is away. It can also add a batch and fail all the same.
type flaky struct {
	counts.Memory
	mu      sync.Mutex
	away    bool
	late    bool // it adds the next batch before it fails
	known   map[string]bool
	batches int
}

func (f *flaky) AddCounts(ctx context.Context, b counts.Batch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away && !f.late {
		return errors.New("it is away")
	}
	if f.known == nil {
		f.known = map[string]bool{}
	}
	if !f.known[b.ID] {
		f.known[b.ID] = true
		f.batches++
		f.Memory.AddCounts(ctx, b)
	}
	if f.late {
		f.late = false
		return errors.New("its answer is lost")
	}
	return nil
}

func (f *flaky) set(away, late bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away, f.late = away, late
}

// batchCount is how many batches it has added.
func (f *flaky) batchCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.batches
}

// everything is more than any test counts.
var everything = counts.Period{From: 0, Until: 50_000}

// requests is the sum of what a store has.
func requests(t *testing.T, s counts.Store) (n int64) {
	t.Helper()
	for _, day := range storetest.ReadCounts(t, s, everything) {
		for _, count := range day {
			n += count.Requests
		}
	}
	return n
}

func decided(origin string) decision.Decision {
	return decision.Decision{Time: time.Now(), Identity: "default", Origin: origin, Judgment: decision.Allowed, Reason: decision.NoRule, Status: 200}
}

func TestCountsAreWrittenWithinSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &flaky{}
		c := counter.New(s, time.Now, zerolog.Nop())
		defer c.Close()
		synctest.Wait()
		if days := storetest.DaysRun(t, s, everything); len(days) != 1 {
			t.Errorf("at its start it has run on %v", days)
		}
		time.Sleep(time.Minute)
		synctest.Wait() // a write is due at this moment
		if n := s.batchCount(); n != 1 {
			t.Errorf("%d batches without a request", n)
		}
		for range 10 {
			c.Add(decided("https://a.example"))
		}
		if n := requests(t, s); n != 0 {
			t.Errorf("%d requests are written at once", n)
		}
		time.Sleep(5 * time.Second)
		if n := requests(t, s); n != 10 || s.batchCount() != 2 {
			t.Errorf("five seconds later %d requests are written, in %d batches", n, s.batchCount())
		}
		time.Sleep(48 * time.Hour)
		if days := storetest.DaysRun(t, s, everything); len(days) != 3 {
			t.Errorf("two days later it has run on %v", days)
		}
	})
}

func TestAllIsWrittenAtTheEnd(t *testing.T) {
	s := &flaky{}
	c := counter.New(s, time.Now, zerolog.Nop())
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for range 1000 {
				c.Add(decided(fmt.Sprintf("https://%d.example", i%3)))
			}
		})
	}
	clients.Wait()
	c.Close()
	if n := requests(t, s); n != 8000 {
		t.Errorf("%d requests are written", n)
	}
}

// While the store is away, counts add up, and none counts twice although an answer is lost.
func TestStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &flaky{}
		var log bytes.Buffer
		c := counter.New(s, time.Now, zerolog.New(&log))
		add := func() {
			for range 600 {
				c.Add(decided("https://a.example"))
				time.Sleep(time.Second)
			}
		}
		add()
		s.set(true, true)
		add()
		s.set(true, false)
		add()
		if n := requests(t, s); n < 600 || n > 610 {
			t.Errorf("%d requests are written while it is away", n)
		}
		s.set(false, false)
		time.Sleep(10 * time.Second)
		if n := requests(t, s); n != 1800 {
			t.Errorf("%d requests are written when it is back", n)
		}
		time.Sleep(time.Minute)
		s.set(true, false)
		add()
		c.Close()
		var lines []string
		for line := range strings.Lines(log.String()) {
			lines = append(lines, line)
		}
		if len(lines) != 4 || !strings.Contains(lines[0], "they wait in memory") || !strings.Contains(lines[1], "kept again") ||
			!strings.Contains(lines[3], `"requests":600`) {
			t.Errorf("logged %s", log.String())
		}
	})
}

// However different decisions are, the memory for them is bounded, and each request counts.
func TestTooManyDifferentDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &flaky{away: true}
		var log bytes.Buffer
		c := counter.New(s, time.Now, zerolog.New(&log))
		const each = counts.MaxDecisions/2 + 1000
		for range 3 { // days
			synctest.Wait()
			for i := range each {
				c.Add(decided(fmt.Sprintf("https://%d.example", i)))
			}
			time.Sleep(24 * time.Hour)
		}
		s.set(false, false)
		c.Close()
		rests := []int64{}
		total := 0
		all := storetest.ReadCounts(t, s, everything)
		for _, day := range storetest.DaysRun(t, s, everything) {
			total += len(all[day])
			for d, n := range all[day] {
				if d.Origin == "" {
					rests = append(rests, n.Requests)
				}
			}
		}
		if n := requests(t, s); n != 3*each {
			t.Errorf("%d requests are counted", n)
		}
		if total != counts.MaxDecisions+len(rests) || len(rests) != 2 {
			t.Errorf("%d decisions, those without an origin are for %v requests", total, rests)
		}
		if n := strings.Count(log.String(), "too many different decisions"); n != 2 { // once a day
			t.Errorf("logged %s", log.String())
		}
	})
}

func TestOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*decision.Decision)
		want   counts.Outcome
	}{
		"passed":                    {func(*decision.Decision) {}, counts.Passed},
		"the origin's own 429":      {func(d *decision.Decision) { d.Status = 429 }, counts.Passed},
		"refused":                   {func(d *decision.Decision) { d.Judgment, d.Refused, d.Status = decision.Disallowed, true, 403 }, counts.Refused},
		"mode report":               {func(d *decision.Decision) { d.Judgment, d.WouldRefuse = decision.Disallowed, true }, counts.WouldRefuse},
		"preferences' mode report":  {func(d *decision.Decision) { d.WouldRefuse = true }, counts.WouldRefuse},
		"too late":                  {func(d *decision.Decision) { d.Refused, d.Status = true, 429 }, counts.Late},
		"too late, the client left": {func(d *decision.Decision) { d.Refused, d.Status = true, 0 }, counts.Late},
		"too late in mode report":   {func(d *decision.Decision) { d.Judgment, d.Refused, d.Status = decision.Disallowed, true, 429 }, counts.Late},
	} {
		t.Run(name, func(t *testing.T) {
			s := &flaky{}
			counter := counter.New(s, time.Now, zerolog.Nop())
			d := decided("https://a.example")
			d.Rule, d.PacedMS = strings.Repeat("é", 200), 1500
			c.change(&d)
			counter.Add(d)
			counter.Close()
			for _, day := range storetest.ReadCounts(t, s, everything) {
				for got, n := range day {
					if got.Outcome != c.want || len(got.Rule) > 256+len("…") || n != (counts.Count{Requests: 1, Paced: 1, Waited: 1500 * time.Millisecond}) {
						t.Errorf("got %+v: %+v", got, n)
					}
				}
			}
			if n := requests(t, s); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// What a site does although its robots.txt allows the request is counted by its kind.
func TestEdges(t *testing.T) {
	s := &flaky{}
	c := counter.New(s, time.Now, zerolog.Nop())
	d := decided("https://a.example")
	for _, edge := range []decision.Edge{"", decision.Challenged, decision.TurnedAway, decision.TurnedAway, decision.Priced} {
		d.Edge, d.Price = edge, fmt.Sprintf("USD %d", len(edge)) // which tells no decisions apart
		c.Add(d)
	}
	c.Close()
	for _, day := range storetest.ReadCounts(t, s, everything) {
		for _, n := range day {
			if n != (counts.Count{Requests: 5, Challenged: 1, TurnedAway: 2, Priced: 1}) {
				t.Errorf("got %+v", n)
			}
		}
	}
}

// BenchmarkAdd measures what a request waits for, one after the other and at once.
func BenchmarkAdd(b *testing.B) {
	c := counter.New(&counts.Memory{}, time.Now, zerolog.Nop())
	defer c.Close()
	var ds []decision.Decision
	for i := range 200 {
		d := decided(fmt.Sprintf("https://%d.example", i))
		d.Reason, d.Rule = decision.ByRule, "Disallow: /private/letters"
		ds = append(ds, d)
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			c.Add(ds[i%len(ds)])
		}
	})
	b.Run("at once", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				c.Add(ds[i%len(ds)])
			}
		})
	})
}
