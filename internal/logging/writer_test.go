package logging

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

func notice(lost int) []byte { return fmt.Appendf(nil, "%d-lost\n", lost) }

func writeLines(t *testing.T, w *Writer, level zerolog.Level, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if n, err := w.WriteLevel(level, []byte(line+"\n")); n != len(line)+1 || err != nil {
			t.Errorf("writing %s: %d, %v", line, n, err)
		}
	}
}

func TestWriterToFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "log")
		w, err := openWriter(name, nil, notice)
		must(t, err)
		holds := func(name string, want ...string) {
			t.Helper()
			synctest.Wait()
			text, err := os.ReadFile(name)
			must(t, err)
			if got := strings.Fields(string(text)); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the file holds %q, want %q", got, want)
			}
		}
		writeLines(t, w, zerolog.InfoLevel, "first")
		holds(name, "first")
		writeLines(t, w, zerolog.InfoLevel, "second", "third")
		time.Sleep(writeInterval - 1)
		holds(name, "first")
		time.Sleep(time.Nanosecond)
		holds(name, "first", "second", "third")
		writeLines(t, w, zerolog.InfoLevel, "fourth")
		writeLines(t, w, zerolog.WarnLevel, "warning")
		holds(name, "first", "second", "third", "fourth", "warning")
		time.Sleep(writeInterval)
		writeLines(t, w, zerolog.InfoLevel, "later")
		holds(name, "first", "second", "third", "fourth", "warning", "later")

		must(t, os.Rename(name, name+".1"))
		must(t, w.Reopen())
		must(t, w.Reopen()) // a second time does no harm
		writeLines(t, w, zerolog.InfoLevel, "new")
		synctest.Wait()
		time.Sleep(writeInterval)
		holds(name, "new")
		holds(name+".1", "first", "second", "third", "fourth", "warning", "later")
		must(t, os.Rename(filepath.Dir(name), filepath.Dir(name)+"-gone"))
		if w.Reopen() == nil {
			t.Error("a file was opened in a folder that does not exist")
		}
		writeLines(t, w, zerolog.InfoLevel, "last")
		must(t, w.Close())
		holds(filepath.Join(filepath.Dir(name)+"-gone", "log"), "new", "last")
	})
}

// flushSize octets don't wait for the interval to end.
func TestWriterFlushesManyLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		w, err := openWriter("", &out, notice)
		must(t, err)
		writeLines(t, w, zerolog.InfoLevel, "first")
		synctest.Wait()
		line := strings.Repeat("x", 1023)
		for range flushSize / 1024 {
			writeLines(t, w, zerolog.InfoLevel, line)
		}
		synctest.Wait()
		if out.Len() != len("first\n")+flushSize {
			t.Errorf("%d octets are written", out.Len())
		}
		must(t, w.Close())
	})
}

// While nobody reads the log, callers don't wait; a notice stands where lines were lost.
func TestWriterDropsLinesThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		w, err := openWriter("", write, notice)
		must(t, err)
		writeLines(t, w, zerolog.InfoLevel, "first")
		synctest.Wait() // the line is being written
		line := strings.Repeat("x", 1023)
		for range bufferSize/1024 + 7 {
			writeLines(t, w, zerolog.WarnLevel, line)
		}
		go func() {
			synctest.Wait()
			writeLines(t, w, zerolog.InfoLevel, "next")
			w.Close()
			write.Close()
		}()
		text, err := io.ReadAll(read)
		must(t, err)
		want := "first\n" + strings.Repeat(line+"\n", bufferSize/1024) + "7-lost\nnext\n"
		if got := string(text); got != want && got != strings.Replace(want, "7-lost\nnext\n", "8-lost\n", 1) {
			t.Errorf("got %d octets, want %d: %.300q", len(got), len(want), got[max(0, len(got)-300):])
		}
		if n := w.Lost(); n != 7 {
			t.Errorf("%d lines are counted as lost", n)
		}
	})
}

// Close does not wait for a reader that takes nothing.
func TestWriterClosesWithoutReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		w, err := openWriter("", write, notice)
		must(t, err)
		writeLines(t, w, zerolog.InfoLevel, "first")
		must(t, w.Close())
		read.Close()
	})
}

// failing writes two octets and fails while it is full.
type failing struct {
	out  strings.Builder
	full bool
}

func (f *failing) Write(p []byte) (int, error) {
	if f.full {
		n, _ := f.out.Write(p[:2])
		return n, errors.New("full")
	}
	return f.out.Write(p)
}

func TestWriterCountsLinesThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &failing{full: true}
		w, err := openWriter("", out, notice)
		must(t, err)
		for _, full := range []bool{true, true, false, false} {
			out.full = full
			writeLines(t, w, zerolog.WarnLevel, "abcdefg")
			synctest.Wait()
		}
		must(t, w.Close())
		if got, want := out.out.String(), "ab\na\nabcdefg\n2-lost\nabcdefg\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if n := w.Lost(); n != 2 {
			t.Errorf("%d lines are counted as lost", n)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
