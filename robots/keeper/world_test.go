package keeper

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"robotsproxy/internal/logtest"
	"robotsproxy/robots"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/sqlitestore"
)

const (
	minute = time.Minute
	hour   = time.Hour
	day    = 24 * time.Hour
)

const someRules = "User-agent: *\nDisallow: /private/\n"

// A site answers for every origin, in memory.
type site struct {
	mu      sync.Mutex
	status  int   // 0: no connection
	short   error // of this machine, for all requests after the next spared ones; nil: none
	spared  int
	header  http.Header
	body    string
	takes   time.Duration
	knows   string // a User-Agent; others get 403; "": it knows all
	fetches int
	agents  []string
	urls    []string

	now, most int // requests under way at once
}

func (s *site) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.fetches++
	s.agents = append(s.agents, req.UserAgent())
	s.urls = append(s.urls, req.URL.String())
	s.now++
	s.most = max(s.most, s.now)
	takes := s.takes
	s.mu.Unlock()

	select {
	case <-req.Context().Done():
	case <-time.After(takes):
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if s.spared--; s.short != nil && s.spared < 0 {
		return nil, s.short
	}
	status := s.status
	if status == 0 {
		return nil, fmt.Errorf("nobody there")
	}
	if s.knows != "" && req.UserAgent() != s.knows {
		status = 403
	}
	return &http.Response{
		StatusCode: status, Header: s.header.Clone(), Body: io.NopCloser(strings.NewReader(s.body)),
		ContentLength: int64(len(s.body)), Request: req,
	}, nil
}

// answers sets what the site answers from now on.
func (s *site) answers(status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body = status, body
}

// isOutOfReach lets the next few requests pass and has those after them fail for a shortage
// of this machine. A nil shortage ends that.
func (s *site) isOutOfReach(after int, short error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spared, s.short = after, short
}

// fetched returns how many requests came since it was last called.
func (s *site) fetched() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.fetches
	s.fetches = 0
	return n
}

// A world is a keeper with SQLite as its store, and a site.
type world struct {
	t       *testing.T
	site    *site
	setup   Setup
	dataDir string
	log     *logtest.Buffer
	store   store.Store
	keeper  *Keeper
	kind    policy.Kind // of the file that is asked for
}

// inWorld runs a test in a synctest bubble, where time passes when everyone waits.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, dataDir: t.TempDir(), log: new(logtest.Buffer), site: &site{takes: time.Second}}
		w.site.answers(200, someRules)
		w.setup = Setup{
			Options: policy.Defaults(), Memory: 1 << 20, Transport: w.site, UserAgent: "robotsproxy/1.0",
			Log: zerolog.New(w.log), Random: func() float64 { return 0.5 },
		}
		defer func() {
			if w.keeper != nil {
				w.stop()
			}
		}()
		test(t, w)
	})
}

// start opens the store, unless there is one already, and the keeper.
func (w *world) start() {
	w.t.Helper()
	var err error
	if w.store == nil {
		if w.store, err = sqlitestore.Open(w.t.Context(), store.Defaults(), w.dataDir, zerolog.Nop()); err != nil {
			w.t.Fatal(err)
		}
	}
	w.setup.Store = w.store
	w.setup.Metrics = prometheus.NewRegistry()
	if w.keeper, err = New(w.setup); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) stop() {
	w.t.Helper()
	w.keeper.Close()
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
	w.keeper, w.store = nil, nil
}

// someOrigin is the i-th of many origins.
func someOrigin(i int) robots.Origin {
	return robots.Origin{Scheme: "http", Host: fmt.Sprintf("%d.example", i), Port: "80"}
}

// logged returns how often the log says this.
func (w *world) logged(words string) int {
	synctest.Wait()
	return w.log.Count(words)
}

var exampleOrg = robots.Origin{Scheme: "https", Host: "example.org", Port: "443"}

// files are those of the kind that is asked for.
func (w *world) files() Files {
	if w.kind == policy.TDMRep {
		return w.keeper.TDMRep
	}
	return w.keeper.Files
}

// ask returns the policy of example.org.
func (w *world) ask() *policy.Policy {
	w.t.Helper()
	p, err := w.files().Policy(w.t.Context(), exampleOrg, Sender{UserAgent: "ExampleBot/2.0"})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// expect asks, and checks the outcome, the number of fetches until everything is idle
// again, and whether asking took time.
func (w *world) expect(outcome policy.Outcome, fetches int, waited bool) *policy.Policy {
	w.t.Helper()
	synctest.Wait() // for memory, which takes entries in its own time
	w.site.fetched()
	begun := time.Now()
	p := w.ask()
	took := time.Since(begun)
	time.Sleep(2 * time.Second) // a refresh takes one
	synctest.Wait()
	if p.Outcome != outcome {
		w.t.Errorf("outcome %q (%s), want %q", p.Outcome, p.Cause, outcome)
	}
	if n := w.site.fetched(); n != fetches {
		w.t.Errorf("%d fetches, want %d", n, fetches)
	}
	if (took > 0) != waited {
		w.t.Errorf("asking took %v", took)
	}
	return p
}

func (w *world) count(metric string, labels ...string) float64 {
	w.t.Helper()
	families, err := w.setup.Metrics.(*prometheus.Registry).Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			if len(labels) > 0 && m.GetLabel()[0].GetValue() != labels[0] {
				continue
			}
			if h := m.GetHistogram(); h != nil {
				return float64(h.GetSampleCount())
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	w.t.Fatalf("no metric %s%v", metric, labels)
	return 0
}

// slowStore does not answer at all.
type slowStore struct{ store.Store }

func (slowStore) Get(ctx context.Context, _ string) (store.Record, bool, error) {
	<-ctx.Done()
	return store.Record{}, false, ctx.Err()
}

// brokenStore fails while it is told to.
type brokenStore struct {
	store.Store
	unreadable, unwritable atomic.Bool
}

// breakStore makes the world's store one that can be told to fail.
func (w *world) breakStore() *brokenStore {
	w.t.Helper()
	kept, err := sqlitestore.Open(w.t.Context(), store.Defaults(), w.dataDir, zerolog.Nop())
	if err != nil {
		w.t.Fatal(err)
	}
	b := &brokenStore{Store: kept}
	w.store = b
	return b
}

func (b *brokenStore) Get(ctx context.Context, origin string) (store.Record, bool, error) {
	if b.unreadable.Load() {
		return store.Record{}, false, fmt.Errorf("disk on fire")
	}
	return b.Store.Get(ctx, origin)
}

func (b *brokenStore) Put(ctx context.Context, recs ...store.Record) error {
	if b.unwritable.Load() {
		return fmt.Errorf("disk full")
	}
	return b.Store.Put(ctx, recs...)
}

// lateStore is slow to read.
type lateStore struct {
	store.Store
	takes time.Duration
}

func (l lateStore) Get(ctx context.Context, origin string) (store.Record, bool, error) {
	time.Sleep(l.takes)
	return l.Store.Get(ctx, origin)
}

// lockedStore is slow to write, until the context ends.
type lockedStore struct {
	store.Store
	takes time.Duration
}

func (l lockedStore) Put(ctx context.Context, recs ...store.Record) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(l.takes):
		return l.Store.Put(ctx, recs...)
	}
}
