package counts_test

import (
	"fmt"
	"testing"
	"time"

	"robotsproxy/robots/store/counts"
	"robotsproxy/robots/store/storetest"
)

func TestMemory(t *testing.T) {
	storetest.TestCounts(t, func(*testing.T) counts.Store { return new(counts.Memory) })
}

func TestMemoryIsBounded(t *testing.T) {
	var m counts.Memory
	all := counts.Period{From: 0, Until: 1000}
	row := func(day counts.Day, i int) counts.Row {
		return counts.Row{Day: day, Decision: counts.Decision{Origin: fmt.Sprint(i)}, Count: counts.Count{Requests: 1}}
	}
	for day := range counts.Day(100) {
		storetest.AddCounts(t, &m, counts.Batch{Rows: []counts.Row{row(day, 0)}})
	}
	if days := storetest.DaysRun(t, &m, all); len(days) != 31 || days[0] != 69 {
		t.Errorf("it has %v", days)
	}
	for i := range counts.MaxDecisions {
		storetest.AddCounts(t, &m, counts.Batch{Rows: []counts.Row{row(100, i), row(101, i), row(102, i)}})
	}
	if days := storetest.DaysRun(t, &m, all); len(days) != 2 || days[0] != 101 {
		t.Errorf("it has %v", days)
	}
}

func TestDays(t *testing.T) {
	for text, day := range map[string]counts.Day{
		"1970-01-01T00:00:00Z":          0,
		"1970-01-01T23:59:59.999Z":      0,
		"1969-12-31T23:59:59Z":          -1,
		"1969-12-31T00:00:00Z":          -1,
		"2026-01-02T23:30:00-05:00":     20456,
		"2026-01-03T04:30:00.00000001Z": 20456,
	} {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := counts.DayOf(at); got != day {
			t.Errorf("%s: day %d, want %d", text, got, day)
		}
		if parsed, err := counts.ParseDay(day.String()); parsed != day || err != nil {
			t.Errorf("%v is read as %v, %v", day, parsed, err)
		}
	}
	if day := counts.Day(20456); day.String() != "2026-01-03" {
		t.Errorf("it is %v", day)
	}
	var day counts.Day
	if err := day.UnmarshalText([]byte("2026-02-30")); err == nil {
		t.Errorf("got %v", day)
	}
}
