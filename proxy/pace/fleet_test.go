//go:build unix

package pace

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
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

// awaitBoth returns when two proxies know of each other by their heartbeats.
func awaitBoth(one, two *Pacer) {
	for one.fleet.Members() != 2 || two.fleet.Members() != 2 {
		time.Sleep(time.Millisecond)
	}
}

// near allows for the time between two questions.
func near(got, want time.Duration) bool { return got <= want && got > want-30*time.Second }

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
	if turn := p.fleet.Take(r.site(), r.Group, r.Delay, time.Hour, true); turn == nil || !near(turn.Wait, r.Delay) {
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
	turns := rdb.Keys(context.Background(), "robotsproxy:turns:*").Val()[0]
	for rdb.ZCard(context.Background(), turns).Val() != 3 {
		time.Sleep(time.Millisecond)
	}
	p.mu.Lock()
	var arrived time.Time
	waiters := &p.sites[r.site()].lanes[sha256.Sum256([]byte(r.Group))].waiters
	for i, at := 1, waiters.Front(); at != nil; i, at = i+1, at.Next() {
		w := at.Value.(*waiter)
		if wait := time.Until(w.slot.At); !w.arrived.After(arrived) || !near(wait, time.Duration(i)*r.Delay) {
			t.Errorf("number %d came at %v and starts in %v", i, w.arrived, wait)
		}
		arrived = w.arrived
	}
	p.mu.Unlock()
	if turn := other.fleet.Take(r.site(), r.Group, r.Delay, time.Hour, true); turn == nil || !near(turn.Wait, 3*r.Delay) {
		t.Errorf("the next turn: %+v", turn)
	}
	leave[2]()
	leave[3]()
	all.Wait()
}

// Without Redis a proxy paces alone, and continues from its own last start.
func TestFleetWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	client.Cooldown = time.Nanosecond
	p := New(Defaults(), client, zerolog.Nop(), nil)
	t.Cleanup(p.Close)
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
}

// While Redis is away, all proxies together keep the delay: each waits the delay multiplied
// by their number.
func TestFleetWithoutRedisKeepsThePaceTogether(t *testing.T) {
	server := redistest.Start(t)
	p, other := newShared(t, server, zerolog.Nop()), newShared(t, server, zerolog.Nop())
	awaitBoth(p, other)
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
	if got := alone(maxDelay, 2); got > maxDelay || got <= 0 {
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
