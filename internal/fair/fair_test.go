package fair

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Parties take turns, however many waiters each has.
func TestPartiesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New[string](1)
		var all sync.WaitGroup
		var mu sync.Mutex
		var order []string
		for _, by := range []string{"a", "a", "a", "a", "b", "b", "c"} {
			all.Go(func() {
				if err := s.Acquire(t.Context(), by); err != nil {
					t.Error(err)
					return
				}
				defer s.Release()
				mu.Lock()
				order = append(order, by)
				mu.Unlock()
				time.Sleep(time.Second)
			})
			synctest.Wait()
		}
		all.Wait()
		if want := []string{"a", "a", "b", "c", "a", "b", "a"}; !slices.Equal(order, want) {
			t.Errorf("slots went to %q, want %q", order, want)
		}
	})
}

// A waiter that leaves takes no slot, and no turn from others.
func TestWaiterLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New[int](1)
		var all sync.WaitGroup
		left := errors.New("left")
		for i := range 300 {
			ctx, leave := context.WithTimeoutCause(t.Context(), time.Duration(1+i%40)*time.Second, left)
			defer leave()
			all.Go(func() {
				if err := s.Acquire(ctx, i%3); err != nil {
					if err != left {
						t.Errorf("waiter %d: %v, want the context's cause", i, err)
					}
					return
				}
				time.Sleep(time.Second)
				s.Release()
			})
		}
		all.Wait()
		if s.free != 1 || len(s.turns) != 0 || len(s.waiting) != 0 {
			t.Errorf("left: %d free, turns %v, waiting %v", s.free, s.turns, s.waiting)
		}
	})
}

func TestResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New[string](1)
		enter := func() chan error {
			entered := make(chan error, 1)
			go func() { entered <- s.Acquire(t.Context(), "") }()
			return entered
		}
		first := enter()
		synctest.Wait()
		second, third := enter(), enter()
		synctest.Wait()
		if len(first) != 1 || len(second)+len(third) != 0 {
			t.Fatal("the only slot has not gone to the first alone")
		}
		s.Resize(3)
		synctest.Wait()
		if len(second)+len(third) != 2 {
			t.Error("the new slots have not gone to those who wait")
		}
		s.Resize(1)
		s.Release()
		s.Release()
		fourth := enter()
		synctest.Wait()
		if len(fourth) != 0 {
			t.Error("a slot that is no more has been granted")
		}
		s.Release()
		synctest.Wait()
		if len(fourth) != 1 {
			t.Error("the last slot has not been granted")
		}
	})
}

func TestClient(t *testing.T) {
	for _, same := range [][2]string{
		{"192.0.2.1", "::ffff:192.0.2.1"},
		{"2001:db8::1", "2001:db8::ffff:0:0:1"},
		{"fe80::1%eth0", "fe80::2"},
	} {
		if a, b := Client(netip.MustParseAddr(same[0])), Client(netip.MustParseAddr(same[1])); a != b || !a.IsValid() {
			t.Errorf("%q: %v and %v, want one client", same, a, b)
		}
	}
	for _, other := range [][2]string{
		{"192.0.2.1", "192.0.2.2"},
		{"2001:db8::1", "2001:db8:0:1::1"},
	} {
		if a, b := Client(netip.MustParseAddr(other[0])), Client(netip.MustParseAddr(other[1])); a == b {
			t.Errorf("%q are one client, %v", other, a)
		}
	}
	if got := Client(netip.Addr{}); got != (netip.Prefix{}) {
		t.Errorf("no address: %v", got)
	}
}
