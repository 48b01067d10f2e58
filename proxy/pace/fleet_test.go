//go:build unix

package pace

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"robotsproxy/internal/logtest"
	"robotsproxy/internal/redistest"
)

func newShared(t *testing.T, server *redistest.Server, log zerolog.Logger) *Pacer {
	t.Helper()
	p := New(Defaults(), server.Client(), log, nil)
	t.Cleanup(p.Close)
	return p
}

// stopHeartbeats ends the heartbeats of a proxy, as if it had been killed.
func stopHeartbeats(f *fleet) {
	f.stop()
	f.stopped.Wait()
}

// near allows for the time between two questions.
func near(got, want time.Duration) bool { return got <= want && got > want-30*time.Second }

func TestFleetTakesTurns(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Inspect()
	one, two := newShared(t, server, zerolog.Nop()).fleet, newShared(t, server, zerolog.Nop()).fleet
	const delay, most = time.Minute, 4 * time.Minute
	opts := Options{MaxWait: most, RetryAfter: true}
	r := of(delay)
	var turns []*turn
	for i := range 5 {
		f := []*fleet{one, two}[i%2]
		turn := f.take(&r, delay, opts.MaxWait, &opts)
		if turn == nil || !near(turn.wait, time.Duration(i)*delay) && i > 0 || i == 0 && turn.wait != 0 {
			t.Fatalf("turn %d: %+v", i, turn)
		}
		turns = append(turns, turn)
	}
	want := func(what string, wait time.Duration) *turn {
		t.Helper()
		turn := two.take(&r, delay, opts.MaxWait, &opts)
		if turn == nil || !near(turn.wait, wait) {
			t.Errorf("%s: %+v, want %v", what, turn, wait)
		}
		return turn
	}
	if late := want("one that is too late", 5*delay); late.wait <= most {
		t.Errorf("it is not: %v", late.wait)
	}
	want("another, as that took no turn", 5*delay)
	one.giveBack(turns[2])
	want("a turn in the middle is given again", 2*delay)
	want("once", 5*delay)
	one.giveBack(turns[3])
	two.giveBack(turns[4])
	want("the last are given back, in any order", 3*delay)

	other := r
	other.Group = "Other"
	if turn := two.take(&other, delay, opts.MaxWait, &opts); turn == nil || turn.wait != 0 {
		t.Errorf("another group: %+v", turn)
	}
	one.hold(r.site(), 3*time.Minute)
	one.hold(r.site(), time.Minute)
	other.Group = "Third"
	if turn := two.take(&other, delay, opts.MaxWait, &opts); turn == nil || !near(turn.wait, 3*delay) || turn.hold != turn.wait {
		t.Errorf("a hold: %+v", turn)
	}
	opts.RetryAfter = false
	other.Group = "Fourth"
	if turn := two.take(&other, delay, opts.MaxWait, &opts); turn == nil || turn.wait != 0 {
		t.Errorf("a hold that is not heeded: %+v", turn)
	}
	for _, key := range rdb.Keys(context.Background(), "*").Val() {
		ttl := rdb.PTTL(context.Background(), key).Val()
		if !strings.HasPrefix(key, "robotsproxy:") || ttl <= 0 || ttl > most+delay {
			t.Errorf("the key %s is kept for %v", key, ttl)
		}
	}
}

// A proxy whose answer was lost asks again and gets the same turn.
func TestFleetAskedTwice(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Inspect()
	for i, token := range []string{"a", "b", "b", "a", "c"} {
		ms, err := takeScript.Run(context.Background(), rdb, []string{"turns", "hold"}, token, 60_000, 600_000).Int64Slice()
		want := []time.Duration{0, 1, 1, 0, 2}[i] * time.Minute
		if got := time.Duration(ms[0]) * time.Millisecond; err != nil || !near(got, want) {
			t.Errorf("%s: %v, %v; want %v", token, got, err, want)
		}
	}
}

