package keeper

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"robotsproxy/robots"
	"robotsproxy/robots/fetch"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/sqlitestore"
)

// TestSoak has sites answer at random and fail at random, asks for them at
// random times, restarts and forgets in between, and compares all that a keeper
// says, and when it fetches, with a model that a reader can check.
func TestSoak(t *testing.T) {
	short := with(func(o *policy.Options) {
		o.TTL, o.MinTTL, o.MaxTTL = hour, minute, 2*hour
		o.DisallowFor, o.AllowAfter = 3*hour, 90*minute
		o.RetryMin, o.RetryMax = minute, 7*minute
		o.Soft5xx = true
	})
	meant := with(func(o *policy.Options) {
		o.DisallowFor, o.AllowAfter = 2*day, 3*day
		o.Statuses = map[int]fetch.Meaning{403: fetch.MeansDisallow, 429: fetch.MeansUnreachable, 503: fetch.MeansAllow}
	})
	for i, opts := range []policy.Options{policy.Defaults(), short, meant, short} {
		seed := uint64(20260102 + i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSoak(t, opts, seed)
				defer s.stop()
				for step := range 600 {
					s.step()
					if t.Failed() {
						t.Fatalf("in step %d of seed %d", step, seed)
					}
				}
				seen := slices.Sorted(maps.Keys(s.seen))
				t.Logf("%d fetches; outcomes %v", s.site.fetches, seen)
				if len(seen) < 4 {
					t.Error("too little of it was met")
				}
			})
		})
	}
}

type soak struct {
	t      *testing.T
	opts   policy.Options
	random *rand.Rand
	dir    string
	memory int64
	site   *fickleSite
	known  map[robots.Origin]*model
	seen   map[policy.Outcome]bool
	store  store.Store
	keeper *Keeper
}

func newSoak(t *testing.T, opts policy.Options, seed uint64) *soak {
	random := rand.New(rand.NewPCG(seed, seed))
	s := &soak{
		t: t, opts: opts, random: random, dir: t.TempDir(), memory: []int64{1, 1 << 20}[seed%2],
		site: &fickleSite{mood: map[string]mood{}}, known: map[robots.Origin]*model{}, seen: map[policy.Outcome]bool{},
	}
	for i := range 5 {
		s.known[someOrigin(i)] = &model{opts: opts}
	}
	s.start()
	return s
}

