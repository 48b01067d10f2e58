package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"robotsproxy/internal/logtest"
)

// On a terminal, serve says where its dashboard is, and shows a decision in a line.
func TestServeInATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := newOrigin(t, "http", shop(), nil)
	master, slave := openTerminal(t)
	serve := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", w.dir)
	serve.Env = []string{"HOME=" + w.dir, "NO_COLOR=1"}
	serve.Stderr = slave
	must(t, serve.Start())
	slave.Close()
	out := readTerminal(master)
	awaitText(t, out, "the dashboard is at http://127.0.0.1:")
	_, listen, _ := strings.Cut(out.String(), " listen=")
	listen, _, _ = strings.Cut(listen, " ")
	awaitText(t, out, `to point a shell's programs here: eval "$(robotsproxy env --data-dir '`+w.dir+`' --listen `+listen+`)"`+"\r\n")
	curl := exec.Command("curl", "-s", "-o", os.DevNull, "-x", listen, "-A", "AcmeBot/1.0", o.URL+"/checkout/", o.URL+"/products/1")
	must(t, curl.Run())
	awaitText(t, out, " ✗ 403 GET "+o.URL+"/checkout/  Disallow: /checkout/ (line 4)  AcmeBot\r\n")
	awaitText(t, out, " ✓ 200 GET "+o.URL+"/products/1  no rule matches  AcmeBot\r\n")
	must(t, serve.Process.Signal(syscall.SIGTERM))
	must(t, serve.Wait())
}

// Requests are answered even if nobody reads the log.
func TestLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	w := start(t)
	o := newOrigin(t, "http", shop(), nil)
	resume := w.log.pause()
	defer resume()
	client := w.client(false)
	long := strings.Repeat("x", 8000)
	const many = 400
	for i := range many {
		resp, err := client.Get(fmt.Sprintf("%s/products/%d/%s", o.URL, i, long))
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("request %d: %s", i, resp.Status)
		}
	}
	if status, _ := w.get("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: status %d", status)
	}
	resume()
	line := w.log.wait(t, w.exited, `"level":"warn"`, "lines of the log were lost")
	// The last request's line may have come, and been lost, after its answer.
	lost, _ := strconv.Atoi(w.metric("robotsproxy_log_lines_lost_total"))
	if lost == 0 {
		t.Error("no lines are lost")
	}
	line.want(t, "lines", lost)
	w.curl(o.URL + "/products/last")
	w.decision(o.URL + "/products/last")
	if n := len(w.log.Lines(`"message":"request"`)); n != many+1-lost {
		t.Errorf("%d lines of %d are there, and %d are lost", n, many+1, lost)
	}
}

// A reader of the log that leaves does not end the program.
func TestLogWhoseReaderLeaves(t *testing.T) {
	t.Parallel()
	w := start(t)
	o := newOrigin(t, "http", shop(), nil)
	w.log.leave()
	for range 3 {
		if r := w.curl(o.URL + "/products/1"); r.status != http.StatusOK {
			t.Errorf("status %d", r.status)
		}
	}
	waitFor(t, func() bool {
		w.curl(o.URL + "/products/1") // the reader leaves only when there is a line
		lost, _ := strconv.Atoi(w.metric("robotsproxy_log_lines_lost_total"))
		return lost > 0
	}, func() string { return "no line is counted as lost" })
	w.stop()
}

// At SIGHUP the log continues in a new file, even if the configuration is invalid.
func TestLogIsRotated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "log")
	w.command = exec.Command(program, "serve", "--config", w.config, "--data-dir", w.dir, "--log-file", file,
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	must(t, w.command.Start())
	t.Cleanup(func() { w.command.Process.Kill(); w.command.Wait() })
	w.proxy = awaitLine(t, file, `"message":"serving"`)["listen"].(string)
	o := newOrigin(t, "http", shop(), nil)
	for i, config := range []string{"", "", "nobody: knows"} {
		page := fmt.Sprintf("%s/products/%d", o.URL, i)
		w.curl(page)
		awaitLine(t, file, `"url":"`+page+`"`)
		must(t, os.Rename(file, fmt.Sprintf("%s.%d", file, i)))
		w.configure(config)
		w.signal(syscall.SIGHUP)
		awaitLine(t, file, "reloaded")
	}
	w.curl(o.URL + "/products/last")
	awaitLine(t, file, `"url":"`+o.URL+`/products/last"`)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	w.signal(syscall.SIGTERM)
	if err := w.command.Wait(); err != nil {
		t.Error(err)
	}
	awaitLine(t, file, "stopping")
}

// awaitLine waits for a line of a log's file that holds all parts.
func awaitLine(t *testing.T, file string, parts ...string) (line object) {
	t.Helper()
	var text []byte
	var found []string
	waitFor(t, func() bool {
		text, _ = os.ReadFile(file) // the file may not be there yet
		found = logtest.LinesWith(string(text), parts...)
		return len(found) > 0
	}, func() string { return fmt.Sprintf("no line with %q in %s:\n%s", parts, file, text) })
	must(t, json.Unmarshal([]byte(found[0]), &line))
	return line
}