// A request that leaves, or is late for a reason that only this proxy knows, gives its turn
// back.
func TestFleetLeaving(t *testing.T) {
	server := redistest.Start(t)
	p := newShared(t, server, zerolog.Nop())
	r := of(time.Minute)
	if _, err := p.Wait(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, leave)
	if _, err := p.Wait(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("one that leaves: %v", err)
	}
	p.mu.Lock()
	p.hold(p.siteOf(r.site()), time.Now().Add(10*time.Minute), ByRetryAfter)
	p.mu.Unlock()
	var late *Late
	if _, err := p.Wait(context.Background(), r); !errors.As(err, &late) || late.cause != heldByOrigin || !near(late.Wait, 10*time.Minute) {
		t.Errorf("one that is held: %v", err)
	}
	if turn := p.fleet.take(&r, r.Delay, p.opts.Load().MaxWait, p.opts.Load()); turn == nil || !near(turn.wait, r.Delay) {
		t.Errorf("the next turn: %+v", turn)
	}
}

// The requests behind one that leaves move up, and the last turn is free again.
func TestFleetMovesUp(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Inspect()
	p, other := newShared(t, server, zerolog.Nop()), newShared(t, server, zerolog.Nop())
	r := of(time.Minute)
	var (
		all   sync.WaitGroup
		leave [4]context.CancelFunc
	)
	waiting := func(n int) {
		for testutil.ToFloat64(p.waiting) != float64(n) {
			time.Sleep(time.Millisecond)
		}
	}
	for i := range leave { // the first starts at once
		var ctx context.Context
		ctx, leave[i] = context.WithCancel(context.Background())
		all.Go(func() { p.Wait(ctx, r) })
		if i == 0 {
			all.Wait()
		}
		waiting(i)
	}
	leave[1]()
	waiting(2)
	for rdb.ZCard(context.Background(), turnsKey+hashed(r.Origin, r.Identity, r.Group)).Val() != 3 {
		time.Sleep(time.Millisecond)
	}
	p.mu.Lock()
	var arrived time.Time
	waiters := &p.sites[r.site()].lanes[sha256.Sum256([]byte(r.Group))].waiters
	for i, at := 1, waiters.Front(); at != nil; i, at = i+1, at.Next() {
		w := at.Value.(*waiter)
		if wait := time.Until(w.slot.comes); !w.arrived.After(arrived) || !near(wait, time.Duration(i)*r.Delay) {
			t.Errorf("number %d came at %v and starts in %v", i, w.arrived, wait)
		}
		arrived = w.arrived
	}
	p.mu.Unlock()
	if turn := other.fleet.take(&r, r.Delay, p.opts.Load().MaxWait, other.opts.Load()); turn == nil || !near(turn.wait, 3*r.Delay) {
		t.Errorf("the next turn: %+v", turn)
	}
	leave[2]()
	leave[3]()
	all.Wait()
}

// Without Redis a proxy paces alone, and continues from its own last start. It logs that
// once, however often Redis comes and goes, and its end once.
func TestFleetWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	var log logtest.Buffer
	p := newShared(t, server, zerolog.New(&log))
	stopHeartbeats(p.fleet) // which would write to the log too
	p.fleet.server.Cooldown = time.Nanosecond
	p.fleet.outage.QuietPeriod = time.Hour
	r := of(100 * time.Millisecond)
	wait := func() {
		t.Helper()
		if _, err := p.Wait(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	wait()
	server.Kill()
	for i := range 5 {
		wait()
		if took := time.Since(begun); took < time.Duration(i+1)*r.Delay-2*time.Millisecond { // Redis counts in milliseconds
			t.Errorf("%d starts after the first one in %v", i+1, took)
		}
	}
	for range 2 {
		server.Restart()
		wait()
		server.Kill()
		wait()
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "turns cannot be shared") || !strings.Contains(text, server.Address) {
		t.Errorf("logged:\n%s", text)
	}
	p.fleet.outage.QuietPeriod = time.Millisecond
	server.Restart()
	wait()
	for strings.Count(log.String(), "\n") < 2 {
		time.Sleep(time.Millisecond)
	}
	wait()
	if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "Redis is back") {
		t.Errorf("logged:\n%s", text)
	}
}

