package keeper

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"robotsproxy/robots/policy"
)

// outOfDescriptors is the error of a dial that finds no free descriptor.
var outOfDescriptors = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}

// A shortage of this machine says nothing about an origin: those who wait get it as an
// error, and it is stored nowhere.
func TestShortageIsNoFailureOfTheOrigin(t *testing.T) {
	for _, short := range []error{
		outOfDescriptors,
		&net.DNSError{Err: "dial udp 127.0.0.1:53: socket: too many open files", Name: "example.org"},
		fmt.Errorf("no route at all: %w", syscall.ENETUNREACH),
	} {
		inWorld(t, func(t *testing.T, w *world) {
			w.start()
			w.site.isOutOfReach(0, short)
			for range 2 {
				if p, err := w.keeper.Policy(t.Context(), exampleOrg, Sender{}); !errors.Is(err, short) {
					t.Fatalf("%v: policy %+v, error %v", short, p, err)
				}
			}
			if n := w.site.fetched(); n != 2 {
				t.Errorf("%v: %d fetches: there must be no wait for the next try", short, n)
			}
			if p, err := w.keeper.Peek(t.Context(), exampleOrg); p != nil || err != nil {
				t.Errorf("%v: memory has %+v, %v", short, p, err)
			}
			w.keeper.Close()
			if rec, known, err := w.store.Get(t.Context(), exampleOrg.String()); known || err != nil {
				t.Errorf("%v: the store has %+v, %v", short, rec, err)
			}
			if n := w.count("robotsproxy_robots_fetches_total", string(policy.Unreachable)); n != 0 {
				t.Errorf("%v: %v fetches count as unreachable", short, n)
			}
			w.keeper = nil
			w.start()
			w.site.isOutOfReach(0, nil)
			w.expect(policy.Rules, 1, true)
		})
	}
}

func TestShortageLeavesFreshCopiesInForce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.expect(policy.Rules, 1, true)
		w.site.isOutOfReach(0, outOfDescriptors)
		time.Sleep(w.setup.Options.TTL * 7 / 8)
		for range 3 { // each tries to refresh
			p := w.expect(policy.Rules, 1, false)
			if !p.UnreachableSince.IsZero() || !p.NextTry.IsZero() {
				t.Errorf("the origin counts as unreachable: %+v", p)
			}
		}
		time.Sleep(w.setup.Options.TTL)
		if p, err := w.keeper.Policy(t.Context(), exampleOrg, Sender{}); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("out of date: policy %+v, error %v", p, err)
		}
		synctest.Wait()
		w.site.isOutOfReach(0, nil)
		w.expect(policy.Rules, 1, true)
	})
}

// A fetch may take several requests, and any of them may fail.
func TestShortageDuringAFetch(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		knows  string
		soft   bool
		after  int
	}{
		{"the site turned our name away", 200, "ExampleBot/2.0", false, 1},
		{"a missing page is asked for", 500, "", true, 1},
		{"the front page is asked for", 500, "", true, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.setup.Options.Soft5xx = test.soft
				w.start()
				w.site.answers(test.status, someRules)
				w.site.knows = test.knows
				w.site.isOutOfReach(test.after, outOfDescriptors)
				p, err := w.keeper.Policy(t.Context(), exampleOrg, Sender{ClientAgent: "ExampleBot/2.0"})
				if !errors.Is(err, syscall.EMFILE) {
					t.Errorf("policy %+v, error %v", p, err)
				}
				if n := w.site.fetched(); n != test.after+1 {
					t.Errorf("%d requests", n)
				}
			})
		})
	}
}
