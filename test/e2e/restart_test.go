package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A load asks for pages without a pause, each time by a new connection to the proxy.
type load struct {
	served atomic.Int64
	stop   chan struct{}
	asking sync.WaitGroup

	mu     sync.Mutex
	failed []string
}

// loaders is how many clients of a load ask at once.
const loaders = 9

// loaded puts a load on the proxy: by plain HTTP, and by CONNECT with HTTP/1.1 and HTTP/2.
func (w *world) loaded() *load {
	w.t.Helper()
	l := &load{stop: make(chan struct{})}
	for _, scheme := range []string{"http", "https", "h2"} {
		site, client := newOrigin(w.t, scheme, shop(), nil), w.client(scheme == "h2")
		client.Transport.(*http.Transport).DisableKeepAlives = true
		for range loaders / 3 {
			l.asking.Go(func() { l.ask(client, site.URL+"/products/1") })
		}
	}
	w.t.Cleanup(l.end)
	l.more(w.t)
	return l
}

func (l *load) ask(client *http.Client, url string) {
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		resp, err := client.Get(url)
		if err == nil {
			resp.Body.Close()
		}
		if err == nil && resp.StatusCode == http.StatusOK {
			l.served.Add(1)
			continue
		}
		reason := url
		if err != nil {
			reason = err.Error()
		} else {
			reason += ": " + resp.Status
		}
		l.mu.Lock()
		l.failed = append(l.failed, reason)
		l.mu.Unlock()
	}
}

// more waits for 200 more pages.
func (l *load) more(t *testing.T) {
	t.Helper()
	before := l.served.Load()
	waitFor(t, func() bool { return l.served.Load() > before+200 }, func() string { return "the load does not get its pages" })
}

// end ends the load, and fails the test if a request failed.
func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.asking.Wait()
}

func (l *load) wantNoFailure(t *testing.T) {
	t.Helper()
	l.end()
	t.Logf("%d requests were served, %d failed", l.served.Load(), len(l.failed))
	if len(l.failed) > 0 {
		t.Errorf("%d of %d requests failed, as with %s", len(l.failed), l.served.Load(), strings.Join(l.failed[:min(3, len(l.failed))], "\n"))
	}
}

// slowSite is a site whose page /slow ends when release is called.
func slowSite(t *testing.T, scheme string) (site *origin, release func()) {
	t.Helper()
	released := make(chan struct{})
	site = newOrigin(t, scheme, shop(), func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-released
		}
	})
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	return site, release
}

// slow asks for a page that ends when its site releases it, and returns the status that comes
// of it. It returns when the site has the request.
func (w *world) slow(site *origin) (status <-chan int) {
	w.t.Helper()
	came := make(chan int, 1)
	go func() { came <- w.curl(site.URL + "/slow").status }()
	waitFor(w.t, func() bool { return len(site.pages()) > 0 }, func() string { return "the slow request does not reach its site" })
	return came
}

// passSocket has the program be passed a socket from now on, as systemd does.
func (w *world) passSocket(name string) (address string) {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(w.t, err)
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	must(w.t, err)
	w.t.Cleanup(func() { socket.Close() })
	w.sockets, w.socketNames = append(w.sockets, socket), append(w.socketNames, name)
	return l.Addr().String()
}

// queued is how many clients wait to be accepted at a socket that the program is passed.
func queued(t *testing.T, socket *os.File) int {
	t.Helper()
	info, err := unix.GetsockoptTCPInfo(int(socket.Fd()), unix.IPPROTO_TCP, unix.TCP_INFO)
	must(t, err)
	return int(info.Unacked)
}

// While systemd holds the socket, no connection is refused: clients wait for the next process,
// however long the last one takes to end.
func TestRestartWithPassedSocketFailsNoRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := w.passSocket("listen")
	w.run()
	t.Cleanup(w.stop)
	if w.proxy != address {
		t.Fatalf("it listens at %s, not at %s", w.proxy, address)
	}
	load := w.loaded()
	for range 3 {
		site, release := slowSite(t, "https")
		slow := w.slow(site)
		w.signal(syscall.SIGTERM)
		w.log.wait(t, w.exited, "stopping")
		waitFor(t, func() bool { return queued(t, w.sockets[0]) == loaders }, func() string {
			return fmt.Sprintf("%d clients wait for the next process, not %d", queued(t, w.sockets[0]), loaders)
		})
		release()
		if state := w.ended(); state.ExitCode() != 0 {
			t.Fatalf("%v; its log:\n%s", state, w.log)
		}
		if status := <-slow; status != 200 {
			t.Errorf("the slow request got %d", status)
		}
		w.run()
		load.more(t)
	}
	load.wantNoFailure(t)
}

