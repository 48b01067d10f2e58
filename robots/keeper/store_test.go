package keeper

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
)

// recoveryTime is more than it takes until the log says that a store can be written again.
const recoveryTime = 30 * time.Second

func TestBrokenStoreIsLoggedOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		broken := w.breakStore()
		broken.unreadable.Store(true)
		broken.unwritable.Store(true)
		w.start()
		for i := range 5 {
			if p, err := w.keeper.Policy(t.Context(), someOrigin(i), Sender{}); err != nil || p.Outcome != policy.Rules {
				t.Errorf("got %+v, %v", p, err)
			}
		}
		if n := w.logged("disk"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, w.log)
		}
		if w.site.agents[0] != "robotsproxy/1.0" {
			t.Errorf("fetched as %q", w.site.agents[0])
		}
		broken.unreadable.Store(false)
		broken.unwritable.Store(false)
		time.Sleep(recoveryTime)
		if n := w.logged("can be kept again"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, w.log)
		}
		broken.unwritable.Store(true)
		time.Sleep(day)
		w.ask()
		time.Sleep(time.Second) // until it is written
		if n := w.logged("disk"); n != 2 {
			t.Errorf("logged %d times:\n%s", n, w.log)
		}
	})
}

// A full disk can be read. Records that could not be written are written later.
func TestFullDisk(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		full := w.breakStore()
		full.unwritable.Store(true)
		w.setup.Memory = 1
		w.start()
		const origins = 20
		ask := func() {
			for i := range origins {
				if p, err := w.keeper.Policy(t.Context(), someOrigin(i), Sender{}); err != nil || p.Outcome != policy.Rules {
					t.Errorf("got %+v, %v", p, err)
				}
				time.Sleep(time.Second)
			}
		}
		ask()
		ask()
		if n := w.site.fetched(); n != origins {
			t.Errorf("%d fetches for %d origins", n, origins)
		}
		if n, m := w.logged("disk full"), w.logged("can be kept again"); n != 1 || m != 0 {
			t.Errorf("logged %d and %d times:\n%s", n, m, w.log)
		}
		if recs, err := full.List(t.Context(), "", "", origins); len(recs) > 0 || err != nil {
			t.Errorf("%d records on a full disk, %v", len(recs), err)
		}
		if p, err := w.keeper.Peek(t.Context(), someOrigin(3)); err != nil || p == nil || p.Outcome != policy.Rules {
			t.Errorf("peeked %+v, %v", p, err)
		}
		if known, err := w.keeper.Policies(t.Context(), someOrigin(3).String(), "", 3); err != nil || len(known) != 3 || known[0].Origin != someOrigin(4) {
			t.Errorf("listed %+v, %v", known, err)
		}
		full.unwritable.Store(false)
		time.Sleep(recoveryTime)
		if n := w.logged("can be kept again"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, w.log)
		}
		if recs, err := full.List(t.Context(), "", "", 2*origins); len(recs) != origins || err != nil {
			t.Errorf("%d records of %d, %v", len(recs), origins, err)
		}
	})
}

func TestLockedStoreHoldsUpNobody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.store = lockedStore{w.breakStore(), 2 * time.Second}
		w.start()
		begun := time.Now()
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() { w.keeper.Policy(t.Context(), someOrigin(i), Sender{}) })
		}
		all.Wait()
		if took := time.Since(begun); took != w.site.takes {
			t.Errorf("it took %v, and a fetch takes %v", took, w.site.takes)
		}
		w.stop()
		w.breakStore()
		w.start()
		if known, err := w.keeper.Policies(t.Context(), "", "", 10); err != nil || len(known) < 2 {
			t.Errorf("%d policies kept, %v: the end has not waited", len(known), err)
		}
	})
}

// No answer is replaced by the next one before the store has it.
func TestEachAnswerIsKept(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.store = lockedStore{w.breakStore(), 4 * time.Second}
		w.start()
		for i := range 3 {
			w.site.answers(200, fmt.Sprintf("User-agent: *\nDisallow: /%d\n", i))
			if _, err := w.keeper.Fresh(t.Context(), exampleOrg, Sender{}); err != nil {
				t.Error(err)
			}
		}
		if h, err := w.keeper.History(t.Context(), exampleOrg); err != nil || len(h.Versions) != 3 {
			t.Errorf("got %+v, %v", h, err)
		}
	})
}

// A client that leaves while the store is slow ends the wait, and nothing is fetched.
func TestWaitForRoomEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.store = lockedStore{w.breakStore(), 4 * time.Second}
		w.start()
		w.ask()
		w.site.fetched()
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.keeper.Fresh(hurried, exampleOrg, Sender{}); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		time.Sleep(minute)
		if n := w.site.fetched(); n != 0 {
			t.Errorf("%d fetches", n)
		}
	})
}

func TestListPrefersPendingRecords(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		full := w.breakStore()
		w.start()
		w.ask()
		w.keeper.Policy(t.Context(), someOrigin(1), Sender{})
		synctest.Wait()
		full.unwritable.Store(true)
		time.Sleep(day)
		w.site.answers(404, "")
		w.ask()
		known, err := w.keeper.Policies(t.Context(), "", "", 10)
		if err != nil || len(known) != 2 {
			t.Fatalf("listed %+v, %v", known, err)
		}
		if p := known[0]; p.Origin != someOrigin(1) || p.Outcome != policy.Rules || p.SHA256 == "" || p.File != nil || p.Text != nil {
			t.Errorf("listed %+v", p)
		}
		if p := known[1]; p.Origin != exampleOrg || p.Outcome != policy.Unavailable {
			t.Errorf("listed %+v", p)
		}
	})
}

func TestNewer(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration, failures int) store.Record {
		return store.Record{FetchedAt: noon.Add(d), Failures: failures}
	}
	for _, test := range []struct{ newer, older store.Record }{
		{at(0, 0), store.Record{Failures: 9}},
		{at(0, 0), at(-1, 9)},
		{at(0, 1), at(0, 0)},
		{at(-hour, 0), at(1, 0)}, // from the future
		{at(hour, 0), at(2*hour, 0)},
		{at(hour, 1), at(hour, 0)},
	} {
		if !newer(test.newer, test.older, noon) || newer(test.older, test.newer, noon) {
			t.Errorf("%+v is not newer than %+v", test.newer, test.older)
		}
	}
}

func TestCloseIsNoFailureOfTheStore(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.store = slowStore{w.breakStore()}
		w.start()
		go w.keeper.Policy(context.Background(), exampleOrg, Sender{UserAgent: "ExampleBot"})
		synctest.Wait()
		w.keeper.Close()
		if w.log.String() != "" {
			t.Errorf("logged %s", w.log)
		}
	})
}
