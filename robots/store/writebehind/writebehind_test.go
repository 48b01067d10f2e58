package writebehind

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"robotsproxy/internal/logtest"
	"robotsproxy/robots/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	day = 24 * time.Hour
	// quietPeriod is how long a store must work before the log says so.
	quietPeriod = 10 * time.Second
)

// A troubled store is slow, or fails when it is told to.
type troubled struct {
	*store.Memory
	takes                  time.Duration // each write, unless its context ends first
	refused                string        // the origin that cannot be written; "": none
	unreadable, unwritable atomic.Bool
}

func (s *troubled) Get(ctx context.Context, origin string) (store.Record, bool, error) {
	if s.unreadable.Load() {
		return store.Record{}, false, errors.New("disk on fire")
	}
	return s.Memory.Get(ctx, origin)
}

func (s *troubled) Put(ctx context.Context, recs ...store.Record) error {
	if s.unwritable.Load() {
		return errors.New("disk full")
	}
	if slices.ContainsFunc(recs, func(rec store.Record) bool { return rec.Origin == s.refused }) {
		return errors.New("not this one")
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.takes):
		return s.Memory.Put(ctx, recs...)
	}
}

// A world is a Store on top of one that may be in trouble.
type world struct {
	*Store
	t       *testing.T
	beneath *troubled
	log     *logtest.Buffer
}

// inWorld runs a test in a synctest bubble. change may be nil.
func inWorld(t *testing.T, change func(*troubled), test func(*testing.T, *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, beneath: &troubled{Memory: store.NewMemory(1 << 30)}, log: new(logtest.Buffer)}
		if change != nil {
			change(w.beneath)
		}
		var err error
		if w.Store, err = New(w.beneath, zerolog.New(w.log), prometheus.NewRegistry()); err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		test(t, w)
	})
}

// fetched puts the i-th record once there is room for it.
func (w *world) fetched(i int) {
	w.t.Helper()
	rec := record(i)
	if err := w.AwaitRoom(w.t.Context(), rec.Origin); err != nil {
		w.t.Error(err)
	}
	w.Put(rec)
}

// logged returns how often the log says this.
func (w *world) logged(words string) int {
	synctest.Wait()
	return w.log.Count(words)
}

// lost returns how many records were given up.
func (w *world) lost() int { return int(testutil.ToFloat64(w.metrics.lost)) }

// record is the i-th of many.
func record(i int) store.Record {
	now := time.Now()
	return store.Record{
		Origin: fmt.Sprintf("https://%d.example", i), Status: 200, SHA256: fmt.Sprintf("%064d", i),
		Body: []byte(longText), FetchedAt: now, ExpiresAt: now.Add(day),
	}
}

var longText = strings.Repeat("# and more\n", 6000)

// manyLong records are more than may be pending.
const manyLong = 600

func TestOutageThatComesAndGoesIsLoggedOnce(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		for i := range 100 {
			w.beneath.unwritable.Store(i%2 == 0)
			w.fetched(i)
			time.Sleep(quietPeriod - 2*time.Second)
		}
		if n, m := w.logged("policies cannot be kept"), w.logged("can be kept again"); n != 1 || m != 0 {
			t.Errorf("logged %d and %d times:\n%s", n, m, w.log)
		}
		time.Sleep(quietPeriod)
		if n := w.logged("can be kept again"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, w.log)
		}
	})
}

// A write that began before a failure does not prove, when it works, that the store works
// again.
func TestLateSuccessIsNoRecovery(t *testing.T) {
	inWorld(t, func(s *troubled) { s.takes = 4 * time.Second }, func(t *testing.T, w *world) {
		w.Put(record(0))
		time.Sleep(time.Second) // it is being written
		w.beneath.unreadable.Store(true)
		if _, found := w.Find(t.Context(), record(1).Origin); found {
			t.Error("a record is found that nobody has put")
		}
		w.Put(record(1))
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

func TestCloseDoesNotWaitForAStoreThatHangs(t *testing.T) {
	inWorld(t, func(s *troubled) { s.takes = day }, func(t *testing.T, w *world) {
		w.Put(record(0))
		synctest.Wait()
		began := time.Now()
		w.Close()
		if took := time.Since(began); took != closeTimeout {
			t.Errorf("closing took %v", took)
		}
	})
}

// A store that is slower than those who put slows them, and gets every record.
func TestSlowStoreLosesNothing(t *testing.T) {
	inWorld(t, func(s *troubled) { s.takes = time.Second }, func(t *testing.T, w *world) {
		began := time.Now()
		for i := range manyLong {
			w.fetched(i)
		}
		if took := time.Since(began); took < 3*time.Second || took > time.Minute {
			t.Errorf("it took %v: nobody has waited for the store, or for too long", took)
		}
		w.Close()
		if n, _ := w.beneath.Held(); n != manyLong {
			t.Errorf("%d of %d are kept", n, manyLong)
		}
		if n := w.lost(); n != 0 || w.log.String() != "" {
			t.Errorf("%v are lost; logged %s", n, w.log)
		}
	})
}

// A store that fails or does not answer slows nobody for longer than it takes to notice.
// Records for which there is no room are counted and logged.
func TestNothingWaitsForAFailingStore(t *testing.T) {
	for name, test := range map[string]struct {
		trouble func(*troubled)
		most    time.Duration // that all take
	}{
		"full":  {func(s *troubled) { s.unwritable.Store(true) }, 0},
		"hangs": {func(s *troubled) { s.takes = day }, slowWriteAfter},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, test.trouble, func(t *testing.T, w *world) {
				began := time.Now()
				for i := range manyLong {
					w.fetched(i)
				}
				if took := time.Since(began); took > test.most {
					t.Errorf("it took %v", took)
				}
				synctest.Wait()
				held, bytes := w.pending.Held()
				if lost := w.lost(); held == 0 || bytes > maxPendingBytes || lost != manyLong-held {
					t.Errorf("%d (%d octets) wait of %d, and %v are lost", held, bytes, manyLong, lost)
				}
				if n := w.logged("there is no room for all policies"); n != 1 {
					t.Errorf("logged %d times:\n%s", n, w.log)
				}
				w.Close()
				if n := w.lost(); n != manyLong {
					t.Errorf("%v are lost in the end", n)
				}
				if n := w.logged(fmt.Sprintf(`"lost":%d,"message":"some policies could not be stored before the end`, manyLong)); n != 1 {
					t.Errorf("logged %s", w.log)
				}
			})
		})
	}
}

