package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"robotsproxy/robots/store"
	"robotsproxy/robots/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	storetest.Test(t, func(*testing.T) store.Store { return store.NewMemory(64 << 20) })
}

func TestMemoryForgetsWhatWasLongestUnused(t *testing.T) {
	m := store.NewMemory(0)
	text := strings.Repeat("x", 1<<20)
	name := func(i int) string { return fmt.Sprintf("https://%d.example", i) }
	for i := range 7 {
		storetest.Put(t, m, storetest.TextRecord(name(i), text, storetest.Noon))
	}
	m.Get(t.Context(), name(0))
	storetest.Put(t, m, storetest.TextRecord(name(0), text, storetest.Noon), storetest.TextRecord(name(7), text, storetest.Noon), storetest.TextRecord(name(8), text, storetest.Noon))
	recs, _ := m.List(t.Context(), "", "", 100)
	var got []string
	for _, rec := range recs {
		got = append(got, rec.Origin)
	}
	if want := []string{name(0), name(3), name(4), name(5), name(6), name(7), name(8)}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	if _, bytes := m.Held(); bytes > 8<<20 {
		t.Errorf("%d bytes are held", bytes)
	}
}

func TestMemoryGivesUpItsOldest(t *testing.T) {
	m := store.NewMemory(0)
	if recs := m.Oldest(9); len(recs) > 0 {
		t.Errorf("an empty memory has %+v", recs)
	}
	one, two := storetest.TextRecord("https://one.example", "1", storetest.Noon), storetest.TextRecord("https://two.example", "2", storetest.Noon)
	storetest.Put(t, m, one, two)
	if recs := m.Oldest(1); len(recs) != 1 || recs[0].Origin != one.Origin {
		t.Errorf("got %+v", recs)
	}
	if recs := m.Oldest(9); len(recs) != 2 || recs[1].Origin != two.Origin {
		t.Errorf("got %+v", recs)
	}
	m.Remove(one)
	m.Remove(one)
	if recs := m.Oldest(9); len(recs) != 1 || recs[0].Origin != two.Origin {
		t.Errorf("got %+v", recs)
	}
	alone := store.NewMemory(0)
	storetest.Put(t, alone, two)
	_, want := alone.Held()
	if n, bytes := m.Held(); n != 1 || bytes != want {
		t.Errorf("%d records of %d bytes, want one of %d", n, bytes, want)
	}
	for _, later := range []store.Record{storetest.FailingRecord(two, storetest.Noon.Add(time.Hour)), storetest.TextRecord(two.Origin, "2", storetest.Noon.Add(time.Hour))} {
		storetest.Put(t, m, later)
		m.Remove(two)
		storetest.Expect(t, m, later)
	}
}