func (s *soak) start() {
	var err error
	if s.store, err = sqlitestore.Open(s.t.Context(), store.Defaults(), s.dir, zerolog.Nop()); err != nil {
		s.t.Fatal(err)
	}
	s.keeper, err = New(Setup{
		Options: s.opts, Memory: s.memory, Store: s.store, Transport: s.site, UserAgent: "robotsproxy/1.0",
		Log: zerolog.Nop(), Metrics: prometheus.NewRegistry(), Random: func() float64 { return 0.5 },
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *soak) stop() {
	s.keeper.Close()
	if err := s.store.Close(); err != nil {
		s.t.Error(err)
	}
}

func (s *soak) step() {
	origin := someOrigin(s.random.IntN(len(s.known)))
	m := s.known[origin]
	longest := []time.Duration{minute, hour, 6 * hour, 2 * day, 40 * day}[s.random.IntN(5)]
	time.Sleep(time.Duration(s.random.Int64N(longest.Milliseconds())) * time.Millisecond)
	if s.random.IntN(3) == 0 {
		s.site.feel(origin, s.mood())
	}
	switch s.random.IntN(30) {
	case 0:
		s.stop()
		s.start()
	case 1: // in the middle of a fetch, if there is one
		go s.keeper.Policy(context.Background(), origin, Sender{})
		synctest.Wait()
		time.Sleep(time.Duration(s.random.Int64N(2000)) * time.Millisecond)
		s.stop()
		m.update(s.site.ended())
		s.site.asked()
		s.start()
	case 2:
		if err := s.keeper.Forget(s.t.Context(), origin); err != nil {
			s.t.Error(err)
		}
		*m = model{opts: s.opts}
	}
	s.ask(origin, m)
}

// ask asks several times at once, and checks the answers and the fetches.
func (s *soak) ask(origin robots.Origin, m *model) {
	asked := time.Now()
	want := m.judge(asked)
	policies := make([]*policy.Policy, 1+s.random.IntN(4))
	var all sync.WaitGroup
	for i := range policies {
		all.Go(func() { policies[i], _ = s.keeper.Policy(s.t.Context(), origin, Sender{}) })
	}
	all.Wait()
	if waited := time.Now().After(asked); waited != (want.fetches && want.waits) {
		s.t.Errorf("%v: asking took %v, want %+v", origin, time.Since(asked), want)
	}
	if want.waits {
		m.update(s.site.ended())
		fetched := want.fetches
		want = m.judge(time.Now())
		want.fetches = fetched
	}
	for _, p := range policies {
		if p == nil || p.Outcome != want.outcome || string(p.Text) != want.text || p.Origin != origin || allows(p) != want.allows ||
			p.Outcome == policy.Unreachable && (!p.UnreachableSince.Equal(m.failedSince) || !p.NextTry.Equal(m.nextTry)) {
			s.t.Errorf("%v at %v: got %+v\nwant %+v\nmodel %+v", origin, time.Now(), p, want, m)
			return
		}
	}
	s.seen[want.outcome] = true
	time.Sleep(s.opts.FetchTimeout + time.Second) // for a refresh
	synctest.Wait()
	if !want.waits {
		m.update(s.site.ended())
	}
	if n := s.site.asked(); n > 1 || (n == 1) != want.fetches {
		s.t.Errorf("%v: %d fetches, want %+v; model %+v", origin, n, want, m)
	}
}

// allows judges a path that the rules of some moods disallow.
func allows(p *policy.Policy) bool {
	if p.Outcome != policy.Rules {
		return p.AllowAll
	}
	group, _ := p.File.Group([]string{"ExampleBot"})
	if group == nil {
		return true
	}
	rule, matches := group.Match("/private/")
	return !matches || rule.Allow
}

// A model is what is known of an origin.
type model struct {
	opts policy.Options

	last        *ending // the last answer
	failures    int     // since then
	failedSince time.Time
	nextTry     time.Time
}

type expected struct {
	outcome policy.Outcome
	text    string
	allows  bool
	fetches bool
	waits   bool // for the fetch; what is said follows from it
}

func (m *model) judge(now time.Time) expected {
	isText := m.last != nil && m.last.outcome == policy.Rules
	due := m.failures == 0 || !now.Before(m.nextTry)
	failing := now.Sub(m.failedSince)
	switch {
	case m.last != nil && now.Before(m.last.at.Add(m.last.lifetime)):
		e := m.last.expected
		e.fetches = due && now.Sub(m.last.at) >= m.last.lifetime*3/4
		return e
	case m.failures == 0:
		return expected{fetches: true, waits: true}
	case isText && failing >= m.opts.DisallowFor:
		e := m.last.expected
		e.fetches = due
		return e
	case !isText && failing >= m.opts.AllowAfter:
		return expected{outcome: policy.UnreachableExpired, allows: true, fetches: due}
	}
	return expected{outcome: policy.Unreachable, fetches: due, waits: due}
}

// update applies how a fetch ended; nil if there was none.
func (m *model) update(e *ending) {
	switch {
	case e == nil:
	case e.outcome != policy.Unreachable && !(e.ofRequest && m.last != nil && m.last.outcome == policy.Rules):
		*m = model{opts: m.opts, last: e}
	default:
		if m.failures == 0 {
			m.failedSince = e.at
		}
		// Twice as long after each failure, and then the middle of the upper half.
		wait := m.opts.RetryMin
		for range m.failures {
			wait = min(2*wait, m.opts.RetryMax)
		}
		m.failures++
		m.nextTry = e.at.Add((max(wait/2, m.opts.RetryMin) + wait) / 2)
	}
}

// An ending is how a fetch ended, and what it means.
type ending struct {
	at        time.Time
	lifetime  time.Duration
	ofRequest bool // it says nothing of the robots.txt
	expected
}

// A mood is how a site answers.
type mood struct {
	takes   time.Duration // each of its responses
	hops    int           // redirects before the answer
	status  int           // 0: no connection
	text    string
	broken  error // ends the text early
	control string
	soft    bool // its front page is well

	ending // what comes of it, and how many requests it takes
	steps  int
}

const openRules = "User-agent: *\nAllow: /private/\nDisallow: /\n"

func (s *soak) mood() mood {
	o := s.opts
	m := mood{takes: time.Duration(1+s.random.IntN(900)) * time.Millisecond, status: 200, steps: 1}
	if s.random.IntN(10) == 0 {
		m.takes = o.FetchTimeout + time.Duration(s.random.IntN(1000)-500)*time.Millisecond + time.Millisecond
	}
	m.lifetime = o.TTL
	switch seconds := s.random.IntN(100_000); s.random.IntN(5) {
	case 0:
		m.control, m.lifetime = "no-store", o.MinTTL
	case 1, 2:
		m.control = fmt.Sprintf("public, max-age=%d", seconds)
		m.lifetime = min(max(time.Duration(seconds)*time.Second, o.MinTTL), o.MaxTTL)
	}
	unavailable, unreachable := expected{outcome: policy.Unavailable, allows: true}, expected{outcome: policy.Unreachable}
	switch s.random.IntN(12) {
	case 0, 1, 2:
		m.text = someRules
		m.expected = expected{outcome: policy.Rules, text: m.text}
	case 3:
		m.text = openRules
		m.expected = expected{outcome: policy.Rules, text: m.text, allows: true}
	case 4: // garbage
		m.text = strings.Repeat("\x00\xff\x1b:\r\n<html>", 1+s.random.IntN(500))
		m.expected = expected{outcome: policy.Rules, text: m.text, allows: true}
	case 5:
		m.hops = 1 + s.random.IntN(2*o.MaxRedirects)
		m.text = openRules
		m.expected = expected{outcome: policy.Rules, text: m.text, allows: true}
		if m.hops > o.MaxRedirects {
			m.expected = unavailable
		}
		m.steps = min(m.hops, o.MaxRedirects) + 1
	case 6:
		m.status, m.expected = 404, unavailable
	case 7:
		m.status, m.expected = []int{403, 429, 431}[s.random.IntN(3)], unavailable
		if m.status != 403 && o.Statuses[m.status] == "" {
			m.ofRequest, m.lifetime = true, o.MinTTL
		}
	case 8:
		m.status, m.expected = []int{500, 503}[s.random.IntN(2)], unreachable
		m.soft = s.random.IntN(2) == 0
		if o.Soft5xx {
			m.steps = 3 // a page that cannot be there, and the front page
			if m.soft {
				m.expected = unavailable
			}
		}
	case 9:
		m.status, m.expected = 0, unreachable
	case 10, 11:
		m.text, m.expected = someRules, unreachable
		m.broken = []error{io.ErrUnexpectedEOF, syscall.ECONNRESET}[s.random.IntN(2)]
	}
	switch o.Statuses[m.status] {
	case fetch.MeansAllow:
		m.expected = expected{outcome: policy.Status, allows: true}
	case fetch.MeansDisallow:
		m.expected = expected{outcome: policy.Status}
	case fetch.MeansUnreachable:
		m.expected = unreachable
	}
	return m
}

// fickleSite answers for every origin, each in its mood.
type fickleSite struct {
	mu      sync.Mutex
	mood    map[string]mood // by host; none: no connection
	fetches int
	begun   int // since they were last asked for
	current *ending
}

func (f *fickleSite) feel(origin robots.Origin, m mood) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mood[origin.Host] = m
}

// ended returns how the last fetch ended; nil if there was none, or if it was
// broken off.
func (f *fickleSite) ended() *ending {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.current
	f.current = nil
	return e
}

func (f *fickleSite) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.begun
	f.begun = 0
	return n
}

