package e2e

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"robotsproxy/internal/signtest"
)

// reload has the program read a new configuration, through the API or by SIGHUP.
func (w *world) reload(bySignal bool, config ...string) {
	w.t.Helper()
	w.configure(config...)
	if !bySignal {
		if status, body := w.send(http.MethodPost, "/api/v1/reload"); status != http.StatusOK {
			w.t.Fatalf("reload: status %d: %s", status, body)
		}
		return
	}
	before := len(w.log.Lines("was reloaded"))
	w.signal(syscall.SIGHUP)
	waitFor(w.t, func() bool { return len(w.log.Lines("was reloaded")) > before },
		func() string { return "SIGHUP reloads nothing; the log:\n" + w.log.String() })
}

// refusedReload has the program read a faulty configuration. It returns the log's line about
// the fault.
func (w *world) refusedReload(config string) string {
	w.t.Helper()
	w.configure(config)
	before := len(w.log.Lines(`"level":"error"`))
	w.signal(syscall.SIGHUP)
	waitFor(w.t, func() bool { return len(w.log.Lines(`"level":"error"`)) > before },
		func() string { return "the reload is not refused; the log:\n" + w.log.String() })
	return w.log.Lines(`"level":"error"`)[before]
}

func TestReloadLosesNoRequest(t *testing.T) {
	t.Parallel()
	configs := []string{
		"log: {decisions: all}\nshutdown_grace: 1m",
		`log: {decisions: refused}
identities: [{name: a, match: {user_agents: ["Go-http-client/*"]}, product_tokens: [PartnerBot], user_agent: Partner/1.0}]
overrides: [{origin: "https://example.com", verdict: disallow}]
robots: {ttl: 1h, statuses: {"429": disallow}}
clients: {allow: [127.0.0.0/8, 10.0.0.0/8]}
https: {passthrough: [example.com]}`,
	}
	w := start(t, configs[0])
	var asked, failed atomic.Int64
	over := make(chan struct{})
	var clients sync.WaitGroup
	for _, e := range entries {
		site := newOrigin(t, map[string]string{"http": "http", "https": "h2"}[e.scheme], says("User-agent: *\nDisallow: /cart\n"), nil)
		client := e.client(w)
		clients.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				path, want := "/products/1", 200
				if i%5 == 0 {
					path, want = "/cart", 403
				}
				resp, err := client.Get(site.URL + path)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				asked.Add(1)
				if err != nil || resp.StatusCode != want {
					failed.Add(1)
					t.Errorf("%s: %v, %v", e.name, resp, err)
					return
				}
			}
		})
	}
	page := newSlowPage() // requests for it last all the time
	replies := w.inFlight(page)
	for i := range 100 {
		w.reload(i%2 == 0, configs[(i+1)%2])
	}
	close(page.release)
	for range doors {
		if r := <-replies; r.status != 200 || r.body != "at last" {
			t.Errorf("a long request got %+v", r)
		}
	}
	close(over)
	clients.Wait()
	t.Logf("%d requests, %d failed", asked.Load(), failed.Load())
	if asked.Load() < 500 {
		t.Errorf("only %d requests were made", asked.Load())
	}
}

