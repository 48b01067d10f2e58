//go:build clients

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// client is a program that people fetch pages with. It has no flags and no code for the proxy
// or its CA, except what the README's table says it needs.
type client struct {
	name    string
	command []string // gets the URL as its last argument
	pages   pages    // the zero value means pages of the shop
	refusal string   // pattern of what it shows of a refusal; "" means its status and Proxy-Status
}

// pages are the paths of a page that robots.txt allows and of one that it does not.
type pages struct{ allowed, refused string }

var (
	shopPages        = pages{"/products/lamp", "/cart"}
	shopRepositories = pages{"/products/shop.git", "/account/shop.git"}
)

// What a refusal looks like: its status and Proxy-Status, or the page that
// robotsproxy shows instead.
const (
	statusAndProxyStatus = `(?is)\b403\b.*Proxy-Status: robotsproxy-run-\w+; error=http_request_denied`
	answerPage           = `(?s)<h1>403 .*the proxy robotsproxy-run-\w+`
)

// clients returns the clients of the README's table, in its order.
func clients(t *testing.T) []client {
	t.Helper()
	file := func(name string) string { return filepath.Join("testdata", "clients", name) }
	python := func(library string) []string { return []string{"/usr/bin/python3", file("fetch.py"), library} }
	compiled := filepath.Join(t.TempDir(), "fetch")
	if out, err := exec.Command("go", "build", "-o", compiled, file("fetch.go")).CombinedOutput(); err != nil {
		t.Fatalf("building the client in Go: %v\n%s", err, out)
	}
	node24 := filepath.Join(modules(t), "node", "bin", "node")
	return []client{
		{name: "curl", command: []string{"curl", "--silent", "--show-error", "--include"}},
		{name: "wget", command: []string{"wget", "--no-verbose", "--server-response", "--output-document=-"}},
		{name: "git", command: []string{file("clone.sh")}, pages: shopRepositories, refusal: `returned error: 403`},
		{name: "Python requests", command: python("requests")},
		{name: "Python httpx", command: python("httpx")},
		{name: "Python aiohttp", command: python("aiohttp")},
		{name: "Python urllib", command: python("urllib")},
		{name: "Scrapy", command: []string{"scrapy", "fetch", "--nolog"}, refusal: answerPage},
		{name: "Node 24 fetch", command: []string{node24, file("fetch.cjs"), "fetch"}},
		{name: "Node 24 http", command: []string{node24, file("fetch.cjs"), "http"}},
		{name: "older Node fetch", command: []string{"node", "--require=" + "./" + file("undici.cjs"), file("fetch.cjs"), "fetch"}},
		{name: "older Node http", command: []string{"node", "--require=global-agent/bootstrap", file("fetch.cjs"), "http"}},
		{name: "Go", command: []string{compiled}},
		{name: "Java URLConnection", command: []string{"java", file("Fetch.java"), "URLConnection"}},
		{name: "Java HttpClient", command: []string{"java", file("Fetch.java"), "HttpClient"}},
		{name: "Ruby", command: []string{"ruby", file("fetch.rb")}},
		{name: "PHP curl", command: []string{"php", file("fetch.php"), "curl"}},
		{name: "PHP stream", command: []string{"php", file("fetch.php"), "stream"}},
		{name: "Chromium", command: []string{file("chromium.sh")}, refusal: answerPage},
	}
}

// modules returns the folder of the packages that make test-clients installs from npm.
func modules(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("..", "..", ".clients", "node_modules"))
	must(t, err)
	return folder
}

func TestEveryClientObeysUnderRun(t *testing.T) {
	for _, c := range clients(t) {
		if c.pages == (pages{}) {
			c.pages = shopPages
		}
		if c.refusal == "" {
			c.refusal = statusAndProxyStatus
		}
		for _, scheme := range []string{"http", "https"} {
			t.Run(c.name+" over "+scheme, func(t *testing.T) {
				site := newOrigin(t, scheme, shop(), repositories(t))
				address := scheme + "://shop.example.com"

				if out := c.run(t, site, address+c.pages.allowed); !strings.Contains(out, "the page "+c.pages.allowed) {
					t.Errorf("the allowed page did not come; the client wrote:\n%s", out)
				}
				wantByProxy(t, site.askedFor(c.pages.allowed))

				out := c.run(t, site, address+c.pages.refused)
				if !regexp.MustCompile(c.refusal).MatchString(out) {
					t.Errorf("the client shows nothing like %s; it wrote:\n%s", c.refusal, out)
				}
				if asked := site.askedFor(c.pages.refused); len(asked) > 0 {
					t.Errorf("the site was asked for the refused page %d times", len(asked))
				}
			})
		}
	}
}

// run gets one URL through a proxy of the client's own and returns what the client wrote.
// Every host name leads to the site. The site needs a name because Go and Ruby use no proxy for
// loopback names.
func (c client) run(t *testing.T, site *origin, url string) string {
	t.Helper()
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args := append([]string{"run", "--config", w.config, "--data-dir", w.dir, "--"}, c.command...)
	run := exec.CommandContext(ctx, program, append(args, url)...)
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
	run.WaitDelay = testTimeout
	parent := "http://" + newParent(t, site)
	run.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		"http_proxy=" + parent, "https_proxy=" + parent,
		"NODE_PATH=" + modules(t), "PYTHONDONTWRITEBYTECODE=1",
	}
	out, err := run.CombinedOutput()
	switch code := run.ProcessState.ExitCode(); code {
	case -1, 2, 125, 126, 127: // run itself failed, not the client
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// repositories returns a handler that serves git repositories, and pages that say their own
// path. The one file of each repository says the repository's path.
func repositories(t *testing.T) http.HandlerFunc {
	t.Helper()
	root := t.TempDir()
	for _, path := range []string{shopRepositories.allowed, shopRepositories.refused} {
		page := "the page " + path
		git(t, "", "init", "--quiet", "--bare", "--initial-branch=main", root+path)
		git(t, fmt.Sprintf("commit refs/heads/main\ncommitter Shop <shop@example.com> 0 +0000\ndata 0\nM 644 inline page\ndata %d\n%s\n", len(page), page),
			"--git-dir", root+path, "fast-import", "--quiet")
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(git(t, "", "--exec-path")), "git-http-backend"),
		Root: "/",
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"},
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, ".git/") {
			backend.ServeHTTP(w, r)
			return
		}
		io.WriteString(w, "the page "+r.RequestURI)
	}
}

func git(t *testing.T, input string, args ...string) string {
	t.Helper()
	command := exec.Command("git", args...)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return string(out)
}

// askedFor returns the requests for a page or for anything below it.
func (o *origin) askedFor(path string) (found []*http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.asked {
		if r.URL.Path == path || strings.HasPrefix(r.URL.Path, path+"/") {
			found = append(found, r)
		}
	}
	return found
}

// wantByProxy checks that a site was asked, and only by the proxy of run.
func wantByProxy(t *testing.T, asked []*http.Request) {
	t.Helper()
	if len(asked) == 0 {
		t.Error("the site was not asked for the allowed page")
	}
	for _, r := range asked {
		if via := r.Header.Get("Via"); !strings.Contains(via, " robotsproxy-run-") {
			t.Errorf("a request bypassed the proxy: Via is %q", via)
		}
	}
}
