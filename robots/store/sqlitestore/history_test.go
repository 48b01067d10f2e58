package sqlitestore

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/robots/store"
	"robotsproxy/robots/store/storetest"
)

const day = 24 * time.Hour

// Texts go with the last version that they were.
func TestTextsOfDroppedVersionsGo(t *testing.T) {
	s := open(t, t.TempDir())
	for i := range store.MaxVersions + 20 {
		storetest.Put(t, s, storetest.TextRecord("https://example.com", fmt.Sprint(i), storetest.Noon.Add(time.Duration(i)*time.Minute)))
	}
	if n := count(t, s, "texts"); n != store.MaxVersions {
		t.Errorf("%d texts", n)
	}
}

func TestOldIsSweptOut(t *testing.T) {
	dir, now := t.TempDir(), storetest.Noon
	opts := store.Defaults()
	opts.Now = func() time.Time { return now }
	open := func() *Store {
		s, err := Open(t.Context(), opts, dir, zerolog.New(zerolog.NewTestWriter(t)))
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
		storetest.Put(t, s, storetest.TextRecord(name(i), text(i), now)) // nobody asks for them again
	}
	storetest.Put(t, s, storetest.FailingRecord(store.Record{Origin: "https://dead.example"}, now))
	changed := storetest.TextRecord("https://changed.example", "before", now)
	silent := storetest.TextRecord("https://silent.example", "the last thing it said", now)
	storetest.Put(t, s, changed, silent)
	full := fileSize(t, s)

	now = storetest.Noon.Add(200 * day)
	changed = storetest.TextRecord(changed.Origin, "after", now)
	storetest.Put(t, s, changed)
	now = storetest.Noon.Add(opts.History + time.Hour)
	silent = storetest.FailingRecord(silent, now) // tried all the time
	storetest.Put(t, s, silent)
	round := func() {
		for range (old/sweepLength + 2) * sweepEvery {
			storetest.Put(t, s, changed)
		}
	}
	round()
	storetest.Expect(t, s, changed)
	storetest.ExpectVersions(t, s, changed.Origin, storetest.VersionOf(changed, changed.FetchedAt))
	storetest.Expect(t, s, silent)
	storetest.ExpectVersions(t, s, silent.Origin, storetest.VersionOf(silent, storetest.Noon))
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
		storetest.Put(t, s, storetest.TextRecord(name(i), text(i), now))
	}
	now = now.Add(opts.History + time.Hour)
	for range old/sweepLength + 2 {
		s.Close()
		s = open()
		storetest.Put(t, s, storetest.TextRecord("https://new.example", "new", now))
	}
	if n := count(t, s, "policies"); n != 1 {
		t.Errorf("%d policies are left", n)
	}
}

func TestHistoryWithoutEnd(t *testing.T) {
	now := storetest.Noon
	s, err := Open(t.Context(), store.Options{Now: func() time.Time { return now }}, t.TempDir(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rec := storetest.TextRecord("https://example.com", "old", storetest.Noon)
	storetest.Put(t, s, rec)
	now = storetest.Noon.Add(10000 * day)
	for i := range 3 * sweepEvery {
		storetest.Put(t, s, storetest.TextRecord(fmt.Sprintf("https://%d.example", i), "new", now))
	}
	storetest.Expect(t, s, rec)
	storetest.ExpectVersions(t, s, rec.Origin, storetest.VersionOf(rec, storetest.Noon))
}

// folderOf returns a data directory with the database that a file in testdata describes, after
// further statements.
func folderOf(t *testing.T, name string, further ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "policies.db"), otherDatabase(t, string(text)+strings.Join(further, ";")), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOldSchemaIsMigrated(t *testing.T) {
	testOldSchema(t, folderOf(t, "schema1.sql"))
}

// The very first programs did not mark their files as theirs.
func TestUnmarkedFileIsMigrated(t *testing.T) {
	testOldSchema(t, folderOf(t, "schema1.sql", "PRAGMA application_id = 0"))
}

// testOldSchema wants what schema1.sql has to be in a data directory.
func testOldSchema(t *testing.T, dir string) {
	const was, is = "User-agent: *\nDisallow: /old/\n", "User-agent: *\nDisallow: /new/\n"
	one, down := storetest.TextRecord("https://one.example", is, storetest.Noon), storetest.TextRecord("https://down.example", is, storetest.Noon)
	two := store.Record{Origin: "https://two.example", Status: 404, FetchedAt: storetest.Noon, ExpiresAt: storetest.Noon.Add(day)}
	for range 2 { // the second time there is nothing to do
		s := open(t, dir)
		storetest.Expect(t, s, one)
		storetest.Expect(t, s, storetest.FailingRecord(down, storetest.Noon.Add(day/2)))
		storetest.Expect(t, s, two)
		storetest.Expect(t, s, storetest.FailingRecord(store.Record{Origin: "https://never.example"}, storetest.Noon))
		before := storetest.TextRecord(one.Origin, was, storetest.Noon.Add(-day))
		storetest.ExpectVersions(t, s, one.Origin, storetest.VersionOf(one, storetest.Noon), storetest.VersionOf(before, storetest.Noon.Add(-9*day)))
		storetest.ExpectVersions(t, s, down.Origin, storetest.VersionOf(down, storetest.Noon))
		storetest.ExpectVersions(t, s, two.Origin, storetest.VersionOf(two, storetest.Noon.Add(-day)))
		storetest.ExpectVersions(t, s, "https://never.example")
		s.Close()
	}
	s := open(t, dir)
	storetest.Put(t, s, storetest.TextRecord(one.Origin, was, storetest.Noon.Add(day)))
	storetest.Expect(t, s, storetest.TextRecord(one.Origin, was, storetest.Noon.Add(day)))
	if aside := setAsideIn(t, dir); len(aside) > 0 {
		t.Errorf("set aside: %v", aside)
	}
}

// A file of a schema without networks keeps all that it has, and no network is known of its
// origins.
func TestSchemaWithoutNetworksIsMigrated(t *testing.T) {
	dir := folderOf(t, "schema3.sql")
	one := storetest.TextRecord("https://one.example", "User-agent: *\nDisallow: /new/\n", storetest.Noon)
	one.UserAgent = "ExampleBot/2.0"
	down := storetest.FailingRecord(store.Record{Origin: "https://down.example"}, storetest.Noon)
	readOnly := OpenReadOnly(t.Context(), dir, store.NewMemory(0)) // which cannot migrate it, and so knows nothing
	defer readOnly.Close()
	if rec, ok, err := readOnly.Get(t.Context(), one.Origin); ok || err != nil {
		t.Errorf("read-only: got %+v, %v", rec, err)
	}
	s := open(t, dir)
	storetest.Expect(t, s, one)
	storetest.Expect(t, s, down)
	storetest.ExpectVersions(t, s, one.Origin, storetest.VersionOf(one, storetest.Noon))
	one.CDN, down.CDN = "cloudflare", "cloudflare"
	storetest.Put(t, s, one, down)
	s.Close()
	s = open(t, dir)
	storetest.Expect(t, s, one)
	storetest.Expect(t, s, down)
	if aside := setAsideIn(t, dir); len(aside) > 0 {
		t.Errorf("set aside: %v", aside)
	}
}

func count(t testing.TB, s *Store, table string) (n int) {
	t.Helper()
	if err := database(t, s).QueryRow(`SELECT count(*) FROM ` + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// fileSize is that of the database when all that is written is in it.
func fileSize(t testing.TB, s *Store) int64 {
	t.Helper()
	if _, err := database(t, s).Exec(`PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		t.Fatal(err)
	}
	return onDisk(t, s)
}
