package sqlitestore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/robots/store"
	"robotsproxy/robots/store/counts"
	"robotsproxy/robots/store/storetest"
)

func TestCounts(t *testing.T) {
	storetest.TestCounts(t, func(t *testing.T) counts.Store { return open(t, t.TempDir()) })
}

func TestChanges(t *testing.T) { storetest.TestChanges(t, open(t, t.TempDir())) }

// A row of counts as tests need it.
func row(day counts.Day, origin string, requests int64) counts.Row {
	return counts.Row{Day: day, Decision: counts.Decision{Origin: origin, Outcome: counts.Passed}, Count: counts.Count{Requests: requests}}
}

// Processes that share the file add to one count, also while one of them is reading.
func TestProcessesAddToOneCount(t *testing.T) {
	dir := t.TempDir()
	var adders sync.WaitGroup
	const each = 50
	for range 3 {
		s := open(t, dir)
		adders.Go(func() {
			for range each {
				b := counts.Batch{Rows: []counts.Row{row(7, "https://a.example", 1), row(7, "https://b.example", 2)}}
				if err := s.AddCounts(t.Context(), b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	s, day := open(t, dir), counts.Period{From: 7, Until: 7}
	for range each {
		got := storetest.ReadCounts(t, s, day)[7]
		if one, two := got[row(7, "https://a.example", 0).Decision], got[row(7, "https://b.example", 0).Decision]; 2*one.Requests != two.Requests {
			t.Fatalf("a half of a batch was read: %v, %v", one, two)
		}
	}
	adders.Wait()
	if got := storetest.ReadCounts(t, s, day)[7][row(7, "https://b.example", 0).Decision]; got.Requests != 3*each*2 {
		t.Errorf("got %+v", got)
	}
	if n := count(t, s, "days WHERE decisions = 2"); n != 1 {
		t.Errorf("%d days with 2 decisions", n)
	}
}

func TestOldDaysAreSweptOut(t *testing.T) {
	now := storetest.Noon
	opts := store.Options{History: 10 * day, Now: func() time.Time { return now }}
	s, err := Open(t.Context(), opts, t.TempDir(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first := counts.DayOf(now)
	add := func(days ...counts.Day) {
		b := counts.Batch{Days: []counts.Day{counts.DayOf(now)}}
		for _, day := range days {
			b.Rows = append(b.Rows, row(day, "https://a.example", 1))
		}
		storetest.AddCounts(t, s, b)
	}
	for range 11 {
		add(counts.DayOf(now))
		now = now.Add(day)
	}
	whole := counts.Period{From: first - 1, Until: first + 100}
	if days := storetest.DaysRun(t, s, whole); len(days) != 11 || days[0] != first {
		t.Errorf("after ten days there are %v", days)
	}
	now = now.Add(20 * day)
	for range 3 { // few at once
		add()
	}
	today := counts.DayOf(now)
	if days := storetest.DaysRun(t, s, whole); !slices.Equal(days, []counts.Day{today}) || count(t, s, "counts") != 0 {
		t.Errorf("a month later there are %v, and %d rows", days, count(t, s, "counts"))
	}
}

// Counts of past days are dropped when the database is full, before what is known of origins,
// and after the versions that are no longer served.
func TestCountsStayWithinMaxSize(t *testing.T) {
	const maxSize = 16 << 20
	var log bytes.Buffer
	s, err := Open(t.Context(), store.Options{MaxSize: maxSize, Now: func() time.Time { return storetest.Noon }}, t.TempDir(), zerolog.New(&log))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rec := storetest.TextRecord("https://example.com", "Disallow: /", storetest.Noon)
	storetest.Put(t, s, storetest.TextRecord("https://example.com", "Disallow: /old", storetest.Noon.Add(-time.Hour)), rec)
	for day := range counts.Day(8) {
		b := counts.Batch{}
		for i := range 20_000 {
			r := row(day, fmt.Sprintf("https://%d.example", i), 1)
			r.Rule = strings.Repeat("x", 100)
			b.Rows = append(b.Rows, r)
		}
		storetest.AddCounts(t, s, b)
		if size := onDisk(t, s); size > 2*maxSize { // before a checkpoint the log has some of it
			t.Fatalf("the file has %d octets", size)
		}
	}
	days := storetest.DaysRun(t, s, counts.Period{From: 0, Until: 8})
	if len(days) < 2 || len(days) > 6 || days[len(days)-1] != 7 || days[0] == 0 {
		t.Errorf("the days %v are left", days)
	}
	storetest.Expect(t, s, rec)
	storetest.ExpectVersions(t, s, rec.Origin, storetest.VersionOf(rec, storetest.Noon))
	if n := strings.Count(log.String(), "cache.max_size"); n != 1 {
		t.Errorf("logged %s", log.String())
	}
}

// A file of the schema before counts were kept gets its tables, and keeps the rest.
func TestSchemaWithoutCountsIsMigrated(t *testing.T) {
	dir := folderOf(t, "schema4.sql")
	one := storetest.TextRecord("https://one.example", "User-agent: *\nDisallow: /new/\n", storetest.Noon)
	one.UserAgent, one.CDN = "ExampleBot/2.0", "cloudflare"
	whole := counts.Period{From: 0, Until: 7}
	for i := range int64(2) {
		s := open(t, dir)
		storetest.Expect(t, s, one)
		storetest.ExpectVersions(t, s, one.Origin, storetest.VersionOf(one, storetest.Noon))
		got := storetest.ReadCounts(t, s, whole)
		if n := got[7][row(7, one.Origin, 0).Decision].Requests; n != i || len(got) != int(i) {
			t.Errorf("opened %d times before, it has %v", i, got)
		}
		storetest.AddCounts(t, s, counts.Batch{Rows: []counts.Row{row(7, one.Origin, 1)}})
		s.Close()
	}
	if aside := setAsideIn(t, dir); len(aside) > 0 {
		t.Errorf("set aside: %v", aside)
	}
}

// Counts of a schema that did not know which requests sites turn away are kept, with none of
// them, and go on.
func TestCountsAreMigrated(t *testing.T) {
	dir := folderOf(t, "schema5.sql")
	kept := counts.Decision{Identity: "images", Origin: "https://one.example", Outcome: counts.Passed, Verdict: "allowed", Reason: "no_rule"}
	want := counts.Count{Requests: 7, Paced: 2, Waited: 1500 * time.Millisecond}
	for range 2 {
		s := open(t, dir)
		if got := storetest.ReadCounts(t, s, counts.Period{From: 0, Until: 9}); len(got) != 1 || len(got[7]) != 1 || got[7][kept] != want {
			t.Errorf("got %v, want %v", got, want)
		}
		more := counts.Count{Requests: 1, TurnedAway: 1}
		storetest.AddCounts(t, s, counts.Batch{Rows: []counts.Row{{Day: 7, Decision: kept, Count: more}}})
		want.Add(more)
		s.Close()
	}
	if aside := setAsideIn(t, dir); len(aside) > 0 {
		t.Errorf("set aside: %v", aside)
	}
}

// What a read-only data directory has can be read, and what is added stays in memory.
func TestCountsOfReadOnly(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	storetest.AddCounts(t, s, counts.Batch{Rows: []counts.Row{row(7, "https://a.example", 1)}})
	s.Close()
	r := OpenReadOnly(t.Context(), dir, store.NewMemory(0))
	defer r.Close()
	kept := r.(counts.Store)
	storetest.AddCounts(t, kept, counts.Batch{Days: []counts.Day{8}, Rows: []counts.Row{row(8, "https://a.example", 2)}})
	whole := counts.Period{From: 0, Until: 10}
	got, days := storetest.ReadCounts(t, kept, whole), storetest.DaysRun(t, kept, whole)
	if len(got[7]) != 1 || len(got[8]) != 1 || !slices.Equal(days, []counts.Day{7, 8}) {
		t.Errorf("it has %v of %v", got, days)
	}
}

// BenchmarkAddCounts measures a batch of a thousand decisions, all of them known to the day
// or all of them new.
func BenchmarkAddCounts(b *testing.B) {
	for _, known := range []bool{true, false} {
		b.Run(fmt.Sprintf("known=%t", known), func(b *testing.B) {
			s := open(b, b.TempDir())
			batch := counts.Batch{}
			for range 1000 {
				batch.Rows = append(batch.Rows, row(7, fmt.Sprintf("https://%d.example", rand.Uint64()), 1))
			}
			storetest.AddCounts(b, s, batch)
			for b.Loop() {
				for i := range batch.Rows {
					if !known {
						batch.Rows[i].Day++
					}
				}
				storetest.AddCounts(b, s, batch)
			}
		})
	}
}