func TestReloadOfABadConfiguration(t *testing.T) {
	t.Parallel()
	w := start(t)
	site := newOrigin(t, "http", shop(), nil)
	for text, want := range map[string]string{
		"default_identity: {mode: off}\nrobots: {ttl: never}":               "2:15: ",
		"default_identity: {mode: off}\nnobody: knows":                      "2:1: ",
		"default_identity: {mode: off}\nclients: {htpasswd: nowhere}":       "2:21: ",
		"default_identity: {mode: off}\nidentities: [{name: a}, {name: a}]": "2:",
		"default_identity: {mode: off}\n- ":                                 "2:",
	} {
		w.configure(text)
		status, body := w.send(http.MethodPost, "/api/v1/reload")
		if place := filepath.Base(w.config) + ":" + want; status != http.StatusUnprocessableEntity || !strings.Contains(body, place) {
			t.Errorf("%q: status %d, want %s in %s", text, status, place, body)
		}
		if line := w.refusedReload(text); !strings.Contains(line, w.config+":"+want) || !strings.Contains(line, "the old one stays") {
			t.Errorf("%q: the log has %s", text, line)
		}
		wantRefused(t, w.curl(site.URL+"/cart"), "Disallow: /cart")
	}
	must(t, os.Truncate(w.config, 0))
	if status, body := w.send(http.MethodPost, "/api/v1/reload"); status != http.StatusUnprocessableEntity || !strings.Contains(body, "file is empty") {
		t.Errorf("a file that is being written: status %d: %s", status, body)
	}
	must(t, os.Remove(w.config))
	if status, body := w.send(http.MethodPost, "/api/v1/reload"); status != http.StatusUnprocessableEntity || !strings.Contains(body, "robotsproxy.yaml") {
		t.Errorf("without a file: status %d: %s", status, body)
	}
	wantRefused(t, w.curl(site.URL+"/cart"), "Disallow: /cart")
	w.reload(true, "default_identity: {mode: off}")
	if r := w.curl(site.URL + "/cart"); r.status != http.StatusOK {
		t.Errorf("after a good configuration: status %d", r.status)
	}
}

