package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"robotsproxy/internal/logtest"
)

// world is the built program as it runs, with a folder of its own.
type world struct {
	t      *testing.T
	dir    string   // its data directory
	temp   string   // its folder for temporary files, which everybody may search
	config string   // its configuration file
	vars   []string // of its environment, besides those that all have
	files  int      // that it may have open; 0: as many as the test

	origins string // a file with the certificate of https origins

	command *exec.Cmd
	exited  chan struct{} // closed when it has ended
	judged  bool          // a test has looked at how it ended
	log     *logLines
	proxy   string // its address
	admin   string // that of its admin server
}

// start runs the program with this configuration, in which ORIGINS stands for a
// file with the certificate of https origins.
func start(t *testing.T, config ...string) *world {
	t.Helper()
	w := newWorld(t, config...)
	w.run()
	t.Cleanup(w.stop)
	return w
}

// newWorld is a world whose program has not been started.
func newWorld(t *testing.T, config ...string) *world {
	t.Helper()
	temp := t.TempDir()
	must(t, os.Chmod(filepath.Dir(temp), 0o755))
	w := &world{t: t, dir: filepath.Join(t.TempDir(), "data"), temp: temp, config: filepath.Join(t.TempDir(), "robotsproxy.yaml"), origins: originCertificate(t)}
	w.configure(config...)
	return w
}

// configure writes the configuration.
func (w *world) configure(config ...string) {
	w.t.Helper()
	text := strings.Join(config, "\n")
	if !strings.Contains(text, "ORIGINS") {
		text += "\nupstream: {ca_file: ORIGINS}"
	}
	text = strings.ReplaceAll(text, "ORIGINS", strconv.Quote(w.origins))
	must(w.t, os.WriteFile(w.config, []byte(text), 0o600))
}

// in is the same world, as a subtest sees it.
func (w *world) in(t *testing.T) *world {
	same := *w
	same.t = t
	return &same
}

// run starts the program on free ports, and returns when it serves.
func (w *world) run() {
	w.t.Helper()
	w.runWith("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
}

func (w *world) runWith(flags ...string) {
	w.t.Helper()
	w.log = &logLines{}
	w.exited, w.judged = make(chan struct{}), false
	w.command = exec.Command(program, append([]string{"serve", "--config", w.config, "--data-dir", w.dir}, flags...)...)
	if w.files > 0 {
		w.command = exec.Command("sh", append([]string{"-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(w.files)}, w.command.Args...)...)
	}
	w.command.Stderr = w.log
	w.command.Env = append([]string{"HOME=" + w.dir, "http_proxy=http://" + deadAddress, "https_proxy=http://" + deadAddress}, w.vars...)
	must(w.t, w.command.Start())
	go func(command *exec.Cmd, exited chan struct{}) {
		command.Wait()
		close(exited)
	}(w.command, w.exited)
	line := w.log.wait(w.t, w.exited, `"message":"serving"`)
	w.proxy, _ = line["listen"].(string)
	w.admin, _ = line["admin_listen"].(string)
}

// stop ends the program as an operator would, if it has not ended. It must end
// well.
func (w *world) stop() {
	w.t.Helper()
	if w.judged {
		return
	}
	w.signal(syscall.SIGTERM)
	if state := w.ended(); state.ExitCode() != 0 {
		w.t.Errorf("after SIGTERM: %v; its log:\n%s", state, w.log)
	}
	for _, line := range w.log.Lines() {
		if !json.Valid([]byte(line)) {
			w.t.Errorf("a line of the log is no JSON: %s", line)
		}
	}
}

func (w *world) signal(s os.Signal) { w.command.Process.Signal(s) }

// ended waits for the program's end.
func (w *world) ended() *os.ProcessState {
	w.t.Helper()
	select {
	case <-w.exited:
	case <-time.After(testTimeout):
		w.command.Process.Kill()
		<-w.exited
		w.t.Errorf("the program did not end; its log:\n%s", w.log)
	}
	w.judged = true
	return w.command.ProcessState
}

// client is one in Go that has the CA.
func (w *world) client(h2 bool) *http.Client {
	w.t.Helper()
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(w.caFile())
	must(w.t, err)
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: w.proxy}),
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2: h2,
	}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: testTimeout}
}

// get asks the admin server.
func (w *world) get(path string, host ...string) (status int, body string) {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+w.admin+path, nil)
	must(w.t, err)
	for _, name := range host {
		r.Host = name
	}
	return w.do(r)
}

// send is get with another method, and with a header if there is one.
func (w *world) send(method, path string, header ...string) (status int, body string) {
	w.t.Helper()
	r, err := http.NewRequest(method, "http://"+w.admin+path, nil)
	must(w.t, err)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return w.do(r)
}

func (w *world) do(r *http.Request) (status int, body string) {
	w.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testTimeout}
	resp, err := client.Do(r)
	must(w.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(w.t, err)
	return resp.StatusCode, string(text)
}

