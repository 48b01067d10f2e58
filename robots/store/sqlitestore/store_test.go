package sqlitestore

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/robots/store"
	"robotsproxy/robots/store/sqlitestore/dbfile"
	"robotsproxy/robots/store/storetest"
)

// open opens the store in a folder, until the end of the test.
func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), store.Defaults(), dir, zerolog.New(zerolog.NewTestWriter(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// database returns what a store has open.
func database(t testing.TB, s *Store) (db *dbfile.Database) {
	t.Helper()
	s.file.Read(t.Context(), func(open *dbfile.Database) error {
		db = open
		return nil
	})
	return db
}

// expectWhole fails if SQLite finds the file of a store damaged.
func expectWhole(t testing.TB, s *Store) {
	t.Helper()
	var verdict string
	if err := database(t, s).QueryRow(`PRAGMA quick_check(1)`).Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("the file is damaged: %q, %v", verdict, err)
	}
}

func TestStore(t *testing.T) {
	storetest.TestLasting(t, func(t *testing.T) store.Store {
		s, err := Open(t.Context(), storetest.Options(), t.TempDir(), zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
}

func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made ?#%41 for it")
	rec := storetest.TextRecord("https://example.com", "Disallow: /", storetest.Noon)
	s := open(t, dir)
	storetest.Put(t, s, rec)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	storetest.Expect(t, open(t, dir), rec)

	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(file.Name(), "policies.db") || info.Mode().Perm() != 0o600 {
			t.Errorf("%s with mode %v", file.Name(), info.Mode())
		}
	}
}

func TestTextsAreKeptOnceAndVersionsAll(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	const one, two = "User-agent: *\nDisallow: /one\n", "User-agent: *\nDisallow: /two\n"
	day := 24 * time.Hour
	for i := range 10 {
		storetest.Put(t, s, storetest.TextRecord(fmt.Sprintf("https://%d.example", i), one, storetest.Noon))
	}
	storetest.Put(t, s,
		storetest.TextRecord("https://0.example", two, storetest.Noon.Add(day)),
		store.Record{Origin: "https://0.example", Status: 404, FetchedAt: storetest.Noon.Add(2 * day)},
		storetest.FailingRecord(store.Record{Origin: "https://0.example", Status: 404, FetchedAt: storetest.Noon.Add(2 * day)}, storetest.Noon.Add(3*day)),
		storetest.TextRecord("https://0.example", one, storetest.Noon.Add(4*day)),
	)

	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, fileName)+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	storetest.Put(t, s, storetest.FailingRecord(store.Record{Origin: "https://never.example"}, storetest.Noon))
	var versions int
	if err := db.QueryRow(`SELECT count(*) FROM versions WHERE origin = 'https://never.example'`).Scan(&versions); err != nil || versions != 0 {
		t.Errorf("%d versions (%v) of what never answered", versions, err)
	}
	var texts int
	if err := db.QueryRow(`SELECT count(*) FROM texts`).Scan(&texts); err != nil || texts != 2 {
		t.Errorf("%d texts (%v), want 2", texts, err)
	}
	rows, err := db.Query(`
SELECT coalesce(substr(sha256, 1, 4), '-'), status, (first_seen - ?1)/86400000, (last_seen - ?1)/86400000
FROM versions LEFT JOIN texts ON id = text_id WHERE origin = 'https://0.example' ORDER BY first_seen`, storetest.Noon.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var sum string
		var status, first, last int
		if err := rows.Scan(&sum, &status, &first, &last); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %d %d-%d", sum, status, first, last))
	}
	want := fmt.Sprintf("%s 200 0-4, %s 200 1-1, - 404 2-2", storetest.TextRecord("", one, storetest.Noon).SHA256[:4], storetest.TextRecord("", two, storetest.Noon).SHA256[:4])
	if strings.Join(got, ", ") != want {
		t.Errorf("versions %q, want %q", got, want)
	}
}

// A text that can no longer be read is kept again when its origin serves it.
func TestBrokenTextIsReplaced(t *testing.T) {
	s := open(t, t.TempDir())
	rec := storetest.TextRecord("https://example.com", strings.Repeat("Disallow: /private/\n", 100), storetest.Noon)
	storetest.Put(t, s, rec)
	db := database(t, s)
	for _, damage := range []string{"zeroblob(10)", "x''", "substr(gzip, 1, 20)", "substr(gzip, 1, length(gzip) - 8) || zeroblob(8)"} {
		if _, err := db.Exec(`UPDATE texts SET gzip = CAST(` + damage + ` AS BLOB)`); err != nil {
			t.Fatal(err)
		}
		if got, _, err := s.Get(t.Context(), rec.Origin); err == nil {
			t.Errorf("%s: got %+v", damage, got)
		}
		storetest.Put(t, s, rec)
		storetest.Expect(t, s, rec)
	}
	var texts int
	if err := db.QueryRow(`SELECT count(*) FROM texts`).Scan(&texts); err != nil || texts != 1 {
		t.Errorf("%d texts (%v), want 1", texts, err)
	}
}

func BenchmarkGet(b *testing.B) {
	s := open(b, b.TempDir())
	text := strings.Repeat("Disallow: /some/path\n", 150)
	for i := range 1000 {
		storetest.Put(b, s, storetest.TextRecord(fmt.Sprintf("https://%d.example", i), fmt.Sprintf("%s/%d\n", text, i), storetest.Noon))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		if _, ok, err := s.Get(b.Context(), fmt.Sprintf("https://%d.example", i%1000)); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	storetest.BenchmarkPut(b, open(b, b.TempDir()))
}