// Each key that can be reloaded takes effect, and the next reload undoes it.
func TestReloadTakesEffect(t *testing.T) {
	t.Parallel()
	site := newOrigin(t, "http", shop(), nil)
	secure := newOrigin(t, "https", shop(), nil)
	wild := newOrigin(t, "https", says("User-agent: *\nDisallow:\n"), nil)
	closed := newOrigin(t, "http", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, nil)
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	must(t, err)
	users := filepath.Join(t.TempDir(), "users")
	must(t, os.WriteFile(users, []byte("bot:"+string(hash)+"\n"), 0o600))

	asks := func(url string, args ...string) func(w *world) string {
		return func(w *world) string {
			r := w.curl(strings.Split(strings.ReplaceAll(strings.Join(append(args, url), "\n"), "ORIGINS", w.origins), "\n")...)
			if r.exit != 0 {
				return "curl fails"
			}
			return fmt.Sprint(r.status)
		}
	}
	// twice asks for two pages of so many new sites, and returns the status of the second.
	twice := func(robots, page http.HandlerFunc, sites int) func(w *world) string {
		return func(w *world) (status string) {
			var all []*origin
			for range sites {
				all = append(all, newOrigin(t, "http", robots, page))
			}
			for i := range 2 {
				status = fmt.Sprint(w.curl(all[i%sites].URL + "/products/1").status)
			}
			return status
		}
	}
	slow := says("User-agent: *\nCrawl-delay: 50\n")
	failing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }
	key, keyID := signingKey(t, 1)
	signed := newOrigin(t, "http", shop(), func(w http.ResponseWriter, r *http.Request) {
		signature, err := signtest.Request(r, "https://bot.example.org", map[string]ed25519.PublicKey{keyID: seedKey(1).Public().(ed25519.PublicKey)}, time.Now())
		if err != nil {
			signature.KeyID = "nobody"
		}
		io.WriteString(w, signature.KeyID)
	})
	signer := func(w *world) string { return w.curl(signed.URL + "/products/1").body }
	logs := func(w *world) string {
		before := len(w.log.Lines(`"message":"request"`))
		w.curl(site.URL + "/products/1")
		w.curl(site.URL + "/cart")
		w.wantMetric("robotsproxy_connections", "0")
		w.refusedReload("nobody: knows") // its line comes after all of those
		return fmt.Sprint(len(w.log.Lines(`"message":"request"`)) - before)
	}
	for _, test := range []struct {
		config        string
		ask           func(w *world) string
		before, after string
	}{
		{"default_identity: {mode: off}", asks(site.URL + "/cart"), "403", "200"},
		{"default_identity: {product_tokens: [PartnerBot]}", asks(site.URL + "/cart"), "403", "200"},
		{`identities: [{name: a, match: {user_agents: ["A/*"]}, mode: report}]`, asks(site.URL+"/cart", "-A", "A/1"), "403", "200"},
		{`identities: [{name: a, match: {user_agents: ["A/*"]}, mode: report}]`, asks(site.URL+"/cart", "-A", "B/1"), "403", "403"},
		{"default_identity: {sign: {keys: [" + key + "], agent: 'https://bot.example.org', http: true}}", signer, "nobody", keyID},
		{`overrides: [{origin: "` + site.URL + `", verdict: allow}]`, asks(site.URL + "/cart"), "403", "200"},
		{`overrides: [{origin: "` + site.URL + `", verdict: disallow}]`, asks(site.URL + "/products/1"), "200", "403"},
		{`robots: {statuses: {"403": disallow}}`, asks(closed.URL + "/"), "200", "403"},
		{"https: {mode: tunnel}", asks(secure.URL + "/products/1"), "200", "curl fails"},
		{"https: {mode: tunnel}", asks(wild.URL + "/products/1"), "200", "curl fails"},
		{"https: {mode: tunnel}", asks(wild.URL+"/products/1", "--cacert", "ORIGINS"), "curl fails", "200"},
		{"https: {passthrough: [127.0.0.1]}", asks(wild.URL+"/products/1", "--cacert", "ORIGINS"), "curl fails", "200"},
		{"https: {passthrough: [127.0.0.1], mixed_tunnel: allow}", asks(secure.URL+"/cart", "--cacert", "ORIGINS"), "curl fails", "200"},
		{"clients: {allow: [10.0.0.0/8]}", asks(site.URL + "/products/1"), "200", "403"},
		{"clients: {htpasswd: " + users + "}", asks(site.URL + "/products/1"), "200", "407"},
		{"clients: {htpasswd: " + users + "}", asks(site.URL+"/products/1", "-U", "bot:secret"), "200", "200"},
		{"pace: {default_delay: 1h, max_wait: 1s}", twice(shop(), nil, 1), "200", "429"},
		{"pace: {min_delay: 1h, max_wait: 1s}", twice(shop(), nil, 1), "200", "429"},
		{"pace: {scope: site, max_wait: 1s}", twice(slow, nil, 2), "200", "429"}, // two ports of 127.0.0.1
		{"pace: {back_off: {after: 1}, max_wait: 1s}", twice(shop(), failing, 1), "503", "429"},
		{"pace: {max_per_day: 1}", twice(shop(), nil, 1), "200", "429"},
		{"log: {level: error}", logs, "2", "0"},
		{"log: {decisions: none}", logs, "2", "0"},
		{"log: {decisions: refused}", logs, "2", "1"},
	} {
		t.Run(test.config, func(t *testing.T) {
			w := start(t)
			bySignal := test.config != "log: {level: error}" // which hides the line about it
			for i, want := range []string{test.before, test.after, test.before} {
				if i > 0 {
					w.reload(bySignal, []string{"", test.config, ""}[i])
				}
				if got := test.ask(w); got != want {
					t.Errorf("after %d reloads: %s, want %s", i, got, want)
				}
			}
		})
	}
}

func TestKeysThatNeedARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0")
	w.runWith()
	t.Cleanup(w.stop)
	w.configure("listen: 127.0.0.1:1\ntransparent: 127.0.0.1:3\nadmin_listen: 127.0.0.1:2\nname: other\nlimits: {header_timeout: 1s}\ncache: {memory: 1MiB}\nlog: {format: json, level: debug}\nshutdown_grace: 1s")
	w.signal(syscall.SIGHUP)
	line := w.log.wait(t, w.exited, `"level":"warn"`, "restart")
	line.want(t, "keys", []string{"name", "listen", "transparent", "admin_listen", "log.format", "cache.memory", "limits.header_timeout"})
	site := newOrigin(t, "http", shop(), nil)
	if resp, err := w.client(false).Get(site.URL + "/cart"); err != nil || resp.StatusCode != 403 || !strings.HasPrefix(resp.Header.Get("Proxy-Status"), "robotsproxy;") {
		t.Errorf("%v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
}
