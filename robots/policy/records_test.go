package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/robots/store"
)

func TestBrokenStoreIsLoggedOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		broken := w.breakStore()
		broken.unreadable.Store(true)
		broken.unwritable.Store(true)
		w.start()
		for i := range 5 {
			if p, err := w.keeper.Policy(t.Context(), someOrigin(i), Sender{}); err != nil || p.Outcome != Rules {
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
		time.Sleep(retryWriteAfter + recoveryTime)
		if n := w.logged("can be kept again"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, w.log)
		}
		broken.unwritable.Store(true)
		time.Sleep(day)
		w.ask()
		if n := w.logged("disk"); n != 2 {
			t.Errorf("logged %d times:\n%s", n, w.log)
		}
	})
}

// A store that comes and goes is logged once.
func TestLogOfAStoreThatComesAndGoes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		broken := w.breakStore()
		w.setup.Log = w.setup.Log.Level(zerolog.InfoLevel)
		w.start()
		for i := range 100 {
			broken.unwritable.Store(i%2 == 0)
			w.keeper.Policy(t.Context(), someOrigin(i), Sender{})
			time.Sleep(recoveryTime - 2*time.Second)
		}
		if n, m := w.logged("policies cannot be kept"), w.logged("can be kept again"); n != 1 || m != 0 {
			t.Errorf("logged %d and %d times:\n%s", n, m, w.log)
		}
		time.Sleep(recoveryTime)
		if n := w.logged("can be kept again"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, w.log)
		}
	})
}

// A write that began before a failure does not prove, when it works, that the store is
// back.
func TestLateSuccessIsNoRecovery(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		broken := w.breakStore()
		w.store = lockedStore{broken, 4 * time.Second}
		w.site.takes = 0
		w.start()
		w.keeper.Policy(t.Context(), someOrigin(0), Sender{})
		time.Sleep(time.Second) // it is being written
		broken.unreadable.Store(true)
		w.keeper.Policy(t.Context(), someOrigin(1), Sender{})
		time.Sleep(4 * time.Second)
		if n, m := w.logged("disk on fire"), w.logged("can be kept again"); n != 1 || m != 0 {
			t.Errorf("logged %d and %d times:\n%s", n, m, w.log)
		}
		time.Sleep(time.Minute) // the other has been written
		if n := w.logged("can be kept again"); n != 1 {
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
				if p, err := w.keeper.Policy(t.Context(), someOrigin(i), Sender{}); err != nil || p.Outcome != Rules {
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
		if p, err := w.keeper.Peek(t.Context(), someOrigin(3)); err != nil || p == nil || p.Outcome != Rules {
			t.Errorf("peeked %+v, %v", p, err)
		}
		if known, err := w.keeper.Policies(t.Context(), someOrigin(3).String(), "", 3); err != nil || len(known) != 3 || known[0].Origin != someOrigin(4) {
			t.Errorf("listed %+v, %v", known, err)
		}
		full.unwritable.Store(false)
		time.Sleep(retryWriteAfter + recoveryTime)
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

func TestCloseDoesNotWaitForAStoreThatHangs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.store = lockedStore{w.breakStore(), day}
		w.start()
		w.ask()
		begun := time.Now()
		w.stop()
		if took := time.Since(begun); took != closeTimeout {
			t.Errorf("closing took %v", took)
		}
	})
}

// A store that is slower than the fetches slows them, and gets every record.
func TestSlowStoreLosesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		kept := store.NewMemory(1 << 30)
		w.store = lockedStore{kept, time.Second}
		w.startWithLongRules()
		took := w.askMany(manyLong)
		if least := 3 * time.Second; took < least || took > time.Minute {
			t.Errorf("it took %v: the fetches have not waited for the store, or for too long", took)
		}
		w.stop()
		if n, _ := kept.Held(); n != manyLong {
			t.Errorf("%d of %d are kept", n, manyLong)
		}
		if n := w.count("robotsproxy_store_lost_total"); n != 0 || w.log.String() != "" {
			t.Errorf("%v are lost; logged %s", n, w.log)
		}
	})
}

