package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

// summaryFile returns the name of a summary that is yet to be written, in a folder of its own.
func summaryFile(t *testing.T) string {
	return filepath.Join(t.TempDir(), "summary.json")
}

// readSummary reads a summary, beside which there may be no other file.
func readSummary(t *testing.T, path string) (all object) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("beside the summary there are %v", entries)
	}
	return all
}

// The file says the same as the text, with the names that docs/commands.md lists.
func TestSummaryFile(t *testing.T) {
	t.Parallel()
	sealedOrNot(t, func(t *testing.T, env []string) {
		w := newWorld(t, "default_identity: {purposes: [ai-train]}")
		plain, secure := newOrigin(t, "http", shop(), nil), newOrigin(t, "h2", shop(), nil)
		reserved := newOrigin(t, "http", says("User-agent: *\nContent-Signal: ai-train=no\nAllow: /\n"), nil)
		path := summaryFile(t)
		e := w.errand(append(env, "no_proxy=.corp.test"), append([]string{"--summary", path}, curlCommand(
			plain.URL+"/products/1", plain.URL+"/checkout/", secure.URL+"/products/1", secure.URL+"/checkout/", secure.URL+"/checkout/again", reserved.URL+"/")...)...)
		began := time.Now()
		if got := e.must(t); got != "200 403 200 403 403 200 " {
			t.Errorf("statuses %s", got)
		}
		got := readSummary(t, path)
		cause := func(o *origin, requests int, refused bool, reason, rule string, line int) map[string]any {
			return map[string]any{"origin": o.URL, "refused": refused, "reason": reason, "rule": rule, "line": float64(line),
				"why": fmt.Sprintf("%s (line %d)", rule, line), "requests": float64(requests)}
		}
		one, other := cause(plain, 1, true, "rule", "Disallow: /checkout/", 4), cause(reserved, 1, false, "preference", "content-signal: ai-train=no", 2)
		if reserved.URL < plain.URL { // causes of as many requests are sorted by origin
			one, other = other, one
		}
		wantCauses := []any{cause(secure, 2, true, "rule", "Disallow: /checkout/", 4), one, other}
		if !reflect.DeepEqual(got["causes"], wantCauses) {
			t.Errorf("got causes  %v,\nwant %v", got["causes"], wantCauses)
		}
		got.want(t, "exit_code", 0, "signal", nil, "error", nil, "requests", 6, "refused", 3, "refused_by_preference", 0, "refused_late", 0,
			"would_refuse", 1, "would_refuse_by_preference", 1, "broken_off", 0, "other_causes", 0, "failures", []any{}, "delays", []any{}, "distrusted", []any{},
			"no_proxy", map[string]any{"hosts": []any{".corp.test"}, "judged": env != nil})
		if (got["sealed"] != nil) != (env != nil) {
			t.Errorf("sealed is %v", got["sealed"])
		}
		for _, member := range []string{"started_at", "ended_at"} {
			at, err := time.Parse("2006-01-02T15:04:05.999Z", got[member].(string))
			if err != nil || at.Before(began.Truncate(time.Millisecond)) || at.After(time.Now()) {
				t.Errorf("%s is %v: %v", member, got[member], err)
			}
		}
		if !strings.Contains(e.err.String(), "\nrobotsproxy: 6 requests, 3 refused, 1 let through whose use the site refuses (mode report)") {
			t.Errorf("the text is\n%s", &e.err)
		}
	})
}

// A request that is allowed but whose turn would come too late is told apart.
func TestSummaryFileOfLateTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "pace: {max_wait: 1s}")
	site := newOrigin(t, "http", says("User-agent: *\nCrawl-delay: 50\n"), nil)
	path := summaryFile(t)
	w.errand(nil, append([]string{"--summary", path}, curlCommand(site.URL+"/1", site.URL+"/2")...)...).must(t)
	got := readSummary(t, path)
	got.want(t, "requests", 2, "refused", 1, "refused_late", 1)
	got["causes"].([]any)[0].(map[string]any)["why"] = nil // in words
	got.want(t, "causes", []any{map[string]any{"origin": site.URL, "refused": true, "reason": "late", "why": nil, "requests": 1}})
}

// A command that a signal ends has a summary, a run that is killed has none: what was in its
// file stays.
func TestSummaryFileUnderSignals(t *testing.T) {
	t.Parallel()
	sealedOrNot(t, func(t *testing.T, env []string) {
		w := newWorld(t)
		for signal, want := range map[syscall.Signal]string{syscall.SIGTERM: "", syscall.SIGKILL: "before"} {
			path := summaryFile(t)
			must(t, os.WriteFile(path, []byte(`{"what": "before"}`), 0o600))
			e := w.errand(env, "--summary", path, "--", "sh", "-c", "echo ready; exec sleep 600")
			out := &logLines{}
			e.Stdout = out
			must(t, e.Start())
			awaitText(t, out, "ready")
			must(t, e.Process.Signal(signal))
			e.Wait() // the file says how it ended
			got := readSummary(t, path)
			if want != "" {
				got.want(t, "what", want)
			} else {
				got.want(t, "exit_code", 128+int(signal), "signal", int(signal), "requests", 0)
			}
		}
	})
}

// The file has the connections of a sealed command that were not judged, as the text has.
func TestSummaryFileOfSealedConnections(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	needsSealing(t)
	w := newWorld(t, "upstream: {ca_file: ORIGINS, deny: [192.0.2.2]}")
	echo(t, "192.0.2.1:22")
	for host, member := range map[string]string{"192.0.2.1": "passed", "192.0.2.2": "denied", "192.0.2.7": "failed", "192.0.2.9": "refused"} {
		path := summaryFile(t)
		e := w.sealed(nil, append([]string{"--allow", "192.0.2.1:22", "--allow", "192.0.2.2:22", "--allow", "192.0.2.7:22", "--summary", path}, netcat(host, "22")...)...)
		e.must(t)
		want := map[string]any{"passed": []any{}, "denied": []any{}, "failed": []any{}, "refused": []any{}}
		want[member] = []any{map[string]any{"destination": host + ":22", "connections": 1.0}}
		got := readSummary(t, path)["sealed"].(map[string]any)
		delete(got, "warnings") // they depend on the machine
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", host, got, want)
		}
	}
}
