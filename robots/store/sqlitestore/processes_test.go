//go:build unix

package sqlitestore

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"robotsproxy/robots/store"
	"robotsproxy/robots/store/storetest"
)

// childDir is the variable that makes this test binary a process which writes
// records into the store of that directory, and prints the number of each
// that it has been acknowledged.
const childDir, childName, childCount = "STORE_TEST_DIR", "STORE_TEST_NAME", "STORE_TEST_COUNT"

// childRoom is the variable that has it do so until a file would have more
// octets than that.
const childRoom = "STORE_TEST_ROOM"

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

func childRecord(name string, i int) store.Record {
	return storetest.TextRecord(fmt.Sprintf("https://%d.%s.example", i, name), fmt.Sprintf("Disallow: /%d/", i), storetest.Noon)
}

func writeRecords(dir string) error {
	count, err := strconv.Atoi(os.Getenv(childCount))
	if err != nil {
		return err
	}
	s, err := Open(context.Background(), store.Defaults(), dir, zerolog.New(os.Stderr))
	if err != nil {
		return err
	}
	defer s.Close()
	if room, err := strconv.ParseUint(os.Getenv(childRoom), 10, 64); err == nil {
		return fill(s, os.Getenv(childName), room)
	}
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
			s := open(t, dir)
			for p := range processes {
				for i := range records {
					storetest.Expect(t, s, childRecord(strconv.Itoa(p), i))
				}
			}
			if n := len(setAsideIn(t, dir)); damaged && n != 1 || !damaged && n != 0 {
				t.Errorf("%d files set aside", n)
			}
		})
	}
}

// However and whenever processes are killed, what was acknowledged is there.
func TestKilledProcessesLoseNothing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	written := 0
	for round := range 12 {
		var all sync.WaitGroup
		last := []int{-1, -1}
		for p := range last {
			cmd := child(t, thisBinary(t), dir, fmt.Sprintf("%d-%d", round, p), 1_000_000)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// Some are killed while they open the database, the others a little after
			// they have written so many records.
			enough, delay := random.IntN(200)-40, time.Duration(random.IntN(5000))*time.Microsecond
			kill := func() { cmd.Process.Kill() }
			if enough <= 0 {
				time.AfterFunc(50*delay, kill)
			}
			all.Go(func() {
				for lines := bufio.NewScanner(out); lines.Scan(); {
					if n, err := strconv.Atoi(lines.Text()); err == nil && n == last[p]+1 {
						last[p] = n
					}
					if last[p] == enough {
						time.AfterFunc(delay, kill)
					}
				}
				cmd.Wait()
			})
		}
		all.Wait()
		s := open(t, dir)
		for p := range last {
			for i := range last[p] + 1 {
				storetest.Expect(t, s, childRecord(fmt.Sprintf("%d-%d", round, p), i))
				written++
			}
		}
		expectWhole(t, s)
		s.Close()
		if aside := setAsideIn(t, dir); len(aside) > 0 {
			t.Errorf("set aside: %v", aside)
		}
	}
	t.Logf("%d records", written)
	if written == 0 {
		t.Error("nothing was written before the ends")
	}
}

// On a full disk what is there can be read, and when there is room again it can
// be written to.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	cmd := child(t, thisBinary(t), dir, "writer", 1_000_000)
	cmd.Env = append(cmd.Env, childRoom+"=2000000")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(out))
	last, err := strconv.Atoi(lines[len(lines)-1])
	if err != nil || last < 10 {
		t.Fatalf("it wrote %q", out)
	}
	s := open(t, dir)
	for i := range last + 1 {
		storetest.Expect(t, s, childRecord("writer", i))
	}
	expectWhole(t, s)
	if aside := setAsideIn(t, dir); len(aside) > 0 {
		t.Errorf("set aside: %v", aside)
	}
}

// fill writes records until there is no room for another in a file, then looks
// for what it wrote, and writes that one when there is room.
func fill(s *Store, name string, room uint64) error {
	signal.Ignore(syscall.SIGXFSZ) // a full disk sends no signal
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	limitTo(&limit.Cur, room)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	ctx := context.Background()
	i := 0
	for ; s.Put(ctx, childRecord(name, i)) == nil; i++ {
		fmt.Println(i)
	}
	for j := range i {
		if rec, ok, err := s.Get(ctx, childRecord(name, j).Origin); !ok || err != nil {
			return fmt.Errorf("record %d of %d: %+v, %w", j, i, rec, err)
		}
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if err := s.Put(ctx, childRecord(name, i)); err != nil {
		return err
	}
	fmt.Println(i)
	return nil
}

// limitTo sets the value of a limit, whose type is not the same on every system.
func limitTo[T int64 | uint64](limit *T, value uint64) {
	*limit = T(value)
}

// While another process writes, records can be read, and one that is put waits.
func TestLockedByAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	one, two := childRecord("locked", 1), childRecord("locked", 2)
	storetest.Put(t, s, one)
	other, err := sql.Open("sqlite", "file:"+filepath.Join(dir, fileName)+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.Begin() // to write
	if err != nil {
		t.Fatal(err)
	}
	putting := make(chan error)
	go func() { putting <- s.Put(context.Background(), two) }()
	late := open(t, dir)
	for _, s := range []*Store{s, late} {
		storetest.Expect(t, s, one)
	}
	select {
	case err := <-putting:
		t.Errorf("did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-putting; err != nil {
		t.Error(err)
	}
	storetest.Expect(t, late, two)
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
	s := open(t, dir)
	storetest.Put(t, s, childRecord("owner", 0))
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