// A store that fails or does not answer slows nobody for longer than it takes to notice.
// Records for which there is no room are counted and logged.
func TestNothingWaitsForAFailingStore(t *testing.T) {
	for name, test := range map[string]struct {
		fail func(*world) store.Store
		most time.Duration // that all fetches take
	}{
		"full":  {func(w *world) store.Store { b := w.breakStore(); b.unwritable.Store(true); return b }, 10 * time.Second},
		"hangs": {func(w *world) store.Store { return lockedStore{w.breakStore(), day} }, 10*time.Second + slowWriteAfter},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.store = test.fail(w)
				w.startWithLongRules()
				if took := w.askMany(manyLong); took > test.most {
					t.Errorf("it took %v", took)
				}
				held, bytes := w.keeper.records.pending.Held()
				if lost := w.count("robotsproxy_store_lost_total"); held == 0 || bytes > maxPendingBytes || int(lost) != manyLong-held {
					t.Errorf("%d (%d octets) wait of %d, and %v are lost", held, bytes, manyLong, lost)
				}
				if n := w.logged("some policies are lost"); n != 1 {
					t.Errorf("logged %d times:\n%s", n, w.log)
				}
				w.stop()
				if n := w.count("robotsproxy_store_lost_total"); n != manyLong {
					t.Errorf("%v are lost in the end", n)
				}
				if n := w.logged(fmt.Sprintf(`"lost":%d,"message":"policies could not be kept before the end`, manyLong)); n != 1 {
					t.Errorf("logged %s", w.log)
				}
			})
		})
	}
}

func TestLossesAreLoggedAfterAFailure(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		full := w.breakStore()
		full.unwritable.Store(true)
		w.startWithLongRules()
		w.askMany(manyLong)
		lost := int(w.count("robotsproxy_store_lost_total"))
		full.unwritable.Store(false)
		time.Sleep(retryWriteAfter + recoveryTime)
		recs, err := full.List(t.Context(), "", "", 2*manyLong)
		if err != nil || lost == 0 || len(recs) != manyLong-lost {
			t.Errorf("%d kept and %d lost of %d, %v", len(recs), lost, manyLong, err)
		}
		if n := w.logged(fmt.Sprintf(`"lost":%d,"message":"policies can be kept again"`, lost)); n != 1 {
			t.Errorf("logged %s", w.log)
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

// That many origins with that long a text are more than may be pending.
const manyLong = 600

// startWithLongRules starts a keeper that does not log each fetch.
func (w *world) startWithLongRules() {
	w.site.answers(200, someRules+strings.Repeat("# and more\n", 6000))
	w.setup.Log = w.setup.Log.Level(zerolog.InfoLevel)
	w.start()
}

// askMany asks for that many origins at once, and returns how long that takes.
func (w *world) askMany(origins int) time.Duration {
	begun := time.Now()
	var all sync.WaitGroup
	for i := range origins {
		all.Go(func() {
			if p, err := w.keeper.Policy(w.t.Context(), someOrigin(i), Sender{}); err != nil || p.Outcome != Rules {
				w.t.Errorf("got %+v, %v", p, err)
			}
		})
	}
	all.Wait()
	return time.Since(begun)
}

// One record that cannot be written does not hold up the others.
func TestRecordThatCannotBeWritten(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.store = pickyStore{w.breakStore(), someOrigin(0).String()}
		w.start()
		for i := range 3 {
			w.keeper.Policy(t.Context(), someOrigin(i), Sender{})
		}
		time.Sleep(2 * retryWriteAfter)
		if recs, err := w.store.List(t.Context(), "", "", 3); len(recs) != 2 || err != nil {
			t.Errorf("kept %+v, %v", recs, err)
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
		if p := known[0]; p.Origin != someOrigin(1) || p.Outcome != Rules || p.SHA256 == "" || p.File != nil || p.Text != nil {
			t.Errorf("listed %+v", p)
		}
		if p := known[1]; p.Origin != exampleOrg || p.Outcome != Unavailable {
			t.Errorf("listed %+v", p)
		}
	})
}

func TestNewer(t *testing.T) {
	at := func(d time.Duration, failures int) store.Record {
		return store.Record{FetchedAt: after(d), Failures: failures}
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

// pickyStore refuses one origin.
type pickyStore struct {
	store.Store
	never string
}

func (p pickyStore) Put(ctx context.Context, recs ...store.Record) error {
	if slices.ContainsFunc(recs, func(rec store.Record) bool { return rec.Origin == p.never }) {
		return context.DeadlineExceeded
	}
	return p.Store.Put(ctx, recs...)
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
