package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// textRecord is a record of a 2xx answer at that time.
func textRecord(origin, text string, at time.Time) Record {
	sum := sha256.Sum256([]byte(text))
	return Record{
		Origin: origin, Status: 200, Body: []byte(text), SHA256: hex.EncodeToString(sum[:]),
		FetchedAt: at, ExpiresAt: at.Add(24 * time.Hour),
	}
}

// failingRecord is rec with failures at that time.
func failingRecord(rec Record, at time.Time) Record {
	rec.FailedSince, rec.FailedStatus, rec.Failures = at, 503, 2
	rec.NextTry, rec.Cause = at.Add(time.Minute+time.Millisecond), "503 Service Unavailable"
	return rec
}

func openIn(t testing.TB, dir string) Store {
	t.Helper()
	s, err := Open(t.Context(), Defaults(), dir, 0, zerolog.New(zerolog.NewTestWriter(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t testing.TB, s Store, recs ...Record) {
	t.Helper()
	for _, rec := range recs {
		if err := s.Put(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
	}
}

func expect(t testing.TB, s Store, want Record) {
	t.Helper()
	got, ok, err := s.Get(t.Context(), want.Origin)
	if err != nil || !ok {
		t.Fatalf("%s: found %v, %v", want.Origin, ok, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

func TestMemoryForgetsWhatWasLongestUnused(t *testing.T) {
	m := NewMemory(0)
	text := strings.Repeat("x", 1<<20)
	name := func(i int) string { return fmt.Sprintf("https://%d.example", i) }
	for i := range 7 {
		put(t, m, textRecord(name(i), text, noon))
	}
	m.Get(t.Context(), name(0))
	put(t, m, textRecord(name(0), text, noon), textRecord(name(7), text, noon), textRecord(name(8), text, noon))
	recs, _ := m.List(t.Context(), "", "", 100)
	var got []string
	for _, rec := range recs {
		got = append(got, rec.Origin)
	}
	if want := []string{name(0), name(3), name(4), name(5), name(6), name(7), name(8)}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	if m.held > m.budget {
		t.Errorf("%d bytes held of %d", m.held, m.budget)
	}
}

func TestMemoryGivesUpItsOldest(t *testing.T) {
	m := NewMemory(0)
	if recs := m.Oldest(9); len(recs) > 0 {
		t.Errorf("an empty memory has %+v", recs)
	}
	one, two := textRecord("https://one.example", "1", noon), textRecord("https://two.example", "2", noon)
	put(t, m, one, two)
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
	if n, bytes := m.Held(); n != 1 || bytes != cost(two) {
		t.Errorf("%d records of %d bytes", n, bytes)
	}
	for _, later := range []Record{failingRecord(two, noon.Add(time.Hour)), textRecord(two.Origin, "2", noon.Add(time.Hour))} {
		put(t, m, later)
		m.Remove(two)
		expect(t, m, later)
	}
}

func TestKinds(t *testing.T) {
	var k Kind
	for _, name := range []string{"sqlite", "redis", "none"} {
		if err := k.UnmarshalText([]byte(name)); err != nil || string(k) != name {
			t.Errorf("%s: got %q, %v", name, k, err)
		}
	}
	for _, name := range []string{"", "SQLite", "memcached"} {
		if err := k.UnmarshalText([]byte(name)); err == nil || !strings.Contains(err.Error(), "sqlite") || k != None {
			t.Errorf("%q: got %q, %v", name, k, err)
		}
	}
	if s, err := Open(t.Context(), Options{}, t.TempDir(), 0, zerolog.Nop()); s != nil || err == nil || !strings.Contains(err.Error(), `"" is none; Kind is sqlite, redis or none`) {
		t.Errorf("the zero Kind: got %v, %v", s, err)
	}
}
