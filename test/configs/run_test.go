package configs

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// testTimeout is how long a test waits for anything. It ends what hangs, and nothing that
// is only slow.
const testTimeout = 2 * time.Minute

// place is a setup on this machine: its folders are below a temporary folder, and its ports are
// free ones.
type place struct {
	setup
	t             *testing.T
	root          string
	config        string // file of the configuration
	listen, admin string
	origins       string // file with the certificate of https origins
}

// place writes the setup's files, and those that its operator adds.
func (s setup) place(t *testing.T) *place {
	t.Helper()
	p := &place{setup: s, t: t, root: t.TempDir(), listen: freePort(t), admin: freePort(t)}
	p.config = p.path(filepath.Join(s.etc, s.config))
	for name, text := range s.files {
		p.write(filepath.Join(s.etc, name), p.moved(text))
	}
	if len(s.caFiles) > 0 {
		made := t.TempDir()
		if out, err := exec.Command(program, "ca", "--data-dir", made).CombinedOutput(); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		for path, name := range s.caFiles {
			p.write(filepath.Join(s.etc, path), readFile(t, filepath.Join(made, name)))
		}
	}
	if s.trust == "" && s.scraperTrust != "" { // the operator asks the proxy for its certificate
		certificate, err := p.command("ca").Output()
		must(t, err)
		p.write(filepath.Join(s.scraperTrust, "ca.pem"), string(certificate))
	}
	return p
}

// path returns where a path of the setup is on this machine.
func (p *place) path(path string) string { return filepath.Join(p.root, filepath.FromSlash(path)) }

// write writes a file, in a folder that everybody may read.
func (p *place) write(path, text string) {
	p.t.Helper()
	must(p.t, os.MkdirAll(filepath.Dir(p.path(path)), 0o755))
	must(p.t, os.WriteFile(p.path(path), []byte(text), 0o600))
}

// moved returns a text with the setup's folders and addresses replaced by those on this
// machine. The proxy may dial loopback here, where the origins are.
func (p *place) moved(text string) string {
	var folders []string
	for _, folder := range []string{p.settings(p.t).DataDir, p.environment["ROBOTSPROXY_DATA_DIR"], p.trust, p.scraperTrust} {
		if folder != "" {
			folders = append(folders, regexp.QuoteMeta(folder))
		}
	}
	text = regexp.MustCompile("("+strings.Join(folders, "|")+`)\b`).ReplaceAllStringFunc(text, p.path)
	if p.redirect != nil {
		return text
	}
	return strings.NewReplacer(
		p.scraper["http_proxy"], "http://"+p.listen,
		"    - fe80::/10\n    - 127.0.0.0/8\n", "",
		"  - fe80::/10\n  - 127.0.0.0/8\n", "", // as the chart writes it
	).Replace(text)
}

// command returns a command of the program, as the proxy's container or service runs it.
func (p *place) command(args ...string) *exec.Cmd {
	command := exec.Command(program, args...)
	command.Env = []string{
		"ROBOTSPROXY_CONFIG=" + p.config, "ROBOTSPROXY_LISTEN=" + p.listen, "ROBOTSPROXY_ADMIN_LISTEN=" + p.admin,
		"SSL_CERT_FILE=" + p.origins,
	}
	for name, value := range p.environment {
		command.Env = append(command.Env, name+"="+p.moved(value))
	}
	return command
}

// env returns the variables that `robotsproxy env` prints, with the paths that the scraper sees.
// A scraper that gets only the CA has it in place of the bundle.
func (p *place) env() map[string]string {
	p.t.Helper()
	out, err := p.command("env", "--shell", "dotenv", "--listen", strings.TrimPrefix(p.scraper["http_proxy"], "http://")).Output()
	must(p.t, err)
	said := strings.ReplaceAll(string(out), p.root, "")
	if p.trust == "" {
		said = strings.NewReplacer(p.environment["ROBOTSPROXY_DATA_DIR"]+"/trust", p.scraperTrust, "ca-bundle.pem", "ca.pem").Replace(said)
	}
	return variables(said)
}

// curl gets a URL with the scraper's environment alone, and returns what curl writes.
func (p *place) curl(url string) string {
	p.t.Helper()
	command := exec.Command("curl", "--silent", "--show-error", "--max-time", "120", url)
	command.Env = []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range p.scraper {
		command.Env = append(command.Env, name+"="+p.moved(value))
	}
	out, _ := command.CombinedOutput()
	return string(out)
}

