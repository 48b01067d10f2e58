package e2e

import (
	"os"
	"os/exec"
	"strings"
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
