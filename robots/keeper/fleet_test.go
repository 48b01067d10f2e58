//go:build unix

package keeper_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"robotsproxy/internal/logtest"
	"robotsproxy/internal/redistest"
	"robotsproxy/robots"
	"robotsproxy/robots/keeper"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/redisstore"
	"robotsproxy/robots/store/sqlitestore"
	"robotsproxy/robots/store/writebehind"
	"robotsproxy/robots/tdmrep"
)

// A site is a server on loopback that is every origin, by their names.
type site struct {
	*httptest.Server
	takes time.Duration
	held  atomic.Pointer[chan struct{}] // closed when answers may come

	mu      sync.Mutex
	fetches map[string]int // by host or, of a tdmrep.json, by host and path
}

func newSite(t *testing.T, takes time.Duration) *site {
	s := &site{takes: takes, fetches: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.fetches[r.Host+strings.TrimSuffix(r.URL.Path, "/robots.txt")]++
		s.mu.Unlock()
		if held := s.held.Load(); held != nil {
			<-*held
		}
		select {
		case <-time.After(s.takes):
		case <-r.Context().Done():
		}
		if r.URL.Path == tdmrep.Path {
			io.WriteString(w, `[{"location":"/","tdm-reservation":1}]`)
			return
		}
		io.WriteString(w, "User-agent: *\nDisallow: /private/\n")
	}))
	t.Cleanup(s.Close)
	return s
}

// hold keeps answers back until they are released.
func (s *site) hold() (release func()) {
	held := make(chan struct{})
	s.held.Store(&held)
	return func() { close(held) }
}

func (s *site) fetched(host string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetches[host]
}

// A proxy is as much of one as a fleet takes: a keeper and its store.
type proxy struct {
	*keeper.Keeper
	log *logtest.Buffer
}

func newProxy(t *testing.T, server *redistest.Server, s *site, change ...func(*keeper.Setup)) proxy {
	t.Helper()
	p := proxy{log: new(logtest.Buffer)}
	kept := redisstore.New(server.Client(), store.Defaults())
	transport := &http.Transport{
		Proxy:               func(*http.Request) (*url.URL, error) { return url.Parse(s.URL) },
		MaxIdleConnsPerHost: 256,
	}
	setup := keeper.Setup{
		Options: policy.Defaults(), Memory: 64 << 20, Store: kept, Transport: transport,
		Log: zerolog.New(p.log).Level(zerolog.InfoLevel),
	}
	for _, c := range change {
		c(&setup)
	}
	var err error
	if p.Keeper, err = keeper.New(setup); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		kept.Close()
		transport.CloseIdleConnections()
	})
	return p
}

// await waits until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func origin(format string, args ...any) robots.Origin {
	return robots.Origin{Scheme: "http", Host: fmt.Sprintf(format, args...), Port: "80"}
}

// ask wants the site's rules.
func (p proxy) ask(t *testing.T, o robots.Origin) {
	got, err := p.Policy(context.Background(), o, keeper.Sender{UserAgent: "ExampleBot/1.0"})
	if err != nil || got.Outcome != policy.Rules {
		t.Errorf("%s: got %+v, %v", o, got, err)
	}
}

const lost, back = "policies cannot be kept", "policies can be kept again"

func TestFleetFetchesOnce(t *testing.T) {
	server, s := redistest.Start(t), newSite(t, 100*time.Millisecond)
	fleet := []proxy{newProxy(t, server, s), newProxy(t, server, s), newProxy(t, server, s)}
	for round := range 10 {
		o := origin("%d.example", round)
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() { fleet[i%len(fleet)].ask(t, o) })
		}
		all.Wait()
		if n := s.fetched(o.Host); n != 1 {
			t.Errorf("%d fetches for 1000 first requests", n)
		}
	}
	for _, p := range fleet {
		if text := p.log.String(); text != "" {
			t.Errorf("logged %s", text)
		}
	}
	o := origin("0.example")
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			p, err := fleet[i%len(fleet)].TDMRep.Policy(context.Background(), o, keeper.Sender{})
			if err != nil || p.TDMRep == nil || p.TDMRep.Len() != 1 {
				t.Errorf("got %+v, %v", p, err)
			}
		})
	}
	all.Wait()
	if n := s.fetched(o.Host + tdmrep.Path); n != 1 {
		t.Errorf("%d fetches of a tdmrep.json", n)
	}
	if listed, err := fleet[0].Policies(t.Context(), "", "0.example", 10); err != nil || len(listed) != 1 {
		t.Errorf("listed %+v, %v", listed, err)
	}
	newProxy(t, server, s).ask(t, o)
	if s.fetched("0.example") != 1 {
		t.Error("another that has just started fetches again")
	}
}

