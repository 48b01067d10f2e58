// Package conformancetest finds and reads conformance data for tests: cases in
// JSON Lines. The project's own cases are in the testdata of the package that
// they test. Those of other projects' suites are not part of the repository: a
// test finds them in the folder that the environment variable
// ROBOTSPROXY_CONFORMANCE names.
package conformancetest

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// variable is the environment variable that names the folder of the data that is not part of
// the repository.
const variable = "ROBOTSPROXY_CONFORMANCE"

// Folder returns the folder that ROBOTSPROXY_CONFORMANCE names; "" if it is unset.
func Folder() string { return os.Getenv(variable) }

// Files returns the paths of the named files in Folder. If Folder is
// "", it skips the test and names the files.
func Files(t testing.TB, names ...string) []string {
	t.Helper()
	folder := Folder()
	if folder == "" {
		t.Skipf("not run: %s. To run it, set %s to a folder that has these files", strings.Join(names, ", "), variable)
	}
	var paths []string
	for _, name := range names {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("%s names an incomplete folder: %v", variable, err)
		}
		paths = append(paths, path)
	}
	return paths
}

// Rows reads a file of JSON Lines, gzipped if its name ends in .gz. A file
// without rows fails the test.
func Rows[Row any](t testing.TB, path string) []Row {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var in io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	var rows []Row
	for decoder := json.NewDecoder(in); ; {
		var row Row
		err := decoder.Decode(&row)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s, row %d: %v", path, len(rows)+1, err)
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no rows", path)
	}
	return rows
}

// RealSites yields the name and the text of each robots.txt in the archive of
// real sites' files. It needs Folder, as Files does.
func RealSites(t testing.TB) iter.Seq2[string, []byte] {
	t.Helper()
	archive := Files(t, "realworld.tar.gz")[0]
	return func(yield func(name string, text []byte) bool) {
		t.Helper()
		file, err := os.Open(archive)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		unzipped, err := gzip.NewReader(file)
		if err != nil {
			t.Fatalf("%s: %v", archive, err)
		}
		for entries := tar.NewReader(unzipped); ; {
			entry, err := entries.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", archive, err)
			}
			if entry.Typeflag != tar.TypeReg {
				continue
			}
			text, err := io.ReadAll(entries)
			if err != nil {
				t.Fatalf("%s: %v", archive, err)
			}
			if !yield(entry.Name, text) {
				return
			}
		}
	}
}