func TestLossesAreLoggedAfterAFailure(t *testing.T) {
	inWorld(t, func(s *troubled) { s.unwritable.Store(true) }, func(t *testing.T, w *world) {
		for i := range manyLong {
			w.fetched(i)
		}
		synctest.Wait()
		lost := w.lost()
		w.beneath.unwritable.Store(false)
		time.Sleep(retryWriteAfter + quietPeriod)
		if n, _ := w.beneath.Held(); lost == 0 || n != manyLong-lost {
			t.Errorf("%d kept and %d lost of %d", n, lost, manyLong)
		}
		if n := w.logged(fmt.Sprintf(`"lost":%d,"message":"policies can be kept again"`, lost)); n != 1 {
			t.Errorf("logged %s", w.log)
		}
	})
}

// Records that come one after the other are written together, and soon.
func TestRecordsGatherForABatch(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		const few = 5
		for i := range few {
			w.fetched(i)
			time.Sleep(gatherFor / (2 * few))
		}
		synctest.Wait()
		if n, _ := w.beneath.Held(); n != 0 {
			t.Errorf("%d of %d are written before the others came", n, few)
		}
		time.Sleep(gatherFor)
		synctest.Wait()
		if n, _ := w.beneath.Held(); n != few {
			t.Errorf("%d of %d are written", n, few)
		}
		for i := range writeBatch {
			rec := record(few + i)
			rec.Body = nil // or a part of them would fill half of the room
			w.Put(rec)
		}
		synctest.Wait()
		if n, _ := w.beneath.Held(); n != few+writeBatch {
			t.Errorf("%d are written of a batch that is full", n-few)
		}
	})
}

// An answer that another replaces before the store has it is lost. A failure replaces none.
func TestReplacedAnswerIsLost(t *testing.T) {
	inWorld(t, func(s *troubled) { s.unwritable.Store(true) }, func(t *testing.T, w *world) {
		rec := record(0)
		w.Put(rec)
		rec.Failures++
		w.Put(rec)
		if n := w.lost(); n != 0 {
			t.Errorf("%d are lost by a failure after the answer", n)
		}
		rec.Status, rec.SHA256, rec.Body = 404, "", nil
		w.Put(rec)
		if n := w.lost(); n != 1 {
			t.Errorf("%d are lost by another answer, want 1", n)
		}
	})
}

// One record that cannot be written does not hold up the others.
func TestRecordThatCannotBeWritten(t *testing.T) {
	inWorld(t, func(s *troubled) { s.refused = record(0).Origin }, func(t *testing.T, w *world) {
		for i := range 3 {
			w.Put(record(i))
		}
		time.Sleep(2 * retryWriteAfter)
		if n, _ := w.beneath.Held(); n != 2 {
			t.Errorf("%d are kept", n)
		}
	})
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	inWorld(t, func(s *troubled) { s.takes = 4 * time.Second }, func(t *testing.T, w *world) {
		w.Put(record(0))
		left := errors.New("left")
		ctx, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { leave(left) })
		if err := w.AwaitRoom(ctx, record(0).Origin); err != left {
			t.Errorf("waiting for room: %v", err)
		}
		if err := w.AwaitWritten(ctx, record(0).Origin); err != left {
			t.Errorf("waiting for the write: %v", err)
		}
		if err := w.AwaitWritten(t.Context(), record(0).Origin); err != nil {
			t.Errorf("waiting for the write, without a hurry: %v", err)
		}
		if n, _ := w.beneath.Held(); n != 1 {
			t.Errorf("%d are kept", n)
		}
	})
}

// A leased store has leases.
type leased struct {
	*troubled
	held bool
	err  error
}

func (l leased) Lease(context.Context, string, time.Duration) (func(), bool, error) {
	return func() {}, l.held, l.err
}

func TestLease(t *testing.T) {
	for name, test := range map[string]struct {
		store      func(*troubled) store.Store
		has, taken bool
	}{
		"no leases": {func(s *troubled) store.Store { return s }, false, false},
		"free":      {func(s *troubled) store.Store { return leased{s, true, nil} }, true, false},
		"taken":     {func(s *troubled) store.Store { return leased{s, false, nil} }, false, true},
		"fails":     {func(s *troubled) store.Store { return leased{s, false, errors.New("gone")} }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.Store.beneath = test.store(w.beneath)
				release, taken := w.Lease(t.Context(), record(0).Origin, time.Minute)
				if (release != nil) != test.has || taken != test.taken {
					t.Errorf("has it: %v, taken: %v; want %v and %v", release != nil, taken, test.has, test.taken)
				}
				if n := w.logged("gone"); (n == 1) != (name == "fails") {
					t.Errorf("logged %s", w.log)
				}
			})
		})
	}
}