func (f *fickleSite) RoundTrip(req *http.Request) (*http.Response, error) {
	f.mu.Lock()
	m, ok := f.mood[req.URL.Hostname()]
	if !ok {
		m = mood{takes: time.Second, steps: 1, ending: ending{expected: expected{outcome: policy.Unreachable}}}
	}
	if req.URL.Path == "/robots.txt" {
		f.fetches++
		f.begun++
		f.current = f.foresee(req.Context(), m)
	}
	f.mu.Unlock()
	select {
	case <-time.After(m.takes):
	case <-req.Context().Done():
		if req.Context().Err() == context.Canceled {
			f.ended() // the keeper has been closed
		}
		return nil, req.Context().Err()
	}
	if m.status == 0 {
		return nil, syscall.ECONNREFUSED
	}
	resp := &http.Response{StatusCode: m.status, Header: http.Header{}, Body: http.NoBody, Request: req}
	hop := 0
	fmt.Sscanf(req.URL.Path, "/hop/%d", &hop)
	switch {
	case hop < m.hops:
		resp.StatusCode = http.StatusFound
		resp.Header.Set("Location", fmt.Sprintf("/hop/%d", hop+1))
	case req.URL.Path == "/" && m.soft:
		resp.StatusCode = http.StatusOK
	default:
		var body io.Reader = strings.NewReader(m.text)
		if m.broken != nil {
			body = io.MultiReader(body, failingReader{m.broken})
		}
		resp.Body, resp.ContentLength = io.NopCloser(body), -1
	}
	if m.control != "" {
		resp.Header.Set("Cache-Control", m.control)
	}
	return resp, nil
}

// foresee tells how a fetch that begins now in this mood will end.
func (f *fickleSite) foresee(ctx context.Context, m mood) *ending {
	e := m.ending
	e.at = time.Now().Add(m.takes * time.Duration(m.steps))
	if deadline, _ := ctx.Deadline(); !e.at.Before(deadline) {
		e = ending{at: deadline, expected: expected{outcome: policy.Unreachable}}
	}
	return &e
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

func with(change func(*policy.Options)) policy.Options {
	o := policy.Defaults()
	change(&o)
	return o
}
