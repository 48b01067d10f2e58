package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"robotsproxy/robots/store/counts"
)

// noonDay is the day of [Noon].
var noonDay = counts.DayOf(Noon)

// TestCounts tests what every store does with counts. open opens an empty one, by whose clock
// it is [Noon], and has t close it.
func TestCounts(t *testing.T, open func(t *testing.T) counts.Store) {
	t.Run("sums", func(t *testing.T) { testSums(t, open(t)) })
	t.Run("many", func(t *testing.T) { testManyDecisions(t, open(t)) })
}

// AddCounts adds a batch, which must succeed.
func AddCounts(t testing.TB, s counts.Store, b counts.Batch) {
	t.Helper()
	if err := s.AddCounts(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// ReadCounts returns all rows of a period.
func ReadCounts(t testing.TB, s counts.Store, p counts.Period) map[counts.Day]map[counts.Decision]counts.Count {
	t.Helper()
	all := map[counts.Day]map[counts.Decision]counts.Count{}
	err := s.Counts(t.Context(), p, func(r counts.Row) error {
		if _, twice := all[r.Day][r.Decision]; twice {
			t.Errorf("%v %+v comes twice", r.Day, r.Decision)
		}
		if all[r.Day] == nil {
			all[r.Day] = map[counts.Decision]counts.Count{}
		}
		all[r.Day][r.Decision] = r.Count
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// DaysRun returns on which days of a period a proxy has run.
func DaysRun(t testing.TB, s counts.Store, p counts.Period) []counts.Day {
	t.Helper()
	days, err := s.DaysRun(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return days
}

func testSums(t *testing.T, s counts.Store) {
	whole := counts.Period{From: noonDay - 10, Until: noonDay}
	if rows, days := ReadCounts(t, s, whole), DaysRun(t, s, whole); len(rows) > 0 || len(days) > 0 {
		t.Errorf("an empty store has %v of %v", rows, days)
	}
	full := counts.Decision{
		Identity: "images", Origin: "https://example.com", Outcome: counts.Refused, Verdict: "disallowed", Reason: "rule",
		Rule: "Disallow: /a\x00\"b|c\t…\ufffd", Preference: "content-signal: ai-train=no", Cause: "timed out", OverrideReason: "they asked",
	}
	want := map[counts.Decision]counts.Count{full: {Requests: 15, Paced: 1, Waited: 1500 * time.Millisecond, Challenged: 2, TurnedAway: 3, Priced: 4}}
	for _, change := range []func(*counts.Decision){ // each text tells decisions apart
		func(d *counts.Decision) { d.Identity = "" },
		func(d *counts.Decision) { d.Origin = "http://example.com" },
		func(d *counts.Decision) { d.Outcome = counts.Late },
		func(d *counts.Decision) { d.Verdict = "allowed" },
		func(d *counts.Decision) { d.Reason = "override" },
		func(d *counts.Decision) { d.Rule = "" },
		func(d *counts.Decision) { d.Preference = "" },
		func(d *counts.Decision) { d.Cause = "" },
		func(d *counts.Decision) { d.OverrideReason = "" },
	} {
		other := full
		change(&other)
		want[other] = counts.Count{Requests: int64(len(want)) + 1}
	}
	batch := func(id string, day counts.Day) counts.Batch {
		b := counts.Batch{ID: id, Days: []counts.Day{day}}
		for d, n := range want {
			b.Rows = append(b.Rows, counts.Row{Day: day, Decision: d, Count: n})
		}
		return b
	}
	AddCounts(t, s, batch("1", noonDay-2))
	AddCounts(t, s, counts.Batch{ID: "2", Days: []counts.Day{noonDay - 1}})
	AddCounts(t, s, batch("3", noonDay))
	AddCounts(t, s, batch("4", noonDay))
	twice := map[counts.Decision]counts.Count{}
	for d, n := range want {
		sum := n
		sum.Add(n)
		twice[d] = sum
	}
	for day, want := range map[counts.Day]map[counts.Decision]counts.Count{noonDay - 2: want, noonDay - 1: nil, noonDay: twice} {
		if got := ReadCounts(t, s, counts.Period{From: day, Until: day}); !maps.Equal(got[day], want) || len(got) > 1 {
			t.Errorf("%v: got %v, want %v", day, got, want)
		}
	}
	if got := ReadCounts(t, s, whole); !maps.Equal(got[noonDay-2], want) || !maps.Equal(got[noonDay], twice) || len(got) != 2 {
		t.Errorf("the whole period has %v", got)
	}
	if days := DaysRun(t, s, whole); !slices.Equal(days, []counts.Day{noonDay - 2, noonDay - 1, noonDay}) {
		t.Errorf("it has run on %v", days)
	}
	if days := DaysRun(t, s, counts.Period{From: noonDay - 1, Until: noonDay - 1}); !slices.Equal(days, []counts.Day{noonDay - 1}) {
		t.Errorf("it has run on %v", days)
	}
	stop := fmt.Errorf("enough")
	if err := s.Counts(context.Background(), whole, func(counts.Row) error { return stop }); err == nil {
		t.Error("the error of the caller is not returned")
	}
}

func testManyDecisions(t *testing.T, s counts.Store) {
	decision := func(i int) counts.Decision {
		return counts.Decision{Identity: "default", Origin: fmt.Sprintf("https://%d.example", i), Outcome: counts.Passed, Verdict: "allowed", Reason: "no_rule"}
	}
	const more = 500
	for from := 0; from < counts.MaxDecisions+more; from += more {
		b := counts.Batch{ID: fmt.Sprint(from)}
		for i := range more {
			b.Rows = append(b.Rows, counts.Row{Day: noonDay, Decision: decision(from + i), Count: counts.Count{Requests: 1, Paced: 1, Waited: time.Second, Priced: 1}})
		}
		AddCounts(t, s, b)
	}
	other := decision(-1)
	other.Outcome, other.Verdict = counts.Refused, "disallowed"
	AddCounts(t, s, counts.Batch{ID: "last", Rows: []counts.Row{
		{Day: noonDay, Decision: decision(7), Count: counts.Count{Requests: 5}}, // it is among those told apart
		{Day: noonDay, Decision: other, Count: counts.Count{Requests: 3}},
		{Day: noonDay - 1, Decision: decision(-1), Count: counts.Count{Requests: 1}}, // of another day
	}})
	got := ReadCounts(t, s, counts.Period{From: noonDay - 1, Until: noonDay})
	for d, want := range map[counts.Decision]counts.Count{
		decision(7):        {Requests: 6, Paced: 1, Waited: time.Second, Priced: 1},
		decision(8):        {Requests: 1, Paced: 1, Waited: time.Second, Priced: 1},
		decision(0).Rest(): {Requests: more, Paced: more, Waited: more * time.Second, Priced: more},
		other.Rest():       {Requests: 3},
	} {
		if got[noonDay][d] != want {
			t.Errorf("%+v: got %+v, want %+v", d, got[noonDay][d], want)
		}
	}
	if n := len(got[noonDay]); n != counts.MaxDecisions+2 {
		t.Errorf("%d rows", n)
	}
	if got[noonDay-1][decision(-1)] != (counts.Count{Requests: 1}) {
		t.Errorf("the day before has %v", got[noonDay-1])
	}
}