// If Redis answers with errors, no turns are shared, but each question is still asked.
func TestFleetWhenRedisAnswersErrors(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Inspect()
	var log logtest.Buffer
	p := newShared(t, server, zerolog.New(&log))
	stopHeartbeats(p.fleet)
	p.fleet.server.Cooldown = time.Hour
	r := of(time.Minute)
	key := turnsKey + hashed(r.Origin, r.Identity, r.Group)
	if err := rdb.Set(context.Background(), key, "not a sorted set", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if turn := p.fleet.take(&r, r.Delay, p.opts.Load().MaxWait, p.opts.Load()); turn != nil {
		t.Errorf("took %+v", turn)
	}
	if text := log.String(); !strings.Contains(text, "turns cannot be shared") || !strings.Contains(text, "WRONGTYPE") {
		t.Errorf("logged:\n%s", text)
	}
	if err := rdb.Del(context.Background(), key).Err(); err != nil {
		t.Fatal(err)
	}
	if turn := p.fleet.take(&r, r.Delay, p.opts.Load().MaxWait, p.opts.Load()); turn == nil {
		t.Error("Redis is left alone, though it answered")
	}
}

// Each proxy of a fleet knows how many there are. A closed one leaves at once, a killed one
// when its last heartbeat expires.
func TestFleetCountsItsMembers(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Inspect()
	fleets := []*fleet{newShared(t, server, zerolog.Nop()).fleet, newShared(t, server, zerolog.Nop()).fleet, newShared(t, server, zerolog.Nop()).fleet}
	one := fleets[0]
	want := func(what string, n float64) {
		t.Helper()
		one.heartbeat()
		if got := testutil.ToFloat64(one.size); got != n {
			t.Errorf("%s: %v proxies, want %v", what, got, n)
		}
	}
	for _, f := range fleets {
		f.heartbeat()
	}
	want("all", 3)
	fleets[1].close()
	want("one is closed", 2)
	ctx := context.Background()
	if ttl := rdb.PTTL(ctx, membersKey).Val(); ttl <= 0 || ttl > memberFor {
		t.Errorf("the members are kept for %v", ttl)
	}
	killed := fleets[2]
	stopHeartbeats(killed)
	rdb.ZAdd(ctx, membersKey, redis.Z{Score: 1, Member: killed.member}) // as if its heartbeat were over
	want("one was killed", 1)
}

// A restarted Redis has no heartbeats of the other proxies yet.
func TestFleetThatRedisForgot(t *testing.T) {
	server := redistest.Start(t)
	one, two := newShared(t, server, zerolog.Nop()).fleet, newShared(t, server, zerolog.Nop()).fleet
	for _, f := range []*fleet{one, two} {
		stopHeartbeats(f) // the test gives them
		f.heartbeat()
	}
	one.heartbeat()
	server.Flush()
	for i, want := range []int64{2, 1} {
		one.heartbeat()
		if got := one.members.Load(); got != want {
			t.Errorf("heartbeat %d afterwards: %d proxies, want %d", i+1, got, want)
		}
	}
}

// While Redis is away, all proxies together keep the delay: each waits the delay multiplied
// by their number.
func TestFleetWithoutRedisKeepsThePaceTogether(t *testing.T) {
	server := redistest.Start(t)
	p, other := newShared(t, server, zerolog.Nop()), newShared(t, server, zerolog.Nop())
	other.fleet.heartbeat()
	p.fleet.heartbeat()
	server.Kill()
	r := of(100 * time.Millisecond)
	begun := time.Now()
	for i := range 3 {
		if _, err := p.Wait(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		if took, want := time.Since(begun), time.Duration(i)*2*r.Delay; took < want {
			t.Errorf("%d starts after the first one in %v, want %v", i, took, want)
		}
	}
	slow := of(3 * time.Minute)
	slow.Group = "slow"
	opts := Defaults()
	opts.MaxCrawlDelay = time.Hour
	p.SetOptions(opts)
	if _, err := p.Wait(context.Background(), slow); err != nil {
		t.Fatal(err)
	}
	var late *Late
	if _, err := p.Wait(context.Background(), slow); !errors.As(err, &late) || late.cause != longDelay || late.Delay != 6*time.Minute {
		t.Errorf("twice the delay is more than max_wait: %v", err)
	}
	if got := p.fleet.alone(maxDelay); got > maxDelay || got <= 0 {
		t.Errorf("the maxDelay delay becomes %v", got)
	}
}

// A request that waits when the proxy stops does not report that Redis is away.
func TestFleetClosed(t *testing.T) {
	server := redistest.Start(t)
	var log logtest.Buffer
	p := newShared(t, server, zerolog.New(&log))
	r := of(time.Minute)
	if _, err := p.Wait(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, func() {
		p.Close()
		leave()
	})
	if _, err := p.Wait(ctx, r); !errors.Is(err, context.Canceled) || log.String() != "" {
		t.Errorf("%v; logged:\n%s", err, log.String())
	}
}
