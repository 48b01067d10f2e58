package store

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

const day = 24 * time.Hour

func expectVersions(t testing.TB, s Store, origin string, want ...Version) {
	t.Helper()
	got, err := s.Versions(t.Context(), origin)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %+v\nwant %+v", origin, got, want)
	}
}

// versionOf is the record's answer, seen from first until its fetch.
func versionOf(rec Record, first time.Time) Version {
	return Version{SHA256: rec.SHA256, Status: rec.Status, Body: rec.Body, FirstSeen: first, LastSeen: rec.FetchedAt}
}

// Texts go with the last version that they were.
func TestTextsOfDroppedVersionsGo(t *testing.T) {
	s := openIn(t, t.TempDir())
	for i := range maxVersions + 20 {
		put(t, s, textRecord("https://example.com", fmt.Sprint(i), noon.Add(time.Duration(i)*time.Minute)))
	}
	if n := count(t, s, "texts"); n != maxVersions {
		t.Errorf("%d texts", n)
	}
}

func TestOldIsSweptOut(t *testing.T) {
	dir, now := t.TempDir(), noon
	opts := Defaults()
	opts.Now = func() time.Time { return now }
	open := func() Store {
		s, err := Open(t.Context(), opts, dir, 0, zerolog.New(zerolog.NewTestWriter(t)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := open()
	const old = 3 * sweepLength
	name := func(i int) string { return fmt.Sprintf("https://%04d.example", i) }
	text := func(i int) string { return strings.Repeat(fmt.Sprintf("Disallow: /%d/%d\n", i, i*i), 200) }
	for i := range old {
		put(t, s, textRecord(name(i), text(i), now)) // nobody asks for them again
	}
	put(t, s, failingRecord(Record{Origin: "https://dead.example"}, now))
	changed := textRecord("https://changed.example", "before", now)
	silent := textRecord("https://silent.example", "the last thing it said", now)
	put(t, s, changed, silent)
	full := fileSize(t, s)

	now = noon.Add(200 * day)
	changed = textRecord(changed.Origin, "after", now)
	put(t, s, changed)
	now = noon.Add(opts.History + time.Hour)
	silent = failingRecord(silent, now) // tried all the time
	put(t, s, silent)
	round := func() {
		for range (old/sweepLength + 2) * sweepEvery {
			put(t, s, changed)
		}
	}
	round()
	expect(t, s, changed)
	expectVersions(t, s, changed.Origin, versionOf(changed, changed.FetchedAt))
	expect(t, s, silent)
	expectVersions(t, s, silent.Origin, versionOf(silent, noon))
	for _, table := range []string{"policies", "versions", "texts"} {
		if n := count(t, s, table); n != 2 {
			t.Errorf("%d %s are left", n, table)
		}
	}
	s.Close() // which writes all to the file
	s = open()
	if size := fileSize(t, s); size > full/4 {
		t.Errorf("the file has %d octets of %d", size, full)
	}

	// A process that writes little does its part too.
	for i := range old {
		put(t, s, textRecord(name(i), text(i), now))
	}
	now = now.Add(opts.History + time.Hour)
	for range old/sweepLength + 2 {
		s.Close()
		s = open()
		put(t, s, textRecord("https://new.example", "new", now))
	}
	if n := count(t, s, "policies"); n != 1 {
		t.Errorf("%d policies are left", n)
	}
}

func TestHistoryWithoutEnd(t *testing.T) {
	now := noon
	s, err := Open(t.Context(), Options{Kind: SQLite, Now: func() time.Time { return now }}, t.TempDir(), 0, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rec := textRecord("https://example.com", "old", noon)
	put(t, s, rec)
	now = noon.Add(10000 * day)
	for i := range 3 * sweepEvery {
		put(t, s, textRecord(fmt.Sprintf("https://%d.example", i), "new", now))
	}
	expect(t, s, rec)
	expectVersions(t, s, rec.Origin, versionOf(rec, noon))
}

func TestOldSchemaIsMigrated(t *testing.T) {
	old, err := os.ReadFile(filepath.Join("testdata", "schema1.sql"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "policies.db"), otherDatabase(t, string(old)), 0o600); err != nil {
		t.Fatal(err)
	}
	const was, is = "User-agent: *\nDisallow: /old/\n", "User-agent: *\nDisallow: /new/\n"
	one, down := textRecord("https://one.example", is, noon), textRecord("https://down.example", is, noon)
	two := Record{Origin: "https://two.example", Status: 404, FetchedAt: noon, ExpiresAt: noon.Add(day)}
	for range 2 { // the second time there is nothing to do
		s := openIn(t, dir)
		expect(t, s, one)
		expect(t, s, failingRecord(down, noon.Add(day/2)))
		expect(t, s, two)
		expect(t, s, failingRecord(Record{Origin: "https://never.example"}, noon))
		before := textRecord(one.Origin, was, noon.Add(-day))
		expectVersions(t, s, one.Origin, versionOf(one, noon), versionOf(before, noon.Add(-9*day)))
		expectVersions(t, s, down.Origin, versionOf(down, noon))
		expectVersions(t, s, two.Origin, versionOf(two, noon.Add(-day)))
		expectVersions(t, s, "https://never.example")
		s.Close()
	}
	s := openIn(t, dir)
	put(t, s, textRecord(one.Origin, was, noon.Add(day)))
	expect(t, s, textRecord(one.Origin, was, noon.Add(day)))
	if aside := setAsideIn(t, dir); len(aside) > 0 {
		t.Errorf("set aside: %v", aside)
	}
}

func count(t testing.TB, s Store, table string) (n int) {
	t.Helper()
	if err := s.(*sqliteStore).db.Load().QueryRow(`SELECT count(*) FROM ` + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// fileSize is that of the database when all that is written is in it.
func fileSize(t testing.TB, s Store) int64 {
	t.Helper()
	if _, err := s.(*sqliteStore).db.Load().Exec(`PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(s.(*sqliteStore).path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
