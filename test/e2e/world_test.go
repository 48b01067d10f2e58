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

// world is a running copy of the built program, with a folder of its own.
type world struct {
	t      *testing.T
	binary string   // the program's file
	dir    string   // its data directory
	temp   string   // its folder for temporary files, which everybody may enter
	config string   // its configuration file
	vars   []string // environment variables, besides those of every world
	files  int      // how many files it may have open; 0 means as many as the test
	user   uint32   // whom it runs as; 0 means the user of the test
	notify string   // where it tells that it serves, as systemd's services do; "": nowhere

	sockets     []*os.File // those that it is passed, as by systemd
	socketNames []string

	origins string // file with the certificate of https origins

	command *exec.Cmd
	exited  chan struct{} // closed when the program has ended
	checked bool          // a test has checked how it ended
	log     *logLines
	proxy   string // its address
	admin   string // the address of its admin server
}

// start runs the program with a configuration, in which ORIGINS stands for a file with the
// certificate of https origins. The program ends with the test.
func start(t *testing.T, config ...string) *world {
	t.Helper()
	w := newWorld(t, config...)
	w.run()
	t.Cleanup(w.stop)
	return w
}

// newWorld makes a world whose program has not been started.
func newWorld(t *testing.T, config ...string) *world {
	t.Helper()
	temp := t.TempDir()
	must(t, os.Chmod(filepath.Dir(temp), 0o755))
	w := &world{t: t, binary: program, dir: filepath.Join(t.TempDir(), "data"), temp: temp, config: filepath.Join(t.TempDir(), "robotsproxy.yaml"), origins: originCertificate(t)}
	w.configure(config...)
	return w
}

// configure writes the configuration file, which the program does not read until it is
// told to.
func (w *world) configure(config ...string) {
	w.t.Helper()
	text := strings.Join(config, "\n")
	if !strings.Contains(text, "ORIGINS") {
		text += "\nupstream: {ca_file: ORIGINS}"
	}
	text = strings.ReplaceAll(text, "ORIGINS", strconv.Quote(w.origins))
	must(w.t, os.WriteFile(w.config, []byte(text), 0o600))
}

// in returns the same world for a subtest.
func (w *world) in(t *testing.T) *world {
	same := *w
	same.t = t
	return &same
}

