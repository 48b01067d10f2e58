package e2e

import (
	"encoding/base64"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// with gets a path of the admin server, with these header fields Authorization and Host.
func (w *world) with(path, authorization, host string) *http.Response {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+w.admin+path, nil)
	must(w.t, err)
	r.Host = host
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	must(w.t, err)
	w.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestAdminToken(t *testing.T) {
	t.Parallel()
	const secret = "s3cret/of+the-test="
	w := newWorld(t, `admin_token: "${TOKEN}"`)
	w.vars = []string{"TOKEN=" + secret}
	w.run()
	t.Cleanup(w.stop)
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for authorization, want := range map[string]int{
		"":                                  401,
		"Bearer " + secret:                  200,
		"bearer  " + secret:                 200,
		basic("", secret):                   200,
		basic("anyone", secret):             200,
		"Bearer":                            401,
		"Bearer " + secret + "x":            401,
		"Bearer " + secret[1:]:              401,
		"Token " + secret:                   401,
		secret:                              401,
		basic(secret, ""):                   401,
		basic("anyone", "not "+secret):      401,
		"Basic " + secret:                   401,
		"Bearer " + secret + ", Bearer abc": 401,
	} {
		for _, path := range []string{"/api/v1/policies", "/api/v1/decisions/stream", "/api/v1/identities"} {
			resp := w.with(path, authorization, "any.example")
			if resp.StatusCode != want {
				t.Errorf("%s with %q: status %d, want %d", path, authorization, resp.StatusCode, want)
			}
			if resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
				t.Errorf("%s may be sniffed, or loaded by other sites: %v", path, resp.Header)
			}
			if asked := resp.Header.Values("WWW-Authenticate"); want == 401 && (len(asked) != 2 || !strings.HasPrefix(asked[0], "Basic ") || !strings.HasPrefix(asked[1], "Bearer ")) {
				t.Errorf("%s asks for %q", path, asked)
			}
		}
	}
	if resp := w.with("/api/v1/nothing", "", ""); resp.StatusCode != 401 {
		t.Errorf("a path that does not exist: status %d", resp.StatusCode)
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/ca.pem"} {
		if resp := w.with(path, "", "any.example"); resp.StatusCode != 200 {
			t.Errorf("%s: status %d", path, resp.StatusCode)
		}
	}
	if status, body := w.send("POST", "/api/v1/reload", "Authorization", "Bearer "+secret, "Origin", "http://foreign.example"); status != 403 {
		t.Errorf("a request from another site's page, with the token: status %d: %s", status, body)
	}

	health := exec.Command(program, "healthcheck", "--admin-listen", w.admin)
	if out, err := health.CombinedOutput(); err != nil {
		t.Errorf("healthcheck: %v: %s", err, out)
	}

	// A new token needs a restart, and is shown nowhere.
	w.configure("admin_token: another-secret")
	w.signal(syscall.SIGHUP)
	w.log.wait(t, w.exited, "admin_token", "need a restart")
	if resp := w.with("/api/v1/policies", "Bearer another-secret", ""); resp.StatusCode != 401 {
		t.Errorf("a token that needs a restart: status %d", resp.StatusCode)
	}
	if log := w.log.String(); strings.Contains(log, secret) || strings.Contains(log, "another-secret") {
		t.Errorf("the log tells the token:\n%s", log)
	}
}

// An invalid token is not shown either.
func TestBadAdminToken(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"a secret", `"sécret"`, "{secret: x}", `"secret\nof two lines"`, "[secret]"} {
		file := filepath.Join(t.TempDir(), "c.yaml")
		must(t, os.WriteFile(file, []byte("admin_token: "+value+"\n"), 0o600))
		validate := exec.Command(program, "validate", "--config", file)
		out, err := validate.CombinedOutput()
		if code := validate.ProcessState.ExitCode(); code != 2 || !strings.HasPrefix(string(out), file+":1:") || strings.Contains(string(out), "cret") {
			t.Errorf("%s: %v: %s", value, err, out)
		}
	}
}

func TestWarningOfAnOpenAdminServer(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]int{"": 1, "admin_token: x": 0} {
		w := newWorld(t, config)
		w.runWith("--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0")
		if warnings := w.log.Lines(`"level":"warn"`, "set admin_token"); len(warnings) != want {
			t.Errorf("%q: %d warnings", config, len(warnings))
		}
		w.stop()
	}
	w := start(t)
	if warnings := w.log.Lines("admin_token"); len(warnings) != 0 {
		t.Errorf("on loopback: %q", warnings)
	}
}
