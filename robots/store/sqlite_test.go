package store

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made ?#%41 for it")
	rec := textRecord("https://example.com", "Disallow: /", noon)
	s := openIn(t, dir)
	put(t, s, rec)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	expect(t, openIn(t, dir), rec)

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
	s := openIn(t, dir)
	const one, two = "User-agent: *\nDisallow: /one\n", "User-agent: *\nDisallow: /two\n"
	day := 24 * time.Hour
	for i := range 10 {
		put(t, s, textRecord(fmt.Sprintf("https://%d.example", i), one, noon))
	}
	put(t, s,
		textRecord("https://0.example", two, noon.Add(day)),
		Record{Origin: "https://0.example", Status: 404, FetchedAt: noon.Add(2 * day)},
		failingRecord(Record{Origin: "https://0.example", Status: 404, FetchedAt: noon.Add(2 * day)}, noon.Add(3*day)),
		textRecord("https://0.example", one, noon.Add(4*day)),
	)

	db, err := sql.Open("sqlite", dataSource(filepath.Join(dir, "policies.db")))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	put(t, s, failingRecord(Record{Origin: "https://never.example"}, noon))
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
FROM versions LEFT JOIN texts ON id = text_id WHERE origin = 'https://0.example' ORDER BY first_seen`, noon.UnixMilli())
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
	want := fmt.Sprintf("%s 200 0-4, %s 200 1-1, - 404 2-2", textRecord("", one, noon).SHA256[:4], textRecord("", two, noon).SHA256[:4])
	if strings.Join(got, ", ") != want {
		t.Errorf("versions %q, want %q", got, want)
	}
}

// A text that can no longer be read is kept again when its origin serves it.
func TestBrokenTextIsReplaced(t *testing.T) {
	s := openIn(t, t.TempDir())
	rec := textRecord("https://example.com", strings.Repeat("Disallow: /private/\n", 100), noon)
	put(t, s, rec)
	db := s.(*sqliteStore).db.Load()
	for _, damage := range []string{"zeroblob(10)", "x''", "substr(gzip, 1, 20)", "substr(gzip, 1, length(gzip) - 8) || zeroblob(8)"} {
		if _, err := db.Exec(`UPDATE texts SET gzip = CAST(` + damage + ` AS BLOB)`); err != nil {
			t.Fatal(err)
		}
		if got, _, err := s.Get(t.Context(), rec.Origin); err == nil {
			t.Errorf("%s: got %+v", damage, got)
		}
		put(t, s, rec)
		expect(t, s, rec)
	}
	var texts int
	if err := db.QueryRow(`SELECT count(*) FROM texts`).Scan(&texts); err != nil || texts != 1 {
		t.Errorf("%d texts (%v), want 1", texts, err)
	}
}

// setAside returns the files in dir that were.
func setAsideIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "policies.db.corrupt-*Z"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// otherDatabase is the file of another program.
func otherDatabase(t *testing.T, statements string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(statements); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestDamagedFileIsSetAside(t *testing.T) {
	whole := t.TempDir()
	s := openIn(t, whole)
	for i := range 200 {
		put(t, s, textRecord(fmt.Sprintf("https://%d.example", i), fmt.Sprintf("Disallow: /%d", i), noon))
	}
	s.Close()
	good, err := os.ReadFile(filepath.Join(whole, "policies.db"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"no database":     bytes.Repeat([]byte("policies\n"), 1000),
		"cut short":       good[:len(good)/2],
		"a few octets":    []byte("SQLite"),
		"another program": otherDatabase(t, `CREATE TABLE houses (street TEXT)`),
		"alike":           otherDatabase(t, `CREATE TABLE policies (house TEXT)`),
		"with a version":  otherDatabase(t, `CREATE TABLE houses (street TEXT); PRAGMA user_version = 1`),
		"a newer version": otherDatabase(t, `CREATE TABLE houses (street TEXT); PRAGMA user_version = 99`),
		"negative":        otherDatabase(t, `PRAGMA user_version = -5`),
		"ours, negative":  otherDatabase(t, fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = -5`, applicationID)),
		"schema gone":     append(append(bytes.Clone(good[:100]), make([]byte, 3996)...), good[4096:]...),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "policies.db"), content, 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			s, err := Open(t.Context(), Defaults(), dir, 0, zerolog.New(&log))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			rec := textRecord("https://example.com", "Disallow: /", noon)
			put(t, s, rec)
			expect(t, s, rec)
			aside := setAsideIn(t, dir)
			if len(aside) != 1 {
				t.Fatalf("set aside: %v", aside)
			}
			kept, err := os.ReadFile(aside[0])
			if err != nil {
				t.Fatal(err)
			}
			if bytes.HasPrefix(content, []byte("SQLite format")) && len(kept) == len(content) {
				copy(kept[18:28], content[18:28]) // SQLite notes in its header that it was opened with a write-ahead log
				copy(kept[92:100], content[92:100])
			}
			if !bytes.Equal(kept, content) {
				t.Error("what was set aside is no longer what it was")
			}
			if !strings.Contains(log.String(), aside[0]) || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("logged %q", log.String())
			}
		})
	}
}

