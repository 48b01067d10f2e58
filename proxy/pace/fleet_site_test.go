//go:build unix

package pace

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/internal/redistest"
)

// newPair returns two proxies that share a Redis, and are members of its fleet.
func newPair(t *testing.T, server *redistest.Server, change func(*Options)) [2]*Pacer {
	t.Helper()
	var pair [2]*Pacer
	for i := range pair {
		pair[i] = newShared(t, server, zerolog.Nop())
		opts := Defaults()
		change(&opts)
		pair[i].SetOptions(opts)
	}
	for rdb := server.Inspect(); rdb.ZCard(context.Background(), "robotsproxy:proxies").Val() < 2; {
		time.Sleep(time.Millisecond)
	}
	return pair
}

// start waits for a request's turn, which must come.
func (p *Pacer) start(t *testing.T, r Request) Permit {
	t.Helper()
	permit, err := p.Wait(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return permit
}

// end reports the outcome of a request and ends it.
func (p Permit) end(report func(Permit)) {
	report(p)
	p.Release()
}

// Two proxies ask an origin that fails for a while. The failures of both count. The pauses hold
// both, and double. After each, one request of both tries, and in the end all go on.
func TestFleetBacksOff(t *testing.T) {
	server := redistest.Start(t)
	const first = 200 * time.Millisecond
	pair := newPair(t, server, func(o *Options) { o.BackOff = BackOff{3, first, time.Hour} })
	r := of(0)
	for i := range 2 {
		pair[i%2].start(t, r).end(Permit.Failed)
	}
	begun := time.Now()
	pair[0].start(t, r).end(Permit.Failed)
	const probes = 3 // of which the last one succeeds
	var (
		all    sync.WaitGroup
		mu     sync.Mutex
		starts int
		trying bool
	)
	for i := range 20 {
		all.Go(func() {
			permit := pair[i%2].start(t, r)
			mu.Lock()
			n := starts
			starts++
			if pause := first << n / 2; n < probes && time.Since(begun) < pause {
				t.Errorf("probe %d starts after %v, want a pause of %v or more", n, time.Since(begun), pause)
			}
			if trying {
				t.Errorf("request %d starts while another one tries", n)
			}
			trying = n < probes
			mu.Unlock()
			if n < probes {
				time.Sleep(50 * time.Millisecond) // time for others, which must not start
			}
			mu.Lock()
			trying = false
			begun = time.Now()
			if n < probes-1 {
				defer permit.end(Permit.Failed)
			} else {
				defer permit.end(Permit.Succeeded)
			}
			mu.Unlock()
		})
	}
	all.Wait()
	if starts != 20 {
		t.Errorf("%d requests started", starts)
	}
	for _, p := range pair {
		if hold := p.Held(r); hold != nil {
			t.Errorf("held in the end: %v", hold)
		}
	}
	permit := pair[0].start(t, r) // and no request tries any more, for which others would wait
	pair[1].start(t, r).end(Permit.Succeeded)
	permit.end(Permit.Succeeded)
	wantExpiry(t, server, 2*time.Hour)
}

// wantExpiry checks that every key expires.
func wantExpiry(t *testing.T, server *redistest.Server, within time.Duration) {
	t.Helper()
	rdb, ctx := server.Inspect(), context.Background()
	for _, key := range rdb.Keys(ctx, "*").Val() {
		if ttl := rdb.PTTL(ctx, key).Val(); !strings.HasPrefix(key, "robotsproxy:") || ttl <= 0 || ttl > within {
			t.Errorf("the key %s is kept for %v", key, ttl)
		}
	}
}

// A failure that is from before a pause does not double it. A proxy learns of the pause when its
// next request is to start, or by such a failure.
func TestFleetOutcomesFromBeforeThePause(t *testing.T) {
	server := redistest.Start(t)
	pair := newPair(t, server, func(o *Options) { o.BackOff = BackOff{1, time.Hour, 4 * time.Hour} })
	r := of(0)
	before, good := pair[1].start(t, r), pair[1].start(t, r)
	pair[0].start(t, r).end(Permit.Failed)
	until := pair[0].Held(r).Until
	good.end(Permit.Succeeded)
	before.end(Permit.Failed)
	hold := pair[1].Held(r)
	if hold == nil || hold.By != ByBackOff || hold.Until.Sub(until).Abs() > 30*time.Second {
		t.Errorf("the second is held by %v, the first until %v", hold, until)
	}
	late, _ := errors.AsType[*Late](lateness(pair[1], r))
	if late == nil || late.cause != pausing {
		t.Errorf("late: %v", late)
	}
	observer := NewObserver(*pair[0].opts.Load(), server.Client())
	if hold := observer.Held(r); hold == nil || hold.By != ByBackOff || hold.Until.Sub(until).Abs() > 30*time.Second {
		t.Errorf("an observer sees %v, want until %v", hold, until)
	}
	third := newShared(t, server, zerolog.Nop())
	third.SetOptions(*pair[0].opts.Load())
	if late, _ := errors.AsType[*Late](lateness(third, r)); late == nil || late.cause != pausing || late.Wait < 29*time.Minute {
		t.Errorf("a proxy that has seen no failure: %v", late)
	}
}

func lateness(p *Pacer, r Request) error {
	permit, err := p.Wait(context.Background(), r)
	permit.Release()
	return err
}

// If the client of the probe leaves, another request tries, at any proxy.
func TestFleetProbeThatLeaves(t *testing.T) {
	server := redistest.Start(t)
	pair := newPair(t, server, func(o *Options) { o.BackOff = BackOff{1, 10 * time.Millisecond, time.Hour} })
	r := of(0)
	pair[0].start(t, r).end(Permit.Failed)
	probe := pair[0].start(t, r)
	done := make(chan Permit)
	go func() { done <- pair[1].start(t, r) }()
	time.Sleep(50 * time.Millisecond)
	select {
	case <-done:
		t.Fatal("two requests try at once")
	default:
	}
	probe.Release()
	(<-done).end(Permit.Succeeded)
	pair[0].start(t, r).end(Permit.Succeeded)
}

// The same if the probe is the first request that its proxy makes there.
func TestFleetFirstRequestIsAProbeThatLeaves(t *testing.T) {
	server := redistest.Start(t)
	pair := newPair(t, server, func(o *Options) { o.BackOff = BackOff{1, 10 * time.Millisecond, time.Hour} })
	r := of(0)
	pair[0].start(t, r).end(Permit.Failed)
	for pair[0].Held(r) != nil {
		time.Sleep(time.Millisecond)
	}
	pair[1].start(t, r).Release()
	if state := pair[0].fleet.Look(r.site(), pair[0].opts.Load().shared()); state == nil || state.Wait > 0 {
		t.Errorf("the probe that has left holds the other proxy: %+v", state)
	}
	pair[1].mu.Lock()
	if s := pair[1].sites[r.site()]; s != nil && s.probe != nil {
		t.Error("and its own")
	}
	pair[1].mu.Unlock()
}

// If the proxy of the probe dies, another one tries as soon as the first is no member any more. The
// probe of a living proxy goes on.
func TestFleetProbeOfADeadProxy(t *testing.T) {
	server := redistest.Start(t)
	pair := newPair(t, server, func(o *Options) { o.BackOff = BackOff{1, 10 * time.Millisecond, time.Hour} })
	r := of(0)
	pair[0].start(t, r).end(Permit.Failed)
	probe := pair[0].start(t, r)
	held := func() time.Duration { return pair[1].fleet.Look(r.site(), pair[1].opts.Load().shared()).Wait }
	if held() == 0 {
		t.Error("two requests try at once")
	}
	pair[0].fleet.Close()
	if wait := held(); wait > 0 {
		t.Errorf("the probe of a proxy that is gone holds the others: they ask again in %v", wait)
	}
	pair[1].start(t, r).end(Permit.Succeeded)
	probe.Release()
}

// All proxies together start as many requests in a day as may.
func TestFleetMaxPerDay(t *testing.T) {
	server := redistest.Start(t)
	pair := newPair(t, server, func(o *Options) { o.MaxPerDay, o.MaxWait = 6, time.Millisecond })
	rdb, ctx := server.Inspect(), context.Background()
	r := of(0)
	count := func() (started int) {
		for i := range 20 {
			err := lateness(pair[i%2], r)
			if err == nil {
				started++
			} else if late, _ := errors.AsType[*Late](err); late == nil || late.cause != dayOver || late.Wait < 23*time.Hour {
				t.Fatalf("refused: %v", err)
			}
		}
		return started
	}
	if n := count(); n != 6 {
		t.Errorf("%d started", n)
	}
	wantExpiry(t, server, 25*time.Hour)
	observer := NewObserver(*pair[0].opts.Load(), server.Client())
	if hold := observer.Held(r); hold == nil || hold.By != ByMaxPerDay {
		t.Errorf("an observer sees %v", hold)
	}
	key := server.Inspect().Keys(ctx, "robotsproxy:day:*").Val()[0]
	hour := func() int64 { return time.Now().Unix() / (60 * 60) }
	later := func(back int64) (started int, hold *Hold) {
		rdb.Del(ctx, key)
		rdb.HSet(ctx, key, hour()-back, 6) // as if they had started so many hours ago
		for _, p := range pair {
			p.SetOptions(*p.opts.Load()) // forgets the hold
		}
		hold = observer.Held(r) // which counts nothing
		for i := range 12 {
			if lateness(pair[i%2], r) == nil {
				started++
			}
		}
		return started, hold
	}
	for back, want := range map[int64]int{24: 0, 25: 6} {
		begun := hour()
		started, hold := later(back)
		for hour() != begun { // another hour has begun meanwhile
			begun = hour()
			started, hold = later(back)
		}
		if started != want || (hold == nil) != (want > 0) {
			t.Errorf("%d hours later: %d started, want %d; an observer saw %v", back, started, want, hold)
		}
	}
}

// While Redis is away, each proxy goes on by what it knows: the pauses and the count of its own
// requests, of which it has its share.
func TestFleetSitesWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	pair := newPair(t, server, func(o *Options) {
		o.BackOff = BackOff{2, time.Hour, 4 * time.Hour}
		o.MaxPerDay = 6
	})
	awaitBoth(pair[0], pair[1])
	r := of(0)
	pair[0].start(t, r).end(Permit.Failed)
	server.Kill()
	pair[0].start(t, r).end(Permit.Failed)
	if hold := pair[0].Held(r); hold == nil || hold.By != ByBackOff {
		t.Errorf("held by %v", hold)
	}
	counted := r
	counted.Identity = "counted"
	started := 0
	for range 10 {
		if lateness(pair[1], counted) == nil {
			started++
		}
	}
	if started != 3 {
		t.Errorf("%d started, want half of 6", started)
	}
}

