package e2e

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"html"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// grounds say why a request was refused.
type grounds struct {
	rule, file, agent string
	line              int
}

// The request that the tests below have refused.
const (
	refusedAgent = "PictureBot/1.0 (+https://pictures.example/bot)"
	refusedPath  = "/products/1?sort=<b>price</b>"
)

// A user who has been refused sees only the output of curl, or only the log, or only the page
// in a browser. Each of them leads to the line in the site's robots.txt.

func TestWhyByCurl(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, scheme := range []string{"http", "h2"} {
		site := newOrigin(t, scheme, shop(), nil)
		w.wantGrounds(site, w.readText(w.curl("-A", refusedAgent, site.URL+refusedPath).body))
	}
}

// readText finds the grounds in the plain-text answer.
func (w *world) readText(text string) grounds {
	w.t.Helper()
	var g grounds
	for line := range strings.Lines(text) {
		label, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		w.read(&g, label, strings.TrimSpace(value))
	}
	return g
}

// read adds one fact of an answer to g.
func (w *world) read(g *grounds, label, value string) {
	w.t.Helper()
	if number, isRule := strings.CutPrefix(label, "Line "); isRule {
		line, err := strconv.Atoi(number)
		must(w.t, err)
		g.line, g.rule = line, value
	}
	switch label {
	case "robots.txt":
		if strings.HasPrefix(value, "http") {
			g.file = value
		}
	case "Agent":
		g.agent = value
	}
}

// wantGrounds fetches the file that the grounds name and looks up the line.
func (w *world) wantGrounds(site *origin, g grounds) {
	t := w.t
	t.Helper()
	if g.file != site.URL+"/robots.txt" || g.agent != "PictureBot" || g.rule == "" || g.line == 0 {
		t.Fatalf("found %+v", g)
	}
	lines := strings.Split(w.curl(g.file).body, "\n")
	if g.line > len(lines) || lines[g.line-1] != g.rule {
		t.Errorf("line %d of %s is not %q", g.line, g.file, g.rule)
	}
	if len(site.pages()) > 0 {
		t.Errorf("the site was asked for %q", site.pages())
	}
}

func TestWhyByTheLog(t *testing.T) {
	t.Parallel()
	w := start(t)
	site := newOrigin(t, "https", shop(), nil)
	w.curl("-A", refusedAgent, site.URL+refusedPath)
	line := w.log.wait(t, w.exited, `"message":"request"`)
	line.want(t, "url", site.URL+refusedPath, "verdict", "disallowed", "reason", "rule", "client", "127.0.0.1", "identity", "default")
	u, err := url.Parse(fmt.Sprint(line["url"]))
	must(t, err)
	number, _ := line["line"].(float64)
	w.wantGrounds(site, grounds{
		rule:  fmt.Sprint(line["rule"]),
		file:  u.Scheme + "://" + u.Host + "/robots.txt",
		agent: fmt.Sprint(line["agent"]),
		line:  int(number),
	})
}

// noBackground refuses requests that a browser sends to its vendor in spite of its flags.
const noBackground = `overrides:
  - {origin: "http://*.google.com", verdict: disallow}
  - {origin: "http://*.googleapis.com", verdict: disallow}`

func TestWhyByABrowser(t *testing.T) {
	t.Parallel()
	w := start(t, noBackground)
	site := newOrigin(t, "http", shop(), nil)
	page := w.browse(site.URL+refusedPath, append(w.throughProxy(), "--user-agent="+refusedAgent)...)
	w.wantGrounds(site, w.readPage(page))
	for _, part := range []string{"<h1>403 Forbidden</h1>", "not from the site"} {
		if !strings.Contains(page, part) {
			t.Errorf("%q is not in the page:\n%s", part, page)
		}
	}
}

var shownFact = regexp.MustCompile(`<dt>(.*?)</dt><dd>(.*?)</dd>`)

// readPage finds the grounds in the HTML answer.
func (w *world) readPage(page string) grounds {
	w.t.Helper()
	var g grounds
	for _, fact := range shownFact.FindAllStringSubmatch(page, -1) {
		w.read(&g, html.UnescapeString(fact[1]), html.UnescapeString(fact[2]))
	}
	return g
}

