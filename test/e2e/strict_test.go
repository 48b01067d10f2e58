package e2e

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// spellings are ways to write /private, /a+b and /c:d that some servers accept.
var spellings = []string{
	"//private", "///private", "/./private", "/.//private", "//./private", "/open/../private", "/open/..//private", "/open//../private", "/open//..//private",
	"/open/.././private", "/open/../../private", "/../private", "/..//private", "/%2Fprivate", "/%2fprivate", "/%2F%2Fprivate", "//%2Fprivate", "/.%2Fprivate",
	"/%2E/private", "/%2e%2Fprivate", "/%2e%2e/private", "/%2e%2e%2fprivate", "/open/%2e%2e/private", "/open/%2E%2E%2Fprivate", "/open%2F..%2Fprivate",
	"/open%2f%2e%2e%2fprivate", "/open/..%2Fprivate", "/open%2F../private", "/open//%2e%2e//private", "/open/x/../../private", "/open/x//../../private",
	"/open/x/..//../private", "/%70rivate", "/p%72ivate", "/priv%61te", "/%70%72%69%76%61%74%65", "/private?", "/private?x", "/private?//", "//private?x=1", "/%2Fprivate?x",
	"/a%2Bb", "/a%2bb", "//a+b", "/%61+b", "/open//../a%2Bb",
	"/c%3Ad", "/c%3ad", "//c:d", "/./c%3Ad", "/%63:d",
}

// TestStrictPaths asks real servers for disallowed pages in all spellings. With strict paths,
// nothing that they serve gets through, and check and the API say the same. The test does not
// run in parallel: another one might take the ports that it has chosen for the servers.
func TestStrictPaths(t *testing.T) {
	for name, serve := range map[string]func(t *testing.T, port, folder string) *exec.Cmd{"nginx": nginx, "python": pythonServer} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			site := serveFolder(t, serve)
			var served []string
			for path, status := range w.statuses(site, "ExampleBot", spellings, "--noproxy", "*") {
				if status == 200 {
					served = append(served, path)
				}
			}
			through := w.served(site, served)
			t.Logf("the server accepts %d of %d spellings, %d of which are other paths by RFC 9309: %s", len(served), len(spellings), len(through), through)
			if len(through) < 5 {
				t.Errorf("without strict paths only these get through: %q", through)
			}

			w.reload(true, "robots: {strict_paths: true}")
			for _, tunnel := range [][]string{nil, {"--proxytunnel"}} {
				if through := w.served(site, served, tunnel...); len(through) > 0 {
					t.Errorf("strict paths let these through (%s): %q", tunnel, through)
				}
			}
			for _, path := range served {
				w.ask("/api/v1/verdict?agent=ExampleBot&url="+url.QueryEscape(site+path)).want(t, "verdict", "disallowed", "reason", "rule")
			}
			check := exec.Command(program, "check", "--config", w.config, "--robots", filepath.Join("testdata", "robots", "spellings.txt"), site+"//private")
			if out, _ := check.CombinedOutput(); check.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "for the path as servers read it, /private") {
				t.Errorf("check says %s", out)
			}
			if got := w.statuses(site, "ExampleBot", []string{"/open/", "//open//", "/robots.txt"}); got["/open/"] != 200 || got["//open//"] == 403 || got["/robots.txt"] != 200 {
				t.Errorf("what is allowed gets %v", got)
			}
		})
	}
}

// served returns those of the paths that a site serves through the proxy.
func (w *world) served(site string, paths []string, args ...string) (through []string) {
	w.t.Helper()
	for path, status := range w.statuses(site, "ExampleBot", paths, args...) {
		if status == 200 {
			through = append(through, path)
		}
	}
	return through
}

// serveFolder starts a server with the pages that the spellings mean.
func serveFolder(t *testing.T, serve func(t *testing.T, port, folder string) *exec.Cmd) (site string) {
	t.Helper()
	folder := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(folder, "open", "x"), 0o755))
	for name, text := range map[string]string{
		"robots.txt": string(readTestdata("robots/spellings.txt")), "private": "secret", "a+b": "secret", "c:d": "secret", "open/index.html": "open",
	} {
		must(t, os.WriteFile(filepath.Join(folder, filepath.FromSlash(name)), []byte(text), 0o644))
	}
	return startServer(t, func(port string) *exec.Cmd { return serve(t, port, folder) })
}

// startServer starts a program that serves at a port of 127.0.0.1.
func startServer(t *testing.T, serving func(port string) *exec.Cmd) (site string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	must(t, l.Close())
	server := serving(port)
	must(t, server.Start())
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	waitFor(t, func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, func() string { return "the server does not listen" })
	return "http://127.0.0.1:" + port
}

// nginx is nginx with its default handling of paths.
func nginx(t *testing.T, port, folder string) *exec.Cmd { return nginxWith(t, port, folder, "") }

// nginxWith is nginx with these directives for its server.
func nginxWith(t *testing.T, port, folder, directives string) *exec.Cmd {
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			t.Skip("there is no nginx; install the package nginx-light, as make deps does")
		}
	}
	own := t.TempDir()
	temporary := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += kind + "_temp_path " + own + ";"
	}
	config := fmt.Sprintf("daemon off; master_process off; pid %s/pid; error_log %s/errors; events {} http { access_log off; %s server { listen 127.0.0.1:%s; root %s; %s } }",
		own, own, temporary, port, folder, directives)
	must(t, os.WriteFile(filepath.Join(own, "nginx.conf"), []byte(config), 0o600))
	return exec.Command(program, "-p", own, "-e", filepath.Join(own, "errors"), "-c", filepath.Join(own, "nginx.conf"))
}

func pythonServer(t *testing.T, port, folder string) *exec.Cmd {
	program, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3; install the package python3, as make deps does")
	}
	return exec.Command(program, "-m", "http.server", port, "--bind", "127.0.0.1", "--directory", folder)
}
