package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"robotsproxy/internal/redistest"
)

// redisServer is the Redis of a fleet. It listens on a Unix socket, which no other test can
// take while the server is away.
type redisServer struct {
	*redistest.Server
	socket string
}

// newRedis starts a Redis that asks for the password "sesame". Further args are redis-server's.
func newRedis(t *testing.T, args ...string) redisServer {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "redis.sock")
	return redisServer{redistest.Start(t, append(args, "--port", "0", "--unixsocket", socket, "--requirepass", "sesame")...), socket}
}

// config returns the configuration of a proxy that uses the server.
func (s redisServer) config() string {
	return "cache: {store: redis, redis_url: 'unix://default:sesame@" + s.socket + "'}"
}

func TestFleetFetchesRobotsOnce(t *testing.T) {
	t.Parallel()
	server := newRedis(t)
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
	if lines := append(first.log.Lines("sesame"), second.log.Lines("sesame")...); len(lines) > 0 {
		t.Errorf("the password is in the log: %s", lines)
	}
}

// A proxy that is killed while it fetches for the fleet delays the others little longer than
// fetch_timeout.
func TestFleetSurvivesAKilledProxy(t *testing.T) {
	t.Parallel()
	server := newRedis(t)
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
	waitFor(t, func() bool { return o.robotsFetches() > 0 }, func() string { return "robots.txt is not fetched" })
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

func TestRedisIsAwayAtStart(t *testing.T) {
	t.Parallel()
	server := newRedis(t)
	server.Kill()
	w := start(t, server.config(), "log: {decisions: none}")
	o := newOrigin(t, "http", shop(), nil)
	for range 3 {
		wantRefused(t, w.curl(o.URL+"/cart"), "Disallow: /cart")
		w.curl("http://" + deadAddress + "/")
	}
	w.log.wait(t, w.exited, `"level":"error"`, "policies cannot be kept", server.socket)
	server.Restart()
	w.log.wait(t, w.exited, `"level":"info"`, "policies can be kept again")
	if lines := w.log.Lines("policies can"); len(lines) != 2 {
		t.Errorf("logged %s", lines)
	}
	if n := o.robotsFetches(); n != 1 {
		t.Errorf("robots.txt was fetched %d times", n)
	}
	if lines := w.log.Lines("sesame"); len(lines) > 0 {
		t.Errorf("the password is in the log: %s", lines)
	}
	late := start(t, server.config()) // finds what the first one stored
	wantRefused(t, late.curl(o.URL+"/cart"), "Disallow: /cart")
	if n := o.robotsFetches(); n != 1 {
		t.Errorf("robots.txt was fetched %d times", n)
	}
}

// What Redis refuses is told by validate and at the start, with its place in the configuration.
// Where Redis is only away, the configuration is valid and the proxy starts.
func TestRedisThatRefuses(t *testing.T) {
	t.Parallel()
	server := newRedis(t)
	replica := redistest.StartReplica(t, redistest.Start(t))
	for _, test := range []struct {
		url  string
		code int
		want string // a part of what is told; "" for nothing
	}{
		{"unix://default:sesame@" + server.socket, 0, ""},
		{"unix://default:sesame-no@" + server.socket, 2, "WRONGPASS"},
		{"unix://default:sesame@" + server.socket + "?db=99", 2, "name a database that the server has"},
		{"redis+cluster://" + replica.Address, 2, "begin redis_url with redis"},
		{"redis://" + replica.Address, 0, "it is a replica"},
		{"unix://default:sesame@" + server.socket + ".gone", 0, "no such file"},
	} {
		w := newWorld(t, "cache:\n  store: redis\n  redis_url: '"+test.url+"'")
		told := w.config + ":3:14: "
		if test.code == 0 {
			told += "warning: "
		}
		told += "cache.redis_url: "
		run := func(args ...string) string {
			t.Helper()
			command := exec.Command(program, append(args, "--config", w.config)...)
			out, _ := command.CombinedOutput()
			if code := command.ProcessState.ExitCode(); code != test.code {
				t.Errorf("%s: %s exits with %d, want %d: %s", test.url, args, code, test.code, out)
			}
			return string(out)
		}
		outs := []string{run("validate")}
		if test.code != 0 {
			outs = append(outs, run("serve", "--data-dir", w.dir))
		}
		for _, out := range outs {
			if test.want != "" && (!strings.HasPrefix(out, told) || !strings.Contains(out, test.want)) || test.want == "" && strings.Contains(out, "redis_url") || strings.Contains(out, "sesame") {
				t.Errorf("%s: told %s", test.url, out)
			}
		}
		if test.code == 0 && test.want != "" {
			w.run()
			if lines := w.log.Lines("Redis cannot be used now", test.want); len(lines) != 1 {
				t.Errorf("%s: the log has %q", test.url, w.log)
			}
			w.stop()
		}
	}
}
