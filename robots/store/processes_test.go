//go:build unix

package store

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

// childDir is the variable that makes this test binary a process which writes
// records into the store of that directory, and prints the number of each
// that it has been acknowledged.
const childDir, childName, childCount = "STORE_TEST_DIR", "STORE_TEST_NAME", "STORE_TEST_COUNT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := writeRecords(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func childRecord(name string, i int) Record {
	return textRecord(fmt.Sprintf("https://%d.%s.example", i, name), fmt.Sprintf("Disallow: /%d/", i), noon)
}

func writeRecords(dir string) error {
	count, err := strconv.Atoi(os.Getenv(childCount))
	if err != nil {
		return err
	}
	s, err := Open(context.Background(), Defaults(), dir, 0, zerolog.New(os.Stderr))
	if err != nil {
		return err
	}
	defer s.Close()
	for i := range count {
		if err := s.Put(context.Background(), childRecord(os.Getenv(childName), i)); err != nil {
			return err
		}
		fmt.Println(i)
	}
	return nil
}

func child(t *testing.T, binary, dir, name string, count int) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), childDir+"="+dir, childName+"="+name, fmt.Sprintf("%s=%d", childCount, count))
	cmd.Stderr = os.Stderr
	return cmd
}

func thisBinary(t *testing.T) string {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func TestProcessesShareADirectory(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		t.Run(fmt.Sprintf("damaged before %v", damaged), func(t *testing.T) {
			dir := t.TempDir()
			if damaged {
				if err := os.WriteFile(filepath.Join(dir, "policies.db"), []byte(strings.Repeat("no database", 1000)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			const processes, records = 5, 100
			var children []*exec.Cmd
			for p := range processes {
				cmd := child(t, thisBinary(t), dir, strconv.Itoa(p), records)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				children = append(children, cmd)
			}
			for _, cmd := range children {
				if err := cmd.Wait(); err != nil {
					t.Error(err)
				}
			}
			s := openIn(t, dir)
			for p := range processes {
				for i := range records {
					expect(t, s, childRecord(strconv.Itoa(p), i))
				}
			}
			if n := len(setAsideIn(t, dir)); damaged && n != 1 || !damaged && n != 0 {
				t.Errorf("%d files set aside", n)
			}
		})
	}
}

func TestKilledProcessLosesNothing(t *testing.T) {
	dir := t.TempDir()
	for round := range 4 {
		name := fmt.Sprintf("round%d", round)
		cmd := child(t, thisBinary(t), dir, name, 1_000_000)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines, last := bufio.NewScanner(out), -1
		for lines.Scan() {
			if last, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(err)
			}
			if last == 50*(round+1) {
				cmd.Process.Kill()
			}
		}
		io.Copy(io.Discard, out)
		cmd.Wait()
		s := openIn(t, dir)
		for i := range last + 1 {
			expect(t, s, childRecord(name, i))
		}
		if err := examine(t.Context(), s.(*sqliteStore).db.Load()); err != nil {
			t.Error(err)
		}
		s.Close()
		if aside := setAsideIn(t, dir); len(aside) > 0 {
			t.Errorf("set aside: %v", aside)
		}
	}
}

// A file that was made read-only is no reason not to start, and the error of
// writing to it no reason to begin another. A directory of someone else is.
func TestUnwritableFile(t *testing.T) {
	const nobody = 65534
	if os.Getuid() != 0 {
		t.Skip("needs root, to let a process run as someone who may not write")
	}
	base := t.TempDir()
	binary, dir := filepath.Join(base, "child"), filepath.Join(base, "data")
	content, err := os.ReadFile(thisBinary(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, content, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{base, filepath.Dir(base)} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := openIn(t, dir)
	put(t, s, childRecord("owner", 0))
	s.Close()
	refused := func(why string) {
		t.Helper()
		cmd := child(t, binary, dir, "other", 1)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if err := cmd.Run(); err == nil || !strings.Contains(stderr.String(), why) {
			t.Errorf("got %v: %s", err, stderr.String())
		}
		if aside := setAsideIn(t, dir); len(aside) > 0 {
			t.Errorf("set aside: %v", aside)
		}
	}
	refused("opening the store of policies: open " + dir)
	for _, path := range []string{dir, filepath.Join(dir, "policies.db"), filepath.Join(dir, "policies.db.lock")} {
		if err := os.Chown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "policies.db"), 0o400); err != nil {
		t.Fatal(err)
	}
	refused("writing to " + filepath.Join(dir, "policies.db") + ": attempt to write a readonly database")
}

func TestLockIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	hurried, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lock(hurried, path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	time.AfterFunc(30*time.Millisecond, unlock)
	unlock, err = lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
