// Package writebehind keeps a store that is slow or fails from holding up those who use it.
// What is put into a [Store] is found at once and written to the store beneath in the
// background.
//
// A slow store slows those who wait for room before they put something: no more comes in
// than can be written, so that nothing is lost. A failing store slows nobody: what is not
// written yet stays in memory as far as there is room, and the oldest records are given up
// beyond that. They are counted, and the log says how many they were once the store works
// again or the Store is closed.
package writebehind

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"robotsproxy/internal/outage"
	"robotsproxy/robots/store"
)

// What may be pending before AwaitRoom waits.
const (
	// maxPending is two batches: one that is being written, and the next. It bounds what a
	// killed process loses of what has decided requests while the store works: these records,
	// and one for each fetch that had room when it began. A record waits for gatherFor at most
	// before the write of its batch begins, unless the last one takes longer.
	maxPending = 2 * writeBatch
	// maxPendingBytes are few enough to be held in memory while the store fails.
	maxPendingBytes = 8 << 20
)

// A Leaser is a store that several processes share, on one machine or on many. It lets
// one of them at a time ask an origin: until release is called, until that process has
// ended, or for length at most. held is false while another process has the lease.
type Leaser interface {
	Lease(ctx context.Context, origin string, length time.Duration) (release func(), held bool, err error)
}

// An expirer is a store that drops records by itself, a fixed time after the lifetime of
// their answers.
type expirer interface{ SetKeep(length time.Duration) }

// A Store is a [store.Store] that is written in the background. It is safe for concurrent
// use.
type Store struct {
	beneath store.Store
	log     zerolog.Logger
	metrics metrics
	outage  *outage.Reporter
	// unlogged counts the records that were given up and that the log has not mentioned.
	unlogged atomic.Int64

	// pending has what beneath does not have yet.
	pending *store.Memory
	writing chan struct{} // has a value while pending records are written or forgotten

	mu         sync.Mutex
	writeEnded chan struct{} // closed when a write has ended or is slow, then made anew

	ctx     context.Context // ends writing
	cancel  context.CancelFunc
	added   chan struct{} // has a value after a Put
	full    chan struct{} // has a value after a Put that left a batch
	closing chan struct{}
	closed  sync.Once
	stopped chan struct{} // closed when nothing more is written
}

// New returns a Store on top of s, which its owner must close after the Store. Callers
// must call Close. The error is that of metrics that are registered already. If to is nil,
// none are registered.
func New(s store.Store, log zerolog.Logger, to prometheus.Registerer) (*Store, error) {
	m, err := newMetrics(s, to)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of the store: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &Store{
		beneath: s, log: log, metrics: m, pending: store.NewMemory(math.MaxInt64),
		ctx: ctx, cancel: cancel, writeEnded: make(chan struct{}),
		writing: make(chan struct{}, 1),
		added:   make(chan struct{}, 1), full: make(chan struct{}, 1), closing: make(chan struct{}), stopped: make(chan struct{}),
	}
	w.outage = outage.New(w.logOutage, w.logRecovery)
	go w.writeAll()
	return w, nil
}

// SetKeep tells the store how long a record may be needed after the lifetime of its
// answer. A store that keeps records for good ignores it.
func (w *Store) SetKeep(length time.Duration) {
	if s, ok := w.beneath.(expirer); ok {
		s.SetKeep(length)
	}
}

// Get is [store.Store.Get].
func (w *Store) Get(ctx context.Context, origin string) (store.Record, bool, error) {
	// In this order, or a record that is written meanwhile would be missed.
	if rec, ok, _ := w.pending.Get(ctx, origin); ok {
		return rec, true, nil
	}
	rec, ok, err := w.beneath.Get(ctx, origin)
	return rec, ok, w.counted(ctx, getting, err)
}

// Find is Get for callers that go on without a record if the store fails.
func (w *Store) Find(ctx context.Context, origin string) (store.Record, bool) {
	rec, ok, err := w.Get(ctx, origin)
	if err != nil {
		w.failed(ctx, err)
	}
	return rec, ok && err == nil
}

// List is [store.Store.List].
func (w *Store) List(ctx context.Context, after, part string, limit int) ([]store.Record, error) {
	pending, _ := w.pending.List(ctx, after, part, limit)
	recs, err := w.beneath.List(ctx, after, part, limit)
	if w.counted(ctx, listing, err) != nil {
		return nil, err
	}
	recs = append(pending, recs...) // of two records of one origin, the pending one comes first
	slices.SortStableFunc(recs, func(a, b store.Record) int { return strings.Compare(a.Origin, b.Origin) })
	recs = slices.CompactFunc(recs, func(a, b store.Record) bool { return a.Origin == b.Origin })
	return recs[:min(len(recs), limit)], nil
}