// The proxy's own page tells a browser which identity it would be judged as, and offers the
// CA for download.
func TestOwnPageInABrowser(t *testing.T) {
	t.Parallel()
	w := start(t, `identities: [{name: people, match: {user_agents: ["*HeadlessChrome*"]}, product_tokens: [PeopleBot, OldBot]}]`)
	ca, err := os.ReadFile(w.caFile())
	must(t, err)
	page := w.browse("http://" + w.proxy + "/")
	for _, part := range []string{"<strong>people</strong>", "PeopleBot, OldBot", "HeadlessChrome/", "http://USER:x@" + w.proxy} {
		if !strings.Contains(page, part) {
			t.Errorf("%q is not in the page:\n%s", part, page)
		}
	}
	link := regexp.MustCompile(`<a href="([^"]*)" download="">`).FindStringSubmatch(page)
	if link == nil {
		t.Fatalf("there is nothing to download:\n%s", page)
	}
	got := w.curl("--noproxy", "*", "http://"+w.proxy+link[1])
	if block, _ := pem.Decode([]byte(got.body)); got.status != 200 || got.body != string(ca) || block == nil || block.Type != "CERTIFICATE" {
		t.Errorf("%s: %+v", link[1], got)
	}
}

// The commands on the own page work as they are written.
func TestCommandsOfTheOwnPage(t *testing.T) {
	t.Parallel()
	w := start(t)
	site := newOrigin(t, "https", shop(), nil)
	text := w.curl("--noproxy", "*", "http://"+w.proxy+"/").body
	snippet := func(client string) string {
		_, after, found := strings.Cut(text, "\n"+client)
		_, after, _ = strings.Cut(after, ":\n")
		commands, _, _ := strings.Cut(after, "\n\n")
		if !found || commands == "" {
			t.Errorf("there is nothing for %s:\n%s", client, text)
		}
		return commands
	}
	proxy := "http://" + w.proxy
	for client, variables := range map[string][]string{
		"any shell": {"http_proxy=" + proxy, "https_proxy=" + proxy, "HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy},
		"Python":    {"REQUESTS_CA_BUNDLE=", "SSL_CERT_FILE="},
		"Node":      {"NODE_USE_ENV_PROXY=1", "NODE_EXTRA_CA_CERTS="},
		"Go":        {"SSL_CERT_FILE="},
		"Ruby":      {"SSL_CERT_FILE="},
	} {
		env, err := w.shell(t.TempDir(), snippet(client)+"\nenv")
		if err != nil {
			t.Errorf("%s: %v\n%s", client, err, env)
		}
		for _, variable := range variables {
			if !strings.Contains("\n"+env, "\n"+variable) {
				t.Errorf("%s does not set %s:\n%s", client, variable, snippet(client))
			}
		}
	}

	all := strings.Replace(snippet("all of them"), "robotsproxy env", program+" env --data-dir "+w.dir, 1)
	if out, err := w.shell(t.TempDir(), all+"\ncurl --fail --silent "+site.URL+"/products/1"); err != nil || out != "the page /products/1" {
		t.Errorf("%q: %v\n%s", all, err, out)
	}

	folder := t.TempDir()
	download := regexp.MustCompile(`curl -o ca\.pem \S+`).FindString(text)
	if out, err := w.shell(folder, download); err != nil {
		t.Fatalf("%q: %v\n%s", download, err, out)
	}
	use := strings.Replace(snippet("curl"), "https://example.com/", "--fail --silent "+site.URL+"/products/1", 1)
	if out, err := w.shell(folder, use); err != nil || out != "the page /products/1" {
		t.Errorf("%q: %v\n%s", use, err, out)
	}
}

// shell runs commands as typed by a user with an empty environment.
func (w *world) shell(folder, commands string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	run := exec.CommandContext(ctx, "sh", "-e", "-c", commands)
	run.Dir = folder
	run.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder}
	out, err := run.Output()
	return string(out), err
}

// browse opens a URL in a browser and returns the page's DOM as HTML. The browser's console
// must stay empty.
func (w *world) browse(url string, args ...string) string {
	w.t.Helper()
	home, err := os.MkdirTemp("", "robotsproxy-browser-")
	must(w.t, err)
	defer os.RemoveAll(home) // fails if a child of the browser still writes there
	return w.browseFrom(home, url, args...)
}