// serve starts the proxy and returns when the setup's own probe says that it is healthy.
func (p *place) serve() *exec.Cmd {
	p.t.Helper()
	healthy := func() bool { return exitCode(p.t, p.command(p.health[1:]...).Run()) == 0 }
	if healthy() {
		p.t.Fatal("the probe succeeds before the proxy runs")
	}
	log := &strings.Builder{}
	server := p.command("serve")
	if p.excepted != "" {
		as(p.excepted, server)
	}
	server.Stderr = log
	must(p.t, server.Start())
	p.t.Cleanup(func() {
		server.Process.Kill() // if it has not ended
		server.Wait()
		if p.t.Failed() {
			p.t.Logf("the proxy's log:\n%s", log)
		}
	})
	for deadline := time.Now().Add(testTimeout); !healthy(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatal("the proxy does not become healthy")
		}
	}
	return server
}

// origin starts a site with a private page, and with a slow one whose end waits for release.
func origin(t *testing.T, release <-chan struct{}) (plain, secure *httptest.Server) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			io.WriteString(w, "User-agent: *\nDisallow: /private\n")
		case "/slow":
			io.WriteString(w, "begin ")
			w.(http.Flusher).Flush()
			<-release
			io.WriteString(w, "end")
		default:
			fmt.Fprintf(w, "page %s", r.URL.Path)
		}
	})
	plain, secure = httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	return plain, secure
}

func TestSetupsWork(t *testing.T) {
	for _, s := range setups(t) {
		if s.redirect != nil {
			continue // TestRedirectingSetupsWork
		}
		t.Run(s.name, func(t *testing.T) {
			release := make(chan struct{})
			plain, secure := origin(t, release)
			p := s.place(t)
			p.write("origins.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
			p.origins = p.path("origins.pem")
			server := p.serve()

			for name, path := range trustPaths(s.scraper) {
				if _, err := os.Stat(p.moved(path)); err != nil || !strings.HasPrefix(path, s.scraperTrust+"/") {
					t.Errorf("%s names %s, which is not in the folder %s that the scraper sees: %v", name, path, s.scraperTrust, err)
				}
			}
			p.wantNoKeyIn(s.scraperTrust)
			for _, url := range []string{plain.URL, secure.URL} {
				if got := p.curl(url + "/open"); got != "page /open" {
					t.Errorf("%s/open: %s", url, got)
				}
				if got := p.curl(url + "/private"); !strings.Contains(got, `"Disallow: /private" on line 2`) {
					t.Errorf("%s/private: %s", url, got)
				}
			}
			p.wantDrain(server, plain.URL+"/slow", release)
		})
	}
}

// wantNoKeyIn checks that a folder has files, and no private key among them.
func (p *place) wantNoKeyIn(folder string) {
	p.t.Helper()
	files := 0
	must(p.t, filepath.WalkDir(p.path(folder), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		if strings.Contains(readFile(p.t, path), "PRIVATE KEY") || strings.Contains(entry.Name(), "key") {
			p.t.Errorf("the scraper can read %s", path)
		}
		return nil
	}))
	if files == 0 {
		p.t.Errorf("%s is empty", folder)
	}
}

// wantDrain ends the proxy in the middle of a download, which must still be complete.
func (p *place) wantDrain(server *exec.Cmd, url string, release chan struct{}) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	download := exec.CommandContext(ctx, "curl", "--silent", "--no-buffer", "--proxy", "http://"+p.listen, url)
	out, err := download.StdoutPipe()
	must(p.t, err)
	must(p.t, download.Start())
	begin := make([]byte, len("begin "))
	if _, err := io.ReadFull(out, begin); err != nil {
		p.t.Fatal(err)
	}
	must(p.t, server.Process.Signal(syscall.SIGTERM))
	for { // until the proxy has the signal
		conn, err := net.Dial("tcp", p.listen)
		if err != nil {
			break
		}
		conn.Close()
		if ctx.Err() != nil {
			p.t.Fatal("the proxy still accepts connections")
		}
	}
	close(release)
	if rest, err := io.ReadAll(out); string(begin)+string(rest) != "begin end" {
		p.t.Errorf("the download brings %q and %q, %v", begin, rest, err)
	}
	if err := download.Wait(); err != nil {
		p.t.Errorf("curl: %v", err)
	}
	if code := exitCode(p.t, server.Wait()); code != 0 {
		p.t.Errorf("the proxy ends with exit code %d", code)
	}
}

func freePort(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}
