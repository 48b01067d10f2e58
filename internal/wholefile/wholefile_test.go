package wholefile_test

import (
	"os"
	"path/filepath"
	"testing"

	"robotsproxy/internal/wholefile"
)

// What was there stays until Commit, and after Discard. Nothing is left beside it.
func TestFileIsThereWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write := func(text string, end func(*wholefile.File)) {
		t.Helper()
		f, err := wholefile.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Discard()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		end(f)
	}
	holds := func(want string) {
		t.Helper()
		if got, _ := os.ReadFile(path); string(got) != want {
			t.Errorf("the file has %q, want %q", got, want)
		}
		entries, _ := os.ReadDir(filepath.Dir(path))
		if others := len(entries) - min(len(want), 1); others != 0 {
			t.Errorf("the folder has %v", entries)
		}
	}
	commit := func(f *wholefile.File) {
		if err := f.Commit(); err != nil {
			t.Error(err)
		}
	}
	write("one", (*wholefile.File).Discard)
	holds("")
	write("two", commit)
	holds("two")
	if err := wholefile.Check(path); err != nil {
		t.Error(err)
	}
	write("three", func(*wholefile.File) {})
	holds("two")
	write("four", commit)
	holds("four")
}

func TestCheckRefusesWhatIsNoRegularFile(t *testing.T) {
	folder := t.TempDir()
	link := filepath.Join(folder, "link")
	if err := os.Symlink("elsewhere", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", folder, link, os.DevNull, filepath.Join(folder, "no", "folder", "file")} {
		if wholefile.Check(path) == nil {
			t.Errorf("%q passes", path)
		}
	}
}