// A record outlives its answer for as long as its text and its failures may be needed,
// also by options that have changed meanwhile.
func TestRecordsLastAsTheOptionsSay(t *testing.T) {
	server, s := redistest.Start(t), newSite(t, 0)
	p := newProxy(t, server, s)
	client := redis.NewClient(&redis.Options{Addr: server.Address})
	defer client.Close()
	const day = 24 * time.Hour
	for i, test := range []struct{ disallowFor, allowAfter, want time.Duration }{
		{30 * day, 30 * day, (1 + 30 + 7) * day}, // the defaults, which are those of the start
		{90 * day, 30 * day, (1 + 90 + 7) * day},
		{2 * day, 60 * day, (1 + 60 + 7) * day},
		{day, 2 * day, (1 + 2 + 7) * day},
	} {
		if i > 0 {
			opts := policy.Defaults()
			opts.DisallowFor, opts.AllowAfter = test.disallowFor, test.allowAfter
			p.SetOptions(opts)
		}
		o := origin("%d.example", i)
		p.ask(t, o)
		var lives time.Duration
		await(t, "the record", func() bool {
			lives = client.PTTL(t.Context(), "robotsproxy:policy:"+o.String()).Val()
			return lives > 0
		})
		if lives > test.want || lives < test.want-time.Hour {
			t.Errorf("disallow_for %v, allow_after %v: the record lives %v, want %v", test.disallowFor, test.allowAfter, lives, test.want)
		}
	}
}

// Processes with one data directory fetch each robots.txt once between them.
func TestProcessesWithOneDirectoryFetchOnce(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has locks that end with the file's last use")
	}
	s, processes := processesWithOneDirectory(t, t.TempDir(), policy.Defaults().FetchTimeout)
	askOfManyAtOnce(t, s, processes)
	logNothing(t, processes)
}

// A process that holds an origin's lease and does not go on is waited for no longer than a
// fetch may take.
func TestProcessThatStopsHoldsNobodyUp(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has locks that end with the file's last use")
	}
	dir := t.TempDir()
	s, processes := processesWithOneDirectory(t, dir, time.Second)
	stopped := sqliteStore(t, dir)
	o := origin("stopped.example")
	if _, held, err := stopped.(writebehind.Leaser).Lease(t.Context(), o.String(), 0); !held || err != nil {
		t.Fatal(held, err)
	}
	for _, p := range processes {
		p.ask(t, o)
	}
	if n := s.fetched(o.Host); n != 1 {
		t.Errorf("%d fetches", n)
	}
	logNothing(t, processes)
}

// processesWithOneDirectory are two proxies with one data directory, and the site that they
// ask.
func processesWithOneDirectory(t *testing.T, dir string, fetchTimeout time.Duration) (*site, []proxy) {
	s, server := newSite(t, 20*time.Millisecond), redistest.Start(t)
	inDir := func(setup *keeper.Setup) {
		setup.Store = sqliteStore(t, dir)
		setup.Options.FetchTimeout = fetchTimeout
	}
	return s, []proxy{newProxy(t, server, s, inDir), newProxy(t, server, s, inDir)}
}

