package e2e

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// redisServer is the Redis of a fleet of tests, on a socket of its own.
type redisServer struct {
	t      *testing.T
	socket string
	kill   func() // ends what start has started
}

// newRedis says where a Redis will be. It asks for the password "sesame".
func newRedis(t *testing.T) *redisServer {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("this machine has no redis-server; install Debian's package redis-server")
	}
	return &redisServer{t: t, socket: filepath.Join(t.TempDir(), "redis.sock")}
}

// start returns when the server serves.
func (s *redisServer) start() {
	s.t.Helper()
	command := exec.Command("redis-server", "--port", "0", "--unixsocket", s.socket, "--requirepass", "sesame",
		"--save", "", "--appendonly", "no", "--dir", filepath.Dir(s.socket))
	out, err := command.StdoutPipe()
	must(s.t, err)
	must(s.t, command.Start())
	s.kill = sync.OnceFunc(func() {
		command.Process.Kill()
		command.Wait()
	})
	s.t.Cleanup(s.kill)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "eady to accept connections") {
			return
		}
	}
	s.t.Fatal("redis-server does not start")
}

// config has a proxy use the server.
func (s *redisServer) config() string {
	return "cache: {store: redis, redis_url: 'unix://default:sesame@" + s.socket + "'}"
}

func TestFleetFetchesRobotsOnce(t *testing.T) {
	t.Parallel()
	server := newRedis(t)
	server.start()
	first, second := start(t, server.config()), start(t, server.config())
	o := newOrigin(t, "h2", shop(), nil)
	visit := func(w *world) {
		t.Helper()
		if r := w.curl(o.URL + "/products/1"); r.status != 200 {
			t.Errorf("status %d, curl's exit code %d", r.status, r.exit)
		}
		wantRefused(t, w.curl(o.URL+"/cart"), "Disallow: /cart")
	}
	for _, w := range []*world{first, second} {
		visit(w)
	}
	first.stop()
	first.run()
	visit(first)
	if n := o.robotsFetches(); n != 1 {
		t.Errorf("robots.txt was fetched %d times, want once", n)
	}
	first.wantMetric(`robotsproxy_policy_lookups_total{tier="store"}`, "1")
	if _, err := os.Stat(filepath.Join(first.dir, "policies.db")); err == nil {
		t.Error("policies are kept on disk too")
	}
	if lines := append(first.log.lines("sesame"), second.log.lines("sesame")...); len(lines) > 0 {
		t.Errorf("the password is in the log: %s", lines)
	}
}

// A proxy that is killed while it fetches for all holds up the others for no
// longer than fetch_timeout and a little.
func TestFleetOutlivesOneOfIt(t *testing.T) {
	t.Parallel()
	server := newRedis(t)
	server.start()
	config := server.config() + "\nrobots: {fetch_timeout: 5s}"
	first, second := start(t, config), start(t, config)
	asked := make(chan struct{}, 1)
	o := newOrigin(t, "http", func(rw http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}: // the first hangs
			<-r.Context().Done()
		default:
			shop()(rw, r)
		}
	}, nil)
	hangs := make(chan reply, 1)
	go func() { hangs <- first.curl("-A", "ExampleBot", o.URL+"/products/1") }()
	for o.robotsFetches() == 0 {
		time.Sleep(time.Millisecond)
	}
	first.signal(syscall.SIGKILL)
	first.ended()
	<-hangs
	if r := second.curl("-A", "ExampleBot", o.URL+"/products/1"); r.status != 200 {
		t.Errorf("status %d", r.status)
	}
	if n := o.robotsFetches(); n != 2 {
		t.Errorf("robots.txt was fetched %d times", n)
	}
}

func TestRedisIsAwayAtFirst(t *testing.T) {
	t.Parallel()
	server := newRedis(t)
	w := start(t, server.config(), "log: {decisions: none}")
	o := newOrigin(t, "http", shop(), nil)
	for range 3 {
		wantRefused(t, w.curl(o.URL+"/cart"), "Disallow: /cart")
		w.curl("http://" + deadAddress + "/")
	}
	w.log.wait(t, w.exited, `"level":"error"`, "policies cannot be kept", server.socket)
	server.start()
	w.log.wait(t, w.exited, `"level":"info"`, "policies can be kept again")
	if lines := w.log.lines("policies can"); len(lines) != 2 {
		t.Errorf("logged %s", lines)
	}
	if n := o.robotsFetches(); n != 1 {
		t.Errorf("robots.txt was fetched %d times", n)
	}
	if lines := w.log.lines("sesame"); len(lines) > 0 {
		t.Errorf("the password is in the log: %s", lines)
	}
	late := start(t, server.config()) // finds what was fetched before
	wantRefused(t, late.curl(o.URL+"/cart"), "Disallow: /cart")
	if n := o.robotsFetches(); n != 1 {
		t.Errorf("robots.txt was fetched %d times", n)
	}
}
