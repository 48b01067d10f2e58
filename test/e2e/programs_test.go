package e2e

import (
	"cmp"
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

// client is a program that people fetch pages with.
type client struct {
	name    string
	command []string // gets the URL as its last argument
	pages   pages    // the zero value means pages of the shop
	refusal string   // pattern of what it shows of a refusal; "" means its status and Proxy-Status
}

// copied copies a folder of testdata to where every user may read it.
func copied(t *testing.T, folder string) (file func(name string) string) {
	t.Helper()
	temp := t.TempDir()
	must(t, os.CopyFS(temp, os.DirFS(filepath.Join("testdata", folder))))
	must(t, os.Chmod(filepath.Dir(temp), 0o755))
	return func(name string) string { return filepath.Join(temp, name) }
}

// compiled builds a program in Go.
func compiled(t *testing.T, source string) string {
	t.Helper()
	program := strings.TrimSuffix(source, ".go")
	if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", source, err, out)
	}
	return program
}

// pages are the paths of a page that robots.txt allows and of one that it does not.
type pages struct{ allowed, refused string }

var (
	shopPages        = pages{"/products/lamp", "/cart"}
	shopRepositories = pages{"/products/shop.git", "/account/shop.git"}
	shopClips        = pages{"/products/lamp.mp4", "/account/lamp.mp4"}
)

// What a refusal looks like: its status and Proxy-Status, or the page that
// robotsproxy shows instead.
const (
	statusAndProxyStatus = `(?is)\b403\b.*Proxy-Status: robotsproxy-run-\w+; error=http_request_denied`
	answerPage           = `(?s)<h1>403 .*the proxy robotsproxy-run-\w+`
)

// obeys has the client get a page that robots.txt allows and one that it does not. The site
// must get the first from the proxy and must not be asked for the second. get runs the client
// for a path of the site, and returns what it wrote.
func (c client) obeys(t *testing.T, site *origin, get func(path string) string) {
	t.Helper()
	shown := cmp.Or(c.pages, shopPages)
	if c.refusal == "" {
		c.refusal = statusAndProxyStatus
	}
	if out := get(shown.allowed); !strings.Contains(out, "the page "+shown.allowed) {
		t.Errorf("the allowed page did not come; the client wrote:\n%s", out)
	}
	wantByProxy(t, site.askedFor(shown.allowed))

	out := get(shown.refused)
	if !regexp.MustCompile(c.refusal).MatchString(out) {
		t.Errorf("the client shows nothing like %s; it wrote:\n%s", c.refusal, out)
	}
	if asked := site.askedFor(shown.refused); len(asked) > 0 {
		t.Errorf("the site was asked for the refused page %d times", len(asked))
	}
}

// output runs the errand for a minute at most, and returns what the program and the command
// wrote. The command may fail, the program may not.
func (e *errand) output(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, e.Start())
	stop := context.AfterFunc(ctx, func() { e.Process.Signal(syscall.SIGTERM) })
	defer stop()
	err := e.Wait()
	switch code := e.ProcessState.ExitCode(); code {
	case -1, 2, 125, 126, 127:
		t.Fatalf("%v\n%s%s", err, &e.out, &e.err)
	}
	return e.out.String() + e.err.String()
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

// repositories returns a handler that serves git repositories, and pages and clips that say their own
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
		if strings.HasSuffix(r.URL.Path, ".mp4") {
			w.Header().Set("Content-Type", "video/mp4") // else yt-dlp takes it for a page
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
