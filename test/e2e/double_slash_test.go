package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Python's http.server answers 404 to a request in absolute form, as many servers do. So
// paths that begin with // must reach it in origin form.
func TestDoubleSlashOfPythonsServer(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is missing: install python3")
	}
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is missing: install curl")
	}
	root := t.TempDir()
	must(t, os.WriteFile(filepath.Join(root, "page.txt"), []byte("page"), 0o600))
	must(t, os.WriteFile(filepath.Join(root, "robots.txt"), []byte("User-agent: *\nDisallow: /private\n"), 0o600))
	server := exec.Command(python, "-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", root, "0")
	out, err := server.StdoutPipe()
	must(t, err)
	must(t, server.Start())
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	greeting, err := bufio.NewReader(out).ReadString('\n') // … (http://127.0.0.1:PORT/) ...
	must(t, err)
	_, url, _ := strings.Cut(greeting, "(")
	url, _, _ = strings.Cut(url, "/)")
	w := start(t)
	for _, path := range []string{"/page.txt", "//page.txt", "///page.txt?query"} {
		body, err := exec.Command(curl, "-sS", "--noproxy", "", "-x", w.proxy, "--path-as-is", url+path).CombinedOutput()
		if err != nil || string(body) != "page" {
			t.Errorf("%s%s: %v %s", url, path, err, body)
		}
	}
}
