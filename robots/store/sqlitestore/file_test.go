package sqlitestore

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"robotsproxy/robots/store"
	"robotsproxy/robots/store/storetest"
)

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
	s := open(t, whole)
	for i := range 200 {
		storetest.Put(t, s, storetest.TextRecord(fmt.Sprintf("https://%d.example", i), fmt.Sprintf("Disallow: /%d", i), storetest.Noon))
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
		"ours, negative":  otherDatabase(t, fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = -5`, 0x726f626f)),
		"schema gone":     append(append(bytes.Clone(good[:100]), make([]byte, 3996)...), good[4096:]...),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "policies.db"), content, 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			s, err := Open(t.Context(), store.Defaults(), dir, zerolog.New(&log))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			rec := storetest.TextRecord("https://example.com", "Disallow: /", storetest.Noon)
			storetest.Put(t, s, rec)
			storetest.Expect(t, s, rec)
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
	s := open(t, dir)
	for i := range 400 {
		storetest.Put(t, s, storetest.TextRecord(fmt.Sprintf("https://%d.example", i), fmt.Sprintf("Disallow: /%d", i), storetest.Noon))
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

	s = open(t, dir)
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
	rec := storetest.TextRecord("https://example.com", "Disallow: /", storetest.Noon)
	storetest.Put(t, s, rec)
	storetest.Expect(t, s, rec)
}

// A file of a newer program is refused, and not one octet of it changes, even where that program
// was killed and left a write-ahead log.
func TestNewerSchemaIsLeftAlone(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %t", killed), func(t *testing.T) {
			dir, newer := t.TempDir(), t.TempDir()
			s := open(t, newer)
			if _, err := database(t, s).Exec(`PRAGMA user_version = 99`); err != nil {
				t.Fatal(err)
			}
			if !killed {
				s.Close()
			}
			before, want := map[string][]byte{}, []string{"policies.db", "policies.db.lock"}
			if killed {
				want = []string{"policies.db", "policies.db-shm", "policies.db-wal", "policies.db.lock"} // -shm is an index of -wal
			}
			for _, part := range []string{"policies.db", "policies.db-wal"} {
				content, err := os.ReadFile(filepath.Join(newer, part))
				if os.IsNotExist(err) && !killed {
					continue
				}
				if err != nil || len(content) == 0 {
					t.Fatalf("%s: %v, nothing is tested", part, err)
				}
				if err := os.WriteFile(filepath.Join(dir, part), content, 0o600); err != nil {
					t.Fatal(err)
				}
				before[part] = content
			}
			_, err := Open(t.Context(), store.Defaults(), dir, zerolog.Nop())
			if err == nil || !strings.Contains(err.Error(), "99") || !strings.Contains(err.Error(), "newer robotsproxy") {
				t.Errorf("got %v", err)
			}
			for part, content := range before {
				if after, err := os.ReadFile(filepath.Join(dir, part)); err != nil || !bytes.Equal(after, content) {
					t.Errorf("%s is no longer what it was: %v", part, err)
				}
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			var files []string
			for _, entry := range entries {
				files = append(files, entry.Name())
			}
			if !slices.Equal(files, want) {
				t.Errorf("there are %q, want %q", files, want)
			}
		})
	}
}

// A file that is deleted, replaced or cut while it is in use does not take with it what
// is kept from then on.
func TestFileThatIsGone(t *testing.T) {
	other := t.TempDir()
	otherRec := storetest.TextRecord("https://other.example", "Disallow: /other", storetest.Noon)
	s := open(t, other)
	storetest.Put(t, s, otherRec)
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
			opened := []*Store{}
			for range 2 { // as of two processes
				s, err := Open(t.Context(), store.Defaults(), dir, zerolog.New(&log))
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				opened = append(opened, s)
			}
			many := func(name string) (recs []store.Record) {
				for i := range 300 {
					recs = append(recs, storetest.TextRecord(fmt.Sprintf("https://%s%d.example", name, i), strings.Repeat(fmt.Sprintln("Disallow: /", i), 50), storetest.Noon))
				}
				return recs
			}
			storetest.Put(t, opened[0], many("before")...)
			lose(t, path)
			storetest.Put(t, opened[0], many("one")...)
			storetest.Put(t, opened[1], many("two")...)
			storetest.Put(t, opened[0], many("three")...)
			for _, s := range opened {
				s.Close()
			}
			last := open(t, dir)
			for _, rec := range slices.Concat(many("one"), many("two"), many("three")) {
				storetest.Expect(t, last, rec)
			}
			if name == "replaced" {
				storetest.Expect(t, last, otherRec)
			}
			expectWhole(t, last)
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
	if _, err := Open(t.Context(), store.Defaults(), filepath.Join(file, "data"), zerolog.Nop()); err == nil {
		t.Error("a data directory within a file")
	}
}