// ask gets an object from the API.
func (w *world) ask(path string) object {
	w.t.Helper()
	status, body := w.get(path)
	var o object
	if err := json.Unmarshal([]byte(body), &o); err != nil || status != http.StatusOK {
		w.t.Fatalf("GET %s: status %d: %s", path, status, body)
	}
	return o
}

// metric is the value of one series, "" if there is none.
func (w *world) metric(series string) string {
	w.t.Helper()
	_, text := w.get("/metrics")
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, series+" "); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// wantMetric waits until a series has this value: what it counts may end a
// little after the client has its answer.
func (w *world) wantMetric(series, want string) {
	w.t.Helper()
	waitFor(w.t, func() bool { return w.metric(series) == want },
		func() string { return fmt.Sprintf("%s is %q, want %s", series, w.metric(series), want) })
}

// decision is the log's line on a request for this URL.
func (w *world) decision(url string) object {
	w.t.Helper()
	return w.log.wait(w.t, w.exited, `"message":"request"`, `"url":"`+url+`"`)
}

// object is one of JSON.
type object map[string]any

// want compares the members named, in pairs of a name and its value.
func (o object) want(t *testing.T, pairs ...any) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := o[pairs[i].(string)]; fmt.Sprint(got) != fmt.Sprint(pairs[i+1]) {
			t.Errorf("%s is %v, want %v; in %v", pairs[i], got, pairs[i+1], o)
		}
	}
}

// logLines is the program's log, which a test can read and wait on.
type logLines struct {
	logtest.Buffer

	mu     sync.Mutex
	paused chan struct{} // closed when reading goes on; nil: it does
	gone   bool          // whoever read has left
}

// pause stops reading until it is resumed.
func (l *logLines) pause() (resume func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	paused := make(chan struct{})
	l.paused = paused
	return sync.OnceFunc(func() { close(paused) })
}

// leave ends reading.
func (l *logLines) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	paused := l.paused
	l.mu.Unlock()
	if paused != nil {
		<-paused
	}
	l.mu.Lock()
	gone := l.gone
	l.mu.Unlock()
	if gone {
		return 0, io.ErrClosedPipe // then the pipe is closed
	}
	return l.Buffer.Write(p)
}

// wait returns the first line that holds all parts. The test fails if the
// program ends without it.
func (l *logLines) wait(t *testing.T, exited <-chan struct{}, parts ...string) object {
	t.Helper()
	text := l.WaitLine(t, exited, parts...)
	var line object
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		t.Fatalf("a line of the log is no JSON: %s", text)
	}
	return line
}

// origin is a web site that remembers what it was asked for.
type origin struct {
	*httptest.Server

	mu      sync.Mutex
	asked   []*http.Request // for its pages
	fetches int             // of its robots.txt
}

// newOrigin starts a site of scheme http, https or h2, which is https with
// HTTP/2. page nil answers every page by its own path.
func newOrigin(t *testing.T, scheme string, robots http.HandlerFunc, page http.HandlerFunc) *origin {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return newOriginOn(t, l, scheme, robots, page)
}

func newOriginOn(t *testing.T, l net.Listener, scheme string, robots http.HandlerFunc, page http.HandlerFunc) *origin {
	t.Helper()
	o := &origin{}
	o.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isRobots := r.URL.Path == "/robots.txt"
		o.mu.Lock()
		if isRobots {
			o.fetches++
		} else {
			o.asked = append(o.asked, r.Clone(context.Background()))
		}
		o.mu.Unlock()
		switch {
		case isRobots:
			robots(w, r)
		case page != nil:
			page(w, r)
		default:
			io.WriteString(w, "the page "+r.RequestURI)
		}
	}))
	o.Listener.Close()
	o.Listener = l
	o.Config.ErrorLog = log.New(io.Discard, "", 0)
	o.EnableHTTP2 = scheme == "h2"
	if scheme == "http" {
		o.Start()
	} else {
		o.StartTLS()
	}
	t.Cleanup(o.Close)
	return o
}

// says answers with a robots.txt.
func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
}

// shop is the robots.txt of most tests.
func shop() http.HandlerFunc { return says(readTestdata("robots/shop.txt")) }

// pages are the targets of pages that the origin was asked for.
func (o *origin) pages() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	targets := []string{}
	for _, r := range o.asked {
		targets = append(targets, r.RequestURI)
	}
	return targets
}

// last is the last request for a page.
func (o *origin) last(t *testing.T) *http.Request {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.asked) == 0 {
		t.Fatal("the origin was asked for no page")
	}
	return o.asked[len(o.asked)-1]
}

func (o *origin) robotsFetches() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fetches
}

// originCertificate is a file with what https origins show.
func originCertificate(t *testing.T) string {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	file := filepath.Join(t.TempDir(), "origins.pem")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	return file
}

// wantSame compares two lists whatever their order.
func wantSame(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func readTestdata(name string) string {
	text, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(name)))
	if err != nil {
		panic(err)
	}
	return string(text)
}