// A Retry-After reaches the other proxies where requests ask Redis anyway.
func TestFleetSharesRetryAfter(t *testing.T) {
	server := redistest.Start(t)
	pair := newPair(t, server, func(o *Options) { o.BackOff.After = 100 })
	r := of(0)
	pair[0].Hold(r, time.Hour)
	if late, _ := errors.AsType[*Late](lateness(pair[1], r)); late == nil || late.cause != heldByOrigin {
		t.Errorf("late: %v", late)
	}
}

// The turns of a site's hosts are shared. After each, the delay of its own host counts.
func TestFleetSharesASite(t *testing.T) {
	server := redistest.Start(t)
	pair := newPair(t, server, func(o *Options) { o.Scope = PerSite })
	opts := pair[0].opts.Load()
	for i, turns := range []struct {
		origin      string
		delay, want time.Duration // in minutes
	}{
		{"https://www.example.com", 3, 0},
		{"http://img.example.com", 1, 3},
		{"https://example.com", 2, 4},
		{"https://www.example.org", 3, 0},
	} {
		r := at(turns.origin, turns.delay*time.Minute)
		opts.Scope.place(&r)
		if got := pair[i%2].fleet.Take(r.site(), r.Group, r.Delay, time.Hour, true); got == nil || turns.want > 0 && !near(got.Wait, turns.want*time.Minute) {
			t.Errorf("%s: %+v, want %d min", turns.origin, got, turns.want)
		}
	}
}
