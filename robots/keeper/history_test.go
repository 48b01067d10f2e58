package keeper

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"robotsproxy/robots/policy"
)

const otherRules = "User-agent: *\nDisallow: /other/\n"

func (w *world) history() History {
	w.t.Helper()
	h, err := w.keeper.History(w.t.Context(), exampleOrg)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (w *world) forget() {
	w.t.Helper()
	if err := w.keeper.Forget(w.t.Context(), exampleOrg); err != nil {
		w.t.Fatal(err)
	}
}

func TestHistory(t *testing.T) {
	for _, unwritable := range []bool{false, true} { // what has not been written is known too
		inWorld(t, func(t *testing.T, w *world) {
			kept := w.breakStore()
			w.start()
			if h := w.history(); h.Origin != "https://example.org" || len(h.Versions) != 0 {
				t.Errorf("got %+v", h)
			}
			begun := time.Now()
			w.expect(policy.Rules, 1, true)
			time.Sleep(day)
			w.site.answers(404, "")
			w.expect(policy.Unavailable, 1, true)
			time.Sleep(day)
			w.site.answers(200, otherRules)
			w.expect(policy.Rules, 1, true)
			kept.unwritable.Store(unwritable)
			time.Sleep(day)
			w.site.answers(200, someRules)
			last := w.expect(policy.Rules, 1, true)

			h := w.history()
			if len(h.Versions) != 3 {
				t.Fatalf("%d versions", len(h.Versions))
			}
			some, other, gone := h.Versions[0], h.Versions[1], h.Versions[2]
			if some.Text != someRules || some.SHA256 != last.SHA256 || some.Status != 200 ||
				!some.FirstSeen.Equal(begun.Add(time.Second)) || !some.LastSeen.Equal(last.FetchedAt) {
				t.Errorf("got %+v", some)
			}
			if !strings.HasPrefix(some.Diff, "--- 200 "+other.SHA256[:12]+"\n+++ 200 "+some.SHA256[:12]+"\n@@ ") || !strings.Contains(some.Diff, "\n-Disallow: /other/\n") {
				t.Errorf("diff %s", some.Diff)
			}
			if !strings.HasPrefix(other.Diff, "--- 404\n+++ 200 ") || !strings.Contains(other.Diff, "\n+Disallow: /other/\n") {
				t.Errorf("diff %s", other.Diff)
			}
			if gone.Status != 404 || gone.Diff+gone.Text+gone.SHA256 != "" {
				t.Errorf("got %+v", gone)
			}
		})
	}
}

func TestForget(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.expect(policy.Rules, 1, true)
		w.site.answers(404, "")
		w.forget()
		if p, err := w.keeper.Peek(t.Context(), exampleOrg); p != nil || err != nil {
			t.Errorf("known of what was forgotten: %+v, %v", p, err)
		}
		if n := len(w.history().Versions); n != 1 {
			t.Errorf("%d versions", n)
		}
		w.expect(policy.Unavailable, 1, true)
		w.expect(policy.Unavailable, 0, false)

		// Its failures are forgotten too.
		w.site.answers(0, "")
		time.Sleep(day)
		w.expect(policy.Unreachable, 1, true)
		w.forget()
		w.site.answers(200, someRules)
		if p := w.expect(policy.Rules, 1, true); !p.UnreachableSince.IsZero() {
			t.Errorf("got %+v", p)
		}
		w.forget()
		w.stop()
		w.start()
		w.expect(policy.Rules, 1, true)
	})
}

// A fetch under way may bring what is to be forgotten. Those who wait for it get the
// result of the next one.
func TestForgetDuringAFetch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.site.takes = 5 * time.Second
		w.start()
		const waiting = 10
		policies := make(chan *policy.Policy, waiting)
		for range waiting {
			go func() {
				p, _ := w.keeper.Policy(t.Context(), exampleOrg, Sender{})
				policies <- p
			}()
		}
		time.Sleep(4 * time.Second)
		w.site.answers(200, otherRules)
		begun := time.Now()
		w.forget()
		if took := time.Since(begun); took != 0 {
			t.Errorf("forgetting took %v", took)
		}
		if p := w.ask(); string(p.Text) != otherRules || time.Since(begun) != 5*time.Second {
			t.Errorf("got %+v after %v", p, time.Since(begun))
		}
		for range waiting {
			if p := <-policies; p == nil || string(p.Text) != otherRules {
				t.Errorf("got %+v", p)
			}
		}
		if n := w.site.fetched(); n != 2 {
			t.Errorf("%d fetches", n)
		}
	})
}

// A refresh under way leaves nothing in force.
func TestForgetDuringARefresh(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.expect(policy.Rules, 1, true)
		time.Sleep(20 * hour)
		w.site.takes = 5 * time.Second
		w.ask()
		synctest.Wait()
		w.forget()
		w.site.answers(404, "")
		begun := time.Now()
		if p := w.ask(); p.Outcome != policy.Unavailable || time.Since(begun) != 5*time.Second {
			t.Errorf("got %+v after %v", p, time.Since(begun))
		}
	})
}

func TestForgetWhileTheStoreWrites(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.store = lockedStore{w.breakStore(), 2 * time.Second}
		w.start()
		w.ask()
		time.Sleep(time.Second) // it is being written
		w.forget()
		time.Sleep(minute)
		if p, err := w.keeper.Peek(t.Context(), exampleOrg); p != nil || err != nil {
			t.Errorf("known of what was forgotten: %+v, %v", p, err)
		}
		if n := len(w.history().Versions); n != 1 {
			t.Errorf("%d versions", n)
		}
	})
}

func TestConcurrentForgets(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.ask()
		done := make(chan error)
		for range 20 {
			go func() { done <- w.keeper.Forget(t.Context(), exampleOrg) }()
			go w.keeper.Policy(t.Context(), exampleOrg, Sender{})
		}
		for range 20 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		w.ask()
		w.expect(policy.Rules, 0, false)
	})
}

func TestForgetThatFails(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.ask()
		left, leave := context.WithCancel(t.Context())
		leave()
		if err := w.keeper.Forget(left, exampleOrg); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		w.keeper.Close()
		if err := w.keeper.Forget(t.Context(), exampleOrg); err != errClosed {
			t.Errorf("got %v", err)
		}
	})
}