func sqliteStore(t *testing.T, dir string) store.Store {
	opened, err := sqlitestore.Open(t.Context(), store.Defaults(), dir, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	return opened
}

func logNothing(t *testing.T, processes []proxy) {
	t.Helper()
	for _, p := range processes {
		if text := p.log.String(); text != "" {
			t.Errorf("logged %s", text)
		}
	}
}

// Many origins at once: none is fetched twice, and none waits for another's.
func TestFleetWithManyOrigins(t *testing.T) {
	server, s := redistest.Start(t), newSite(t, 20*time.Millisecond)
	fleet := []proxy{newProxy(t, server, s), newProxy(t, server, s), newProxy(t, server, s)}
	for _, p := range fleet {
		p.ask(t, origin("first.example"))
	}
	askOfManyAtOnce(t, s, fleet)
}

// askOfManyAtOnce asks every proxy for the policies of many origins, each of which the site must
// be asked for once.
func askOfManyAtOnce(t *testing.T, s *site, proxies []proxy) {
	t.Helper()
	const origins = 300
	var all sync.WaitGroup
	for i := range origins {
		for _, p := range proxies {
			all.Go(func() { p.ask(t, origin("%d.example", i)) })
		}
	}
	all.Wait()
	for i := range origins {
		if n := s.fetched(origin("%d.example", i).Host); n != 1 {
			var logs []string
			for _, p := range proxies {
				logs = append(logs, p.log.String())
			}
			t.Errorf("%d fetches of one of many; logged %q", n, logs)
		}
	}
}

// When one proxy could not reach an origin, the others do not each try it again.
func TestFleetSharesFailures(t *testing.T) {
	server, s := redistest.Start(t), newSite(t, 0)
	fleet := []proxy{newProxy(t, server, s), newProxy(t, server, s)}
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.fetches[r.Host+strings.TrimSuffix(r.URL.Path, "/robots.txt")]++
		s.mu.Unlock()
		http.Error(w, "", http.StatusServiceUnavailable)
	})
	for _, p := range append(fleet, fleet...) {
		got, err := p.Policy(t.Context(), origin("down.example"), keeper.Sender{})
		if err != nil || got.Outcome != policy.Unreachable {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if n := s.fetched("down.example"); n != 1 {
		t.Errorf("%d fetches", n)
	}
}

// One proxy refreshes a policy, and the others find the new one when they would refresh it.
func TestFleetRefreshesOnce(t *testing.T) {
	server, s := redistest.Start(t), newSite(t, 100*time.Millisecond)
	var ahead atomic.Int64
	moved := func(setup *keeper.Setup) {
		setup.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
	fleet := []proxy{newProxy(t, server, s, moved), newProxy(t, server, s, moved), newProxy(t, server, s, moved)}
	o := origin("example.com")
	for _, p := range fleet {
		p.ask(t, o)
	}
	ahead.Store(int64(20 * time.Hour))
	release := s.hold()
	for _, p := range fleet {
		p.ask(t, o) // by the copy that it has
	}
	await(t, "the refresh", func() bool { return s.fetched(o.Host) == 2 })
	release()
	for _, p := range fleet {
		await(t, "the new policy", func() bool {
			known, err := p.Peek(t.Context(), o)
			return err == nil && known.FetchedAt.After(time.Now().Add(time.Hour))
		})
	}
	if n := s.fetched(o.Host); n != 2 {
		t.Errorf("%d fetches, want the first and one refresh", n)
	}
}

// Requests go on, whatever becomes of Redis; what happens is logged once.
func TestRedisFaultsUnderLoad(t *testing.T) {
	const takes = 20 * time.Millisecond
	for name, fault := range map[string]struct {
		begin, end func(*redistest.Server)
		isLogged   bool
	}{
		"killed":  {(*redistest.Server).Kill, (*redistest.Server).Restart, true},
		"paused":  {(*redistest.Server).Pause, (*redistest.Server).Continue, true},
		"flushed": {(*redistest.Server).Flush, (*redistest.Server).Flush, false},
	} {
		t.Run(name, func(t *testing.T) {
			server, s := redistest.Start(t), newSite(t, takes)
			fleet := []proxy{newProxy(t, server, s), newProxy(t, server, s)}
			var asked atomic.Int64
			over := make(chan struct{})
			var load sync.WaitGroup
			for _, p := range fleet {
				for range 8 { // half of the requests are for origins that are known
					load.Go(func() {
						for {
							select {
							case <-over:
								return
							default:
							}
							n := asked.Add(1)
							p.ask(t, origin("%d.example", n))
							p.ask(t, origin("known.example"))
						}
					})
				}
			}
			more := func() {
				t.Helper()
				from := asked.Load()
				await(t, "more requests", func() bool { return asked.Load() > from+200 })
			}
			more()
			fault.begin(server)
			more()
			if fault.isLogged {
				for _, p := range fleet {
					await(t, lost, func() bool { return p.log.Count(lost) > 0 })
				}
			}
			more()
			fault.end(server)
			if fault.isLogged {
				for _, p := range fleet {
					await(t, back, func() bool { return p.log.Count(back) > 0 })
				}
			}
			more()
			close(over)
			load.Wait()
			for _, p := range fleet {
				want := 0
				if fault.isLogged {
					want = 1
				}
				if p.log.Count(lost) != want || p.log.Count(back) != want {
					t.Errorf("logged:\n%s", p.log)
				}
			}
			// What was fetched meanwhile has been kept.
			newProxy(t, server, s).ask(t, origin("%d.example", asked.Load()))
			if n := s.fetched(origin("%d.example", asked.Load()).Host); n > 2 {
				t.Errorf("%d fetches of one", n)
			}
		})
	}
}

// A proxy that dies with a lease holds up the others until the lease runs out.
func TestLeaseOfADeadProxy(t *testing.T) {
	server, s := redistest.Start(t), newSite(t, 0)
	dead := redisstore.New(server.Client(), store.Defaults())
	o := origin("example.com")
	const length = 500 * time.Millisecond
	begun := time.Now()
	if _, held, err := dead.Lease(t.Context(), o.String(), length); !held || err != nil {
		t.Fatal(held, err)
	}
	dead.Close()
	newProxy(t, server, s).ask(t, o)
	if took := time.Since(begun); took < length {
		t.Errorf("the other one waited %v", took)
	}
}

// A client that leaves does not wait for another machine's lease.
func TestWaiterForALeaseLeaves(t *testing.T) {
	server, s := redistest.Start(t), newSite(t, time.Hour)
	holder, other := newProxy(t, server, s), newProxy(t, server, s)
	o := origin("example.com")
	hurried, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { holder.Policy(hurried, o, keeper.Sender{}) })
	await(t, "the first fetch", func() bool { return s.fetched(o.Host) == 1 })
	short, end := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer end()
	if _, err := other.Policy(short, o, keeper.Sender{}); err != context.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
	if n := s.fetched(o.Host); n != 1 {
		t.Errorf("%d fetches", n)
	}
	s.CloseClientConnections()
}
