package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

func TestLogFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "log")
		l, err := openLogFile(name)
		if err != nil {
			t.Fatal(err)
		}
		holds := func(want ...string) {
			t.Helper()
			synctest.Wait()
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Fields(string(text)); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the file holds %q, want %q", got, want)
			}
		}
		write := func(level zerolog.Level, line string) {
			if n, err := l.WriteLevel(level, []byte(line+"\n")); n != len(line)+1 || err != nil {
				t.Errorf("writing %s: %d, %v", line, n, err)
			}
		}
		write(zerolog.InfoLevel, "first")
		holds("first")
		write(zerolog.InfoLevel, "soon")
		write(zerolog.DebugLevel, "sooner")
		time.Sleep(rest - 1)
		holds("first")
		time.Sleep(time.Nanosecond)
		holds("first", "soon", "sooner")
		write(zerolog.InfoLevel, "again")
		write(zerolog.WarnLevel, "warning")
		holds("first", "soon", "sooner", "again", "warning")
		time.Sleep(rest)
		write(zerolog.InfoLevel, "later")
		holds("first", "soon", "sooner", "again", "warning", "later")
		write(zerolog.InfoLevel, "last")
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		holds("first", "soon", "sooner", "again", "warning", "later", "last")
	})
}

// What comes too fast for a rest is written before it is over, and a failure is
// told to whoever writes next.
func TestLogFileInNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "log")
		l, err := openLogFile(name)
		if err != nil {
			t.Fatal(err)
		}
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for range 1 + mostWaiting/len(line) {
			l.WriteLevel(zerolog.InfoLevel, line)
		}
		if info, err := os.Stat(name); err != nil || info.Size() != int64(mostWaiting+len(line)) {
			t.Errorf("it is not all there: %v, %v", info, err)
		}
		l.WriteLevel(zerolog.InfoLevel, line)
		l.file.Close()
		time.Sleep(rest)
		synctest.Wait()
		if _, err := l.WriteLevel(zerolog.InfoLevel, line); err == nil {
			t.Error("nobody is told that lines were lost")
		}
		if l.Close() == nil {
			t.Error("nor is who closes it")
		}
	})
}

// A new log is for its owner alone; one that is there keeps its mode.
func TestLogFileMode(t *testing.T) {
	folder := t.TempDir()
	there := filepath.Join(folder, "there")
	must(t, os.WriteFile(there, nil, 0o640))
	must(t, os.Chmod(there, 0o640))
	for name, want := range map[string]os.FileMode{filepath.Join(folder, "new"): 0o600, there: 0o640} {
		l, err := openLogFile(name)
		must(t, err)
		must(t, l.Close())
		info, err := os.Stat(name)
		must(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}