// run starts the program on free ports and returns when it serves.
func (w *world) run() {
	w.t.Helper()
	w.runWith("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
}

func (w *world) runWith(flags ...string) {
	w.t.Helper()
	w.launch(flags...)
	line := w.log.wait(w.t, w.exited, `"message":"serving"`)
	w.proxy, _ = line["listen"].(string)
	w.admin, _ = line["admin_listen"].(string)
}

// launch starts the program, and does not wait until it serves.
func (w *world) launch(flags ...string) {
	w.t.Helper()
	w.log = &logLines{}
	w.exited, w.checked = make(chan struct{}), false
	w.command = exec.Command(w.binary, append([]string{"serve", "--config", w.config, "--data-dir", w.dir}, flags...)...)
	if w.files > 0 {
		w.command = exec.Command("sh", append([]string{"-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(w.files)}, w.command.Args...)...)
	}
	if len(w.sockets) > 0 {
		w.command = exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`}, w.command.Args...)...)
		w.command.ExtraFiles = w.sockets
	}
	if w.user != 0 {
		w.command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: w.user, Gid: w.user}}
	}
	w.command.Stderr = w.log
	w.command.Env = []string{"HOME=" + w.dir, "http_proxy=http://" + deadAddress, "https_proxy=http://" + deadAddress}
	if len(w.sockets) > 0 {
		w.command.Env = append(w.command.Env, "LISTEN_FDS="+strconv.Itoa(len(w.sockets)), "LISTEN_FDNAMES="+strings.Join(w.socketNames, ":"))
	}
	if w.notify != "" {
		w.command.Env = append(w.command.Env, "NOTIFY_SOCKET="+w.notify)
	}
	w.command.Env = append(w.command.Env, w.vars...)
	must(w.t, w.command.Start())
	go func(command *exec.Cmd, exited chan struct{}) {
		command.Wait()
		close(exited)
	}(w.command, w.exited)
}

// stop ends the program as an operator would, unless a test has done so. The program must
// exit with 0, and every line of its log must be JSON.
func (w *world) stop() {
	w.t.Helper()
	if w.checked {
		return
	}
	w.signal(syscall.SIGTERM)
	if state := w.ended(); state.ExitCode() != 0 {
		w.t.Errorf("after SIGTERM: %v; its log:\n%s", state, w.log)
	}
	for _, line := range w.log.Lines() {
		if !json.Valid([]byte(line)) {
			w.t.Errorf("this line of the log is not JSON: %s", line)
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
	w.checked = true
	return w.command.ProcessState
}

// client returns a Go client that trusts the CA.
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

// get asks the admin server, by the host name given if there is one.
func (w *world) get(path string, host ...string) (status int, body string) {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+w.admin+path, nil)
	must(w.t, err)
	for _, name := range host {
		r.Host = name
	}
	return w.do(r)
}

// send asks the admin server with a method and header fields, in pairs of name and value.
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

// metric returns the value of one series, or "" if there is no such series.
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

// wantMetric waits until a series has this value. A request may be counted a little after
// the client has its answer.
func (w *world) wantMetric(series, want string) {
	w.t.Helper()
	waitFor(w.t, func() bool { return w.metric(series) == want },
		func() string { return fmt.Sprintf("%s is %q, want %s", series, w.metric(series), want) })
}

// decision waits for the log's line about a request for this URL.
func (w *world) decision(url string) object {
	w.t.Helper()
	return w.log.wait(w.t, w.exited, `"message":"request"`, `"url":"`+url+`"`)
}

// object is a JSON object.
type object map[string]any

// want compares members of the object, given in pairs of name and value.
func (o object) want(t *testing.T, pairs ...any) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := o[pairs[i].(string)]; fmt.Sprint(got) != fmt.Sprint(pairs[i+1]) {
			t.Errorf("%s is %v, want %v; in %v", pairs[i], got, pairs[i+1], o)
		}
	}
}

// logLines is the program's log. A test can read it, wait for lines, and stop taking them.
type logLines struct {
	logtest.Buffer

	mu     sync.Mutex
	paused chan struct{} // closed when reading continues; nil means it was never paused
	gone   bool          // the reader has left
}

// pause stops reading until resume is called.
func (l *logLines) pause() (resume func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	paused := make(chan struct{})
	l.paused = paused
	return sync.OnceFunc(func() { close(paused) })
}

// leave closes the pipe at its reading end.
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
		return 0, io.ErrClosedPipe // makes exec.Cmd close the pipe
	}
	return l.Buffer.Write(p)
}

// wait waits for a line that holds all parts and returns the first one. The test fails if
// the program ends without such a line.
func (l *logLines) wait(t *testing.T, exited <-chan struct{}, parts ...string) object {
	t.Helper()
	text := l.WaitLine(t, exited, parts...)
	var line object
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		t.Fatalf("this line of the log is not JSON: %s", text)
	}
	return line
}

// origin is a web site that remembers the requests it gets.
type origin struct {
	*httptest.Server

	mu     sync.Mutex
	asked  []*http.Request // for pages
	robots []*http.Request // for robots.txt
}

// newOrigin starts a site of scheme http, https or h2, which is https with HTTP/2. If page
// is nil, every page says its own path.
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
		if seen := r.Clone(context.Background()); isRobots {
			o.robots = append(o.robots, seen)
		} else {
			o.asked = append(o.asked, seen)
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

// says returns a handler that answers with this text.
func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
}

// shop returns a handler for the robots.txt of most tests.
func shop() http.HandlerFunc { return says(readTestdata("robots/shop.txt")) }

// pages returns the request targets of the pages that the origin was asked for.
func (o *origin) pages() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	targets := []string{}
	for _, r := range o.asked {
		targets = append(targets, r.RequestURI)
	}
	return targets
}

// last returns the last request for a page.
func (o *origin) last(t *testing.T) *http.Request {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.asked) == 0 {
		t.Fatal("the origin was asked for no page")
	}
	return o.asked[len(o.asked)-1]
}

// robotsFetches returns how often the origin was asked for its robots.txt.
func (o *origin) robotsFetches() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.robots)
}

// originCertificate writes the certificate of https origins to a file.
func originCertificate(t *testing.T) string {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	file := filepath.Join(t.TempDir(), "origins.pem")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	return file
}

// wantSame compares two lists, in any order.
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