// Versions is [store.Store.Versions].
func (w *Store) Versions(ctx context.Context, origin string) ([]store.Version, error) {
	pending, _ := w.pending.Versions(ctx, origin)
	versions, err := w.beneath.Versions(ctx, origin)
	if w.counted(ctx, readingVersions, err) != nil || len(pending) == 0 {
		return versions, err
	}
	last := pending[0]
	i := slices.IndexFunc(versions, func(v store.Version) bool {
		return v.SHA256 == last.SHA256 && v.Status == last.Status
	})
	if i >= 0 {
		last.FirstSeen = versions[i].FirstSeen
		versions = slices.Delete(versions, i, i+1)
	}
	return slices.Insert(versions, 0, last), nil
}

// Text is [store.Store.Text].
func (w *Store) Text(ctx context.Context, origin, sha256 string) ([]byte, bool, error) {
	if text, ok, _ := w.pending.Text(ctx, origin, sha256); ok {
		return text, ok, nil
	}
	text, ok, err := w.beneath.Text(ctx, origin, sha256)
	return text, ok, w.counted(ctx, readingVersions, err)
}

// Forget is [store.Store.Forget].
func (w *Store) Forget(ctx context.Context, origin string) error {
	select {
	case w.writing <- struct{}{}:
		defer func() { <-w.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if rec, ok, _ := w.pending.Get(ctx, origin); ok {
		if err := w.beneath.Put(ctx, rec); w.counted(ctx, putting, err) != nil { // for the versions
			w.failed(ctx, err)
			w.lose(1)
		}
		w.pending.Forget(ctx, origin)
	}
	return w.counted(ctx, forgetting, w.beneath.Forget(ctx, origin))
}

// Lease takes the lease of an origin for length at most. If release is not nil, the caller
// has the lease and must call release. Otherwise another process has it if taken is true.
// If not, every process is on its own: the store has no leases, or fails.
func (w *Store) Lease(ctx context.Context, origin string, length time.Duration) (release func(), taken bool) {
	l, ok := w.beneath.(Leaser)
	if !ok {
		return nil, false
	}
	release, held, err := l.Lease(ctx, origin, length)
	switch {
	case w.counted(ctx, leasing, err) != nil:
		w.failed(ctx, err)
		return nil, false
	case held:
		return release, false
	}
	return nil, true
}

// AwaitRoom waits until a record of the origin can be put: until not too much is pending,
// and no record of the origin is, which the new one would replace. It does not wait for a
// store that fails. The error is that of ctx.
func (w *Store) AwaitRoom(ctx context.Context, origin string) error {
	return w.await(ctx, func() bool {
		n, bytes := w.pending.Held()
		return n < maxPending && bytes < maxPendingBytes && !w.isPending(origin)
	})
}

// AwaitWritten waits until no record of the origin is pending. It does not wait for a store
// that fails. The error is that of ctx.
func (w *Store) AwaitWritten(ctx context.Context, origin string) error {
	return w.await(ctx, func() bool { return !w.isPending(origin) })
}

func (w *Store) isPending(origin string) bool {
	_, is, _ := w.pending.Get(w.ctx, origin)
	return is
}

// await returns once done reports true or the store fails. It looks after each write. The
// error is that of ctx.
func (w *Store) await(ctx context.Context, done func() bool) error {
	for {
		w.mu.Lock()
		ended := w.writeEnded
		w.mu.Unlock()
		if w.outage.Failing() || done() {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wakeWaiting has all who await something look again.
func (w *Store) wakeWaiting() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.writeEnded)
	w.writeEnded = make(chan struct{})
}

// Put adds a record to those that are written in the background. It never waits.
func (w *Store) Put(rec store.Record) {
	old, replaces, _ := w.pending.Get(w.ctx, rec.Origin)
	if replaces && old.Status != 0 && (old.Status != rec.Status || old.SHA256 != rec.SHA256) {
		w.lose(1) // the answer that it replaces
	}
	w.pending.Put(w.ctx, rec)
	w.trim()
	signal(w.added)
	if w.hasBatch() {
		signal(w.full)
	}
}

// signal leaves a value in c, unless there is one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// trim gives up the oldest pending records for which there is no room while the store
// fails.
func (w *Store) trim() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.outage.Failing() {
		if _, bytes := w.pending.Held(); bytes <= maxPendingBytes {
			return
		}
		w.pending.RemoveOldest()
		w.lose(1)
	}
}
