package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// readOnly runs a command of the program that sees the data directory on a read-only file
// system.
func (w *world) readOnly(args ...string) (out, log string, code int) {
	w.t.Helper()
	const mounted = `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"`
	e := w.errand(nil)
	e.Path, e.Err = exec.LookPath("unshare")
	e.Args = append([]string{"unshare", "--mount", "sh", "-c", mounted, w.dir, program, args[0], "--config", w.config, "--data-dir", w.dir}, args[1:]...)
	e.Run() // the state says how it ended
	return e.out.String(), e.err.String(), e.ProcessState.ExitCode()
}

// If the data directory cannot be written, commands use what is there and keep new policies
// in memory only. serve does not start.
func TestReadOnlyDataDirectory(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	const said = "the data directory cannot be written"
	for name, known := range map[string]bool{"with policies and a CA": true, "empty": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			must(t, os.MkdirAll(w.dir, 0o700))
			o := newOrigin(t, "https", shop(), nil)
			fetches := 1 // by check and run together
			if known {
				w.errand(nil, curlCommand(o.URL+"/products/1")...).must(t)
			} else {
				fetches = 2
			}
			if out, log, code := w.readOnly("check", o.URL+"/checkout/"); code != 1 || !strings.Contains(out, "Disallow: /checkout/") || !strings.Contains(log, said) {
				t.Errorf("check: exit code %d, %s%s", code, out, log)
			}
			if out, log, code := w.readOnly(append([]string{"run"}, curlCommand(o.URL+"/products/1", o.URL+"/checkout/")...)...); code != 0 || out != "200 403 " || !strings.Contains(log, said) {
				t.Errorf("run: exit code %d, %s%s", code, out, log)
			}
			w.wantRunFolders(0)
			if n := o.robotsFetches(); n != fetches {
				t.Errorf("%d fetches, want %d", n, fetches)
			}
			if out, log, code := w.readOnly("history", o.URL); known != (code == 0 && strings.Contains(out, "status 200")) {
				t.Errorf("history: exit code %d, %s%s", code, out, log)
			}
			if _, log, code := w.readOnly("serve", "--listen", "127.0.0.1:0"); code != 1 || !strings.Contains(log, "read-only file system; ") {
				t.Errorf("serve: exit code %d, %s", code, log)
			}
		})
	}
}