// With reuse_port the next process serves while the last one drains.
func TestRestartWithReusePortFailsNoRequest(t *testing.T) {
	t.Parallel()
	w := start(t, "reuse_port: true")
	load := w.loaded()
	for range 3 {
		site, release := slowSite(t, "https")
		slow := w.slow(site)
		next := w.in(t)
		next.runWith("--listen", w.proxy, "--admin-listen", w.admin)
		t.Cleanup(next.stop)
		w.signal(syscall.SIGTERM)
		w.log.wait(t, w.exited, "stopping")
		served := func() int { return len(next.log.Lines(`"message":"request"`)) }
		before := served()
		waitFor(t, func() bool { return served() > before+200 }, func() string { return "the next process does not serve the load" })
		if status, _ := next.get("/readyz"); status != http.StatusOK {
			t.Errorf("/readyz while the last process drains: status %d", status)
		}
		select {
		case <-w.exited:
			t.Error("the program did not wait for the slow request")
		default:
		}
		release()
		if status := <-slow; status != 200 {
			t.Errorf("the slow request got %d", status)
		}
		if state := w.ended(); state.ExitCode() != 0 {
			t.Fatalf("%v; its log:\n%s", state, w.log)
		}
		w = next
		load.more(t)
	}
	load.wantNoFailure(t)
}

// Every door and server takes the sockets of its key, several too.
func TestPassedSocketsByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "listen_socks: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0")
	first, admin, second, socks := w.passSocket("listen"), w.passSocket("admin_listen"), w.passSocket("listen"), w.passSocket("listen_socks")
	w.notify = filepath.Join(t.TempDir(), "notify")
	supervisor, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: w.notify, Net: "unixgram"})
	must(t, err)
	defer supervisor.Close()
	w.run()
	t.Cleanup(w.stop)
	o := newOrigin(t, "http", shop(), nil)
	for _, proxy := range []string{"http://" + first, "http://" + second, "socks5h://" + socks} {
		if r := w.curl("--proxy", proxy, o.URL+"/products/1"); r.status != 200 {
			t.Errorf("by %s: status %d, curl's exit code %d", proxy, r.status, r.exit)
		}
	}
	if w.admin != admin {
		t.Errorf("the admin server is at %s, not at %s", w.admin, admin)
	}
	said := make([]byte, 100)
	must(t, supervisor.SetReadDeadline(time.Now().Add(testTimeout)))
	if n, err := supervisor.Read(said); err != nil || string(said[:n]) != "READY=1" {
		t.Errorf("the supervisor is told %q, %v", said[:n], err)
	}
}

// What the environment says of sockets need not be true.
func TestSocketsThatAreNotPassed(t *testing.T) {
	t.Parallel()
	const advice = "write into LISTEN_FDS how many"
	for _, vars := range [][]string{
		{"LISTEN_FDS=1000000000", "LISTEN_FDNAMES=listen"},
		{"LISTEN_FDS=2", "LISTEN_FDNAMES=listen:admin_listen"},
		{"LISTEN_FDS=2", "LISTEN_FDNAMES=listen"},
		{"LISTEN_FDS=-1", "LISTEN_FDNAMES=listen"},
		{"LISTEN_FDS=", "LISTEN_FDNAMES=listen"},
		{"LISTEN_FDS=1", "LISTEN_FDNAMES="},
	} {
		w := newWorld(t, "listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0")
		w.passSocket("listen")
		w.vars = vars
		w.launch()
		if state := w.ended(); state.ExitCode() != 1 || !strings.Contains(w.log.String(), advice) {
			t.Errorf("%q: %v:\n%s", vars, state, w.log)
		}
	}
}

// A socket that would not be used, or is somewhere else than the configuration says, is an
// error that says what to write.
func TestPassedSocketsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, config, want string }{
		{"robotsproxy.socket", "listen: 127.0.0.1:0", "FileDescriptorName= in its .socket unit, with one of listen, listen_tls, listen_socks, transparent, directory_listen, admin_listen"},
		{"listen_socks", "listen: 127.0.0.1:0", "listen_socks, which the configuration leaves empty"},
		{"listen", "listen: 127.0.0.1:1", "write the same address after ListenStream= in the .socket unit and in --listen"},
	} {
		w := newWorld(t, test.config, "admin_listen: ''")
		w.passSocket(test.name)
		w.launch()
		if state := w.ended(); state.ExitCode() != 1 || !strings.Contains(w.log.String(), test.want) {
			t.Errorf("%s: %v:\n%s", test.name, state, w.log)
		}
	}
}