func TestDamageFoundLater(t *testing.T) {
	dir := t.TempDir()
	s := openIn(t, dir)
	for i := range 400 {
		put(t, s, textRecord(fmt.Sprintf("https://%d.example", i), fmt.Sprintf("Disallow: /%d", i), noon))
	}
	s.Close()
	path := filepath.Join(dir, "policies.db")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(content[len(content)/10:], bytes.Repeat([]byte{0xa5}, len(content)*8/10))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}

	s = openIn(t, dir)
	failures := 0
	for i := range 400 {
		if _, _, err := s.Get(t.Context(), fmt.Sprintf("https://%d.example", i)); err != nil {
			failures++
		}
	}
	if failures == 0 && len(setAsideIn(t, dir)) == 0 {
		t.Fatal("the damage was not found, so nothing is tested")
	}
	if failures > 1 || len(setAsideIn(t, dir)) != 1 {
		t.Errorf("%d failures, set aside %v", failures, setAsideIn(t, dir))
	}
	rec := textRecord("https://example.com", "Disallow: /", noon)
	put(t, s, rec)
	expect(t, s, rec)
}

func TestNewerSchemaIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	s := openIn(t, dir)
	if _, err := s.(*sqliteStore).db.Load().Exec(`PRAGMA user_version = 99`); err != nil {
		t.Fatal(err)
	}
	s.Close()
	_, err := Open(t.Context(), Defaults(), dir, 0, zerolog.Nop())
	if err == nil || !strings.Contains(err.Error(), "99") || !strings.Contains(err.Error(), "newer robotsproxy") {
		t.Errorf("got %v", err)
	}
	if aside := setAsideIn(t, dir); len(aside) > 0 {
		t.Errorf("set aside: %v", aside)
	}
}

// A file that is deleted, replaced or cut while it is in use does not take with it what
// is kept from then on.
func TestFileThatIsGone(t *testing.T) {
	other := t.TempDir()
	otherRec := textRecord("https://other.example", "Disallow: /other", noon)
	s := openIn(t, other)
	put(t, s, otherRec)
	s.Close()
	remove := func(parts ...string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			for _, part := range parts {
				if err := os.Remove(path + part); err != nil {
					t.Error(err)
				}
			}
		}
	}
	for name, lose := range map[string]func(*testing.T, string){
		"deleted with all that belongs to it": remove("", "-wal", "-shm"),
		"deleted alone":                       remove(""),
		"the folder deleted":                  func(t *testing.T, path string) { os.RemoveAll(filepath.Dir(path)); os.Mkdir(filepath.Dir(path), 0o700) },
		"replaced": func(t *testing.T, path string) {
			content, err := os.ReadFile(filepath.Join(other, "policies.db"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path+".new", content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		},
		"cut to nothing": func(t *testing.T, path string) {
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
		},
		"replaced by no database": func(t *testing.T, path string) {
			if err := os.WriteFile(path+".new", []byte("no database"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			path := filepath.Join(dir, "policies.db")
			var log bytes.Buffer
			opened := []Store{}
			for range 2 { // as of two processes
				s, err := Open(t.Context(), Defaults(), dir, 0, zerolog.New(&log))
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				opened = append(opened, s)
			}
			many := func(name string) (recs []Record) {
				for i := range 300 {
					recs = append(recs, textRecord(fmt.Sprintf("https://%s%d.example", name, i), strings.Repeat(fmt.Sprintln("Disallow: /", i), 50), noon))
				}
				return recs
			}
			put(t, opened[0], many("before")...)
			lose(t, path)
			put(t, opened[0], many("one")...)
			put(t, opened[1], many("two")...)
			put(t, opened[0], many("three")...)
			for _, s := range opened {
				s.Close()
			}
			last := openIn(t, dir)
			for _, rec := range slices.Concat(many("one"), many("two"), many("three")) {
				expect(t, last, rec)
			}
			if name == "replaced" {
				expect(t, last, otherRec)
			}
			if err := examine(t.Context(), last.(*sqliteStore).db.Load().DB); err != nil {
				t.Error(err)
			}
			if n := strings.Count(log.String(), "deleted, replaced or cut"); n != 2 {
				t.Errorf("logged %s", log.String())
			}
			if n := len(setAsideIn(t, dir)); (n == 1) != (name == "replaced by no database") {
				t.Errorf("%d set aside", n)
			}
		})
	}
}

func TestDirectoryThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Defaults(), filepath.Join(file, "data"), 0, zerolog.Nop()); err == nil {
		t.Error("a data directory within a file")
	}
}

func BenchmarkSQLiteGet(b *testing.B) {
	s := openIn(b, b.TempDir())
	text := strings.Repeat("Disallow: /some/path\n", 150)
	for i := range 1000 {
		put(b, s, textRecord(fmt.Sprintf("https://%d.example", i), fmt.Sprintf("%s/%d\n", text, i), noon))
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

func BenchmarkSQLitePut(b *testing.B) {
	s := openIn(b, b.TempDir())
	rec := textRecord("", strings.Repeat("Disallow: /some/path\n", 150), noon)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		rec.Origin = fmt.Sprintf("https://%d.example", i)
		put(b, s, rec)
	}
}
