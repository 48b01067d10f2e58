package cli

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

func told(lost int) []byte { return fmt.Appendf(nil, "%d-lost\n", lost) }

func writeLines(t *testing.T, l *logWriter, level zerolog.Level, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if n, err := l.WriteLevel(level, []byte(line+"\n")); n != len(line)+1 || err != nil {
			t.Errorf("writing %s: %d, %v", line, n, err)
		}
	}
}

func TestLogFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "log")
		l, err := openLogWriter(name, nil, told)
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
		writeLines(t, l, zerolog.InfoLevel, "first")
		holds(name, "first")
		writeLines(t, l, zerolog.InfoLevel, "soon", "sooner")
		time.Sleep(logWriteInterval - 1)
		holds(name, "first")
		time.Sleep(time.Nanosecond)
		holds(name, "first", "soon", "sooner")
		writeLines(t, l, zerolog.InfoLevel, "again")
		writeLines(t, l, zerolog.WarnLevel, "warning")
		holds(name, "first", "soon", "sooner", "again", "warning")
		time.Sleep(logWriteInterval)
		writeLines(t, l, zerolog.InfoLevel, "later")
		holds(name, "first", "soon", "sooner", "again", "warning", "later")

		must(t, os.Rename(name, name+".1"))
		must(t, l.Reopen())
		must(t, l.Reopen()) // once more does no harm
		writeLines(t, l, zerolog.InfoLevel, "new")
		synctest.Wait()
		time.Sleep(logWriteInterval)
		holds(name, "new")
		holds(name+".1", "first", "soon", "sooner", "again", "warning", "later")
		must(t, os.Rename(filepath.Dir(name), filepath.Dir(name)+"-gone"))
		if l.Reopen() == nil {
			t.Error("a file in no folder was opened")
		}
		writeLines(t, l, zerolog.InfoLevel, "last")
		must(t, l.Close())
		holds(filepath.Join(filepath.Dir(name)+"-gone", "log"), "new", "last")
	})
}

// What comes too fast for a rest does not wait until it is over.
func TestLogInHaste(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		l, err := openLogWriter("", &out, told)
		must(t, err)
		writeLines(t, l, zerolog.InfoLevel, "first")
		synctest.Wait()
		line := strings.Repeat("x", 1023)
		for range logFlushSize / 1024 {
			writeLines(t, l, zerolog.InfoLevel, line)
		}
		synctest.Wait()
		if out.Len() != len("first\n")+logFlushSize {
			t.Errorf("%d octets are there", out.Len())
		}
		must(t, l.Close())
	})
}

// Where nobody reads, who logs does not wait, and what was lost is told in its place.
func TestLogThatIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		l, err := openLogWriter("", write, told)
		must(t, err)
		writeLines(t, l, zerolog.InfoLevel, "first")
		synctest.Wait() // it is being written
		line := strings.Repeat("x", 1023)
		for range logBufferSize/1024 + 7 {
			writeLines(t, l, zerolog.WarnLevel, line)
		}
		go func() {
			synctest.Wait()
			writeLines(t, l, zerolog.InfoLevel, "next")
			l.Close()
			write.Close()
		}()
		text, err := io.ReadAll(read)
		must(t, err)
		want := "first\n" + strings.Repeat(line+"\n", logBufferSize/1024) + "7-lost\nnext\n"
		if got := string(text); got != want && got != strings.Replace(want, "7-lost\nnext\n", "8-lost\n", 1) {
			t.Errorf("got %d octets, want %d: %.300q", len(got), len(want), got[max(0, len(got)-300):])
		}
		if n := l.dropped.Load(); n != 7 {
			t.Errorf("%d lines are counted", n)
		}
	})
}

// At the end a reader that takes nothing is not waited for.
func TestLogEndsWithoutAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		l, err := openLogWriter("", write, told)
		must(t, err)
		writeLines(t, l, zerolog.InfoLevel, "first")
		must(t, l.Close())
		read.Close()
	})
}

// failing takes two octets, and fails.
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

func TestLogThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &failing{full: true}
		l, err := openLogWriter("", out, told)
		must(t, err)
		for _, full := range []bool{true, true, false, false} {
			out.full = full
			writeLines(t, l, zerolog.WarnLevel, "abcdefg")
			synctest.Wait()
		}
		must(t, l.Close())
		if got, want := out.out.String(), "ab\na\nabcdefg\n2-lost\nabcdefg\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if n := l.dropped.Load(); n != 2 {
			t.Errorf("%d lines are counted", n)
		}
	})
}