// browseFrom is browse with a home folder, where the browser looks for a CA.
func (w *world) browseFrom(home, url string, args ...string) string {
	w.t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		w.t.Skip("there is no chromium; install the package chromium, as make deps does")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*testTimeout)
	defer cancel()
	run := exec.CommandContext(ctx, chromium, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir=" + filepath.Join(home, "data"), "--enable-logging=stderr", "--log-level=0", "--dump-dom",
	}, append(args, url)...)...)
	run.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	run.Cancel = func() error { return syscall.Kill(-run.Process.Pid, syscall.SIGKILL) }
	run.WaitDelay = time.Second
	var page, said bytes.Buffer
	run.Stdout, run.Stderr = &page, &said
	err = run.Run()
	syscall.Kill(-run.Process.Pid, syscall.SIGKILL) // children that are still running
	if err != nil {
		w.t.Fatalf("chromium: %v\n%s", err, &said)
	}
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, ":CONSOLE:") {
			w.t.Errorf("in the browser's console: %s", line)
		}
	}
	return page.String()
}

// A robots.txt full of wildcards makes long URLs too costly to judge: they are refused.
func TestWildcardsThatTakeTooLong(t *testing.T) {
	t.Parallel()
	w := start(t)
	site := newOrigin(t, "http", says("User-agent: *\n"+strings.Repeat("Disallow: /*aaa*b\n", 25000)), nil)
	long := "/" + strings.Repeat("a", 60000)
	if answer := w.curl("-A", refusedAgent, site.URL+"/a"); answer.status != 200 {
		t.Errorf("a short URL got %d: %s", answer.status, answer.body)
	}
	answer := w.curl("-A", refusedAgent, site.URL+long)
	if answer.status != 403 || !strings.Contains(answer.body, "would take too long") {
		t.Errorf("a long URL got %d: %.300s", answer.status, answer.body)
	}
	w.log.wait(t, w.exited, `"message":"request"`, `"reason":"too_costly"`).want(t, "verdict", "disallowed", "status", 403)
	w.wantMetric(`robotsproxy_requests_total{identity="default",reason="too_costly",verdict="disallowed"}`, "1")
	if got := site.pages(); len(got) != 1 {
		t.Errorf("the site was asked for %.100q", got)
	}
}

// check, the API and the proxy, over each version of HTTP, refuse a path with a % that begins
// no escape. In a query it passes.
func TestPercentThatBeginsNoEscape(t *testing.T) {
	t.Parallel()
	w := start(t)
	site := newOrigin(t, "h2", says("User-agent: *\nDisallow: /private\n"), nil)
	for _, path := range []string{"/100%", "/%zz", "/a%4?q", "/open?100%", "/open?%zz"} {
		target := site.URL + path
		wellFormed := strings.Contains(path, "open")
		if status, body := w.get("/api/v1/verdict?url=" + url.QueryEscape(target)); wellFormed != (status == 200) || !wellFormed && (status != 400 || !strings.Contains(body, "%25")) {
			t.Errorf("%s: the API answers %d: %s", path, status, body)
		}
		check := exec.Command(program, "check", "--config", w.config, "--data-dir", w.dir, target)
		if out, err := check.CombinedOutput(); wellFormed != (err == nil) || !wellFormed && (check.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "%25")) {
			t.Errorf("%s: check says %v: %s", path, err, out)
		}
		if answer := w.curl("--http1.1", target); wellFormed != (answer.status == 200) || !wellFormed && answer.status != 400 {
			t.Errorf("%s over HTTP/1.1 got %d: %s", path, answer.status, answer.body)
		}
		if answer := w.curl("--http2", target); wellFormed != (answer.status == 200) || !wellFormed && answer.exit != streamReset {
			t.Errorf("%s over HTTP/2 got %d, exit code %d: %s", path, answer.status, answer.exit, answer.body)
		}
	}
	wantSame(t, "pages asked for", site.pages(), []string{"/open?100%", "/open?100%", "/open?%zz", "/open?%zz"})
}

// streamReset is curl's exit code for an HTTP/2 stream that was reset.
const streamReset = 92
