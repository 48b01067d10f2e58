package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Where the disk is full, errors say what to do.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	for _, c := range []struct {
		name, room string // what is left of the disk
		args       []string
		want       string
	}{
		{"the CA", "4k", []string{"ca"}, "find or make the CA in the data directory: "},
		{"the store", "16k", []string{"check", "http://localhost:1/"}, "opening the store of policies: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			must(t, os.MkdirAll(w.dir, 0o700))
			const mounted = `mount -t tmpfs -o size=$1 none "$0" && cd "$0" && shift && { head -c 4k /dev/zero > taken; exec "$@"; }`
			e := w.errand(nil)
			e.Path, e.Err = exec.LookPath("unshare")
			e.Args = append([]string{"unshare", "--mount", "sh", "-c", mounted, w.dir, c.room, program, c.args[0], "--data-dir", w.dir}, c.args[1:]...)
			e.Run() // the state says how it ended
			got := e.err.String()
			if code := e.ProcessState.ExitCode(); code == 0 || !strings.HasPrefix(got, "robotsproxy: "+c.want) ||
				!strings.Contains(got, "no space left on device") || !strings.Contains(got, "; make room there, or ") || !strings.Contains(got, "--data-dir") {
				t.Errorf("exit code %d and\n%s\nwant %q with no space left on device, and a remedy", code, got, c.want)
			}
		})
	}
}

// mountDisk makes a folder a disk of its own, of a size as mount takes it, until the test's end.
func mountDisk(t *testing.T, folder, size string) {
	t.Helper()
	needsRoot(t)
	must(t, os.MkdirAll(folder, 0o700))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "none", folder).CombinedOutput(); err != nil {
		t.Skipf("mount: %v: %s; this machine lets no test mount a disk", err, out)
	}
	t.Cleanup(func() { exec.Command("umount", folder).Run() })
}

// A disk that is full while a server runs stops no request. Each counts when there is room again.
func TestCountsOnAFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mountDisk(t, w.dir, "4m")
	w.run()
	t.Cleanup(w.stop)
	site := newOrigin(t, "http", shop(), nil)
	client := w.client(false)
	asked := 0.0
	get := func(url string, want int) {
		t.Helper()
		resp, err := client.Get(url)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: status %d, want %d", url, resp.StatusCode, want)
		}
		asked++
	}
	get(site.URL+"/products/1", 200)
	waitFor(t, func() bool { return w.report().reported() == 1 }, func() string { return fmt.Sprint(w.report()) })

	taken := filepath.Join(w.dir, "taken")
	file, err := os.Create(taken)
	must(t, err)
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4<<10))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	for i := range 500 { // counts that need room: each is about another origin
		get(fmt.Sprintf("http://127.1.%d.%d:1/", i/250, i%250), 403)
		get(site.URL+"/products/1", 200)
		get(site.URL+"/cart", 403)
	}
	w.log.wait(t, w.exited, `"level":"warn"`, "counts of decisions cannot be kept", "full")
	get(site.URL+"/cart", 403)
	must(t, os.Remove(taken))
	must(t, file.Close())
	waitFor(t, func() bool { return w.report().reported() == asked },
		func() string { return fmt.Sprintf("%v requests are reported, want %v", w.report().reported(), asked) })
	w.log.wait(t, w.exited, `"level":"info"`, "counts of decisions are kept again")
	if lines := w.log.Lines("counts of decisions"); len(lines) != 2 {
		t.Errorf("logged %s", lines)
	}
}
