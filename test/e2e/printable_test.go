package e2e

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode"
)

// Text of a hostile site and client: terminal sequences, with ESC and with C1 characters, and
// bidirectional controls.
const (
	hostileRule  = "Disallow: /a\x1b[2J\u009b31m\u202etxt\u2066"
	hostilePath  = "/a%1B[2J%C2%9B31m%E2%80%AEtxt%E2%81%A6"
	hostileAgent = "Bad\u202e\u009b/1"
)

// wantNothingHidden checks that a text has no characters that control a terminal or are
// invisible. It must hold part, which is a harmless piece of the hostile text.
func wantNothingHidden(t *testing.T, what, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s does not show %s: %q", what, part, text)
	}
	for _, r := range text {
		if r != '\n' && r != '\t' && !unicode.IsGraphic(r) {
			t.Errorf("%s holds %U: %q", what, r, text)
			return
		}
	}
}

// runCommand runs a command of the program and returns its output, whatever its exit code.
func (w *world) runCommand(args ...string) string {
	w.t.Helper()
	command := exec.Command(program, append([]string{args[0], "--config", w.config, "--data-dir", w.dir}, args[1:]...)...)
	out, _ := command.CombinedOutput()
	return string(out)
}

// Text from sites and clients is safe wherever it is shown, and unchanged in JSON.
func TestForeignTextIsSafeToShow(t *testing.T) {
	t.Parallel()
	w := start(t)
	site := newOrigin(t, "http", says("User-agent: *\n"+hostileRule+"\n"), nil)
	page := site.URL + hostilePath

	for _, accept := range []string{"text/plain", "text/html", "application/problem+json"} {
		got := w.curl("-A", hostileAgent, "-H", "Accept: "+accept, page)
		wantNothingHidden(t, accept, got.body, "txt")
		if accept != "application/problem+json" && !strings.Contains(got.body, `/a\x1b[2J\u009b31m\u202etxt\u2066`) {
			t.Errorf("the rule is not in\n%s", got.body)
		}
		if accept == "application/problem+json" {
			wantMember(t, got.body, "rule", hostileRule)
		}
	}
	wantNothingHidden(t, "the proxy's own page", w.curl("--noproxy", "*", "-A", hostileAgent, "http://"+w.proxy+"/").body, "Bad")

	w.decision(page).want(t, "rule", hostileRule, "agent", strings.TrimSuffix(hostileAgent, "/1"))
	wantNothingHidden(t, "the log", w.log.String(), "txt")

	wantNothingHidden(t, "check", w.runCommand("check", page), "txt")
	asJSON := w.runCommand("check", "--json", page)
	wantNothingHidden(t, "check --json", asJSON, "txt")
	wantMember(t, asJSON, "rule", hostileRule)
	wantNothingHidden(t, "history", w.runCommand("history", page), "txt")
	asJSON = w.runCommand("history", "--json", page)
	wantNothingHidden(t, "history --json", asJSON, "txt")

	for _, path := range []string{"/api/v1/verdict?url=" + url.QueryEscape(page), "/api/v1/decisions", "/api/v1/policy?origin=" + site.URL} {
		_, body := w.get(path)
		wantNothingHidden(t, path, body, "txt")
	}

	path := summaryFile(t)
	e := w.errand(nil, append(append([]string{"--summary", path}, curlCommand(page)...), "--globoff")...)
	e.must(t)
	wantNothingHidden(t, "the summary of run", e.err.String(), "txt")
	text, err := os.ReadFile(path)
	must(t, err)
	wantNothingHidden(t, "the summary of run as JSON", string(text), "txt")
	wantSame(t, "rule", []string{readSummary(t, path)["causes"].([]any)[0].(map[string]any)["rule"].(string)}, []string{hostileRule})
}

func wantMember(t *testing.T, text, name, want string) {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Errorf("%v: %s", err, text)
	}
	o.want(t, name, want)
}
