package policy

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

	"robotsproxy/robots/store"
)

// rest is how long a store that could not be written to is left alone, how long
// a write may take before the store counts as failing, and how long at most the
// end waits for the store.
const rest = 5 * time.Second

// quiet is how long a store that failed must have done without a failure before the log
// says that it is back: one that comes and goes would fill the log.
const quiet = 10 * time.Second

// writeBatch is how many records are written at once: one transaction in SQLite.
const writeBatch = 128

// What may wait to be written before fetches wait too: few enough records that the end
// writes them in time, and few enough bytes to keep them in memory while the store
// fails.
const (
	maxPending      = 1024
	maxPendingBytes = 8 << 20
)

// records is the store as a keeper uses it: one that may be slow or fail. What is
// put is written in its own time, and found from the first moment.
//
// A slow store slows the fetches: none begins while too much waits to be written, so
// that nothing is lost. A failing store slows nothing: fetches go on, and what waits
// in vain is kept in memory as far as there is room, then given up, the oldest first.
// What is given up is counted, and told when the store can be written to again or at
// the end.
type records struct {
	store  store.Store
	log    zerolog.Logger
	errors *prometheus.CounterVec // of the store, by operation
	lost   prometheus.Counter     // records that were given up
	untold atomic.Int64           // those of them that the log has not said yet
	// pending has what the store does not have yet. Without it an origin whose
	// policy memory does not take would be fetched for every request.
	pending  *store.Memory
	writing  chan struct{} // has a value while the store gets, or forgets, what is pending
	failing  atomic.Bool   // since the last failure no write has begun and worked
	away     atomic.Bool   // the log has said so, and not yet that it is back
	failures atomic.Int64  // so far

	mu    sync.Mutex
	ended chan struct{} // closed when the write under way has ended, or takes too long; then there is another
	calm  *time.Timer   // has the log say that the store is back

	ctx     context.Context // ends writing
	cancel  context.CancelFunc
	news    chan struct{} // has a value after a put
	closing chan struct{}
	closed  sync.Once
	written chan struct{} // closed when nothing more will be
}

// An expirer is a store that drops records by itself: one whose answer's lifetime has
// ended for that long.
type expirer interface{ SetKeep(length time.Duration) }

// setKeep tells the store how long records may be needed after their lifetime.
func (r *records) setKeep(length time.Duration) {
	if s, ok := r.store.(expirer); ok {
		s.SetKeep(length)
	}
}

func newRecords(s store.Store, log zerolog.Logger, m *metrics) *records {
	ctx, cancel := context.WithCancel(context.Background())
	r := &records{
		store: s, log: log, errors: m.storeErrors, lost: m.lost, pending: store.NewMemory(math.MaxInt64),
		ctx: ctx, cancel: cancel, ended: make(chan struct{}),
		writing: make(chan struct{}, 1),
		news:    make(chan struct{}, 1), closing: make(chan struct{}), written: make(chan struct{}),
	}
	go r.write()
	return r
}

// get returns the origin's record, if there is one.
func (r *records) get(ctx context.Context, origin string) (store.Record, bool, error) {
	// In this order, or a record that is written meanwhile would be missed.
	if rec, ok, _ := r.pending.Get(ctx, origin); ok {
		return rec, true, nil
	}
	rec, ok, err := r.store.Get(ctx, origin)
	return rec, ok, r.tried(ctx, getting, err)
}

// list is store.Store's List.
func (r *records) list(ctx context.Context, after, part string, limit int) ([]store.Record, error) {
	pending, _ := r.pending.List(ctx, after, part, limit)
	recs, err := r.store.List(ctx, after, part, limit)
	if r.tried(ctx, listing, err) != nil {
		return nil, err
	}
	recs = append(pending, recs...) // of two records of one origin, the pending one is first
	slices.SortStableFunc(recs, func(a, b store.Record) int { return strings.Compare(a.Origin, b.Origin) })
	recs = slices.CompactFunc(recs, func(a, b store.Record) bool { return a.Origin == b.Origin })
	return recs[:min(len(recs), limit)], nil
}

// versions is store.Store's Versions.
func (r *records) versions(ctx context.Context, origin string) ([]store.Version, error) {
	pending, _ := r.pending.Versions(ctx, origin)
	versions, err := r.store.Versions(ctx, origin)
	if r.tried(ctx, readingVersions, err) != nil || len(pending) == 0 {
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

// forget drops the origin's record. What it was is one of its versions still.
func (r *records) forget(ctx context.Context, origin string) error {
	select {
	case r.writing <- struct{}{}:
		defer func() { <-r.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if rec, ok, _ := r.pending.Get(ctx, origin); ok {
		if err := r.store.Put(ctx, rec); r.tried(ctx, putting, err) != nil {
			r.failed(ctx, err)
			r.lose(1)
		}
		r.pending.Forget(ctx, origin)
	}
	return r.tried(ctx, forgetting, r.store.Forget(ctx, origin))
}

// room waits until what a fetch of the origin brings can be put: until not too much
// waits to be written, and nothing of the origin does, which would be replaced. It
// does not wait for a store that fails. The error is that of ctx, or errUnwanted when
// unwanted ends.
func (r *records) room(ctx, unwanted context.Context, origin string) error {
	return r.wait(ctx, unwanted, func() bool {
		n, bytes := r.pending.Held()
		return n < maxPending && bytes < maxPendingBytes && !r.isPending(origin)
	})
}

// settled returns when nothing of the origin waits to be written, or in vain.
func (r *records) settled(ctx context.Context, origin string) {
	r.wait(ctx, ctx, func() bool { return !r.isPending(origin) })
}

func (r *records) isPending(origin string) bool {
	_, is, _ := r.pending.Get(r.ctx, origin)
	return is
}

// wait returns when done reports true after a write, or the store fails. The error is
// that of ctx, or errUnwanted when unwanted ends.
func (r *records) wait(ctx, unwanted context.Context, done func() bool) error {
	for {
		r.mu.Lock()
		ended := r.ended
		r.mu.Unlock()
		if r.failing.Load() || done() {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-unwanted.Done():
			return errUnwanted
		}
	}
}

// put has rec written soon.
func (r *records) put(rec store.Record) {
	r.hold(rec)
	r.wake()
}

// hold adds rec to what is pending. An answer that it replaces there is lost.
func (r *records) hold(rec store.Record) {
	old, replaces, _ := r.pending.Get(r.ctx, rec.Origin)
	if replaces && old.Status != 0 && (old.Status != rec.Status || old.SHA256 != rec.SHA256) {
		r.lose(1)
	}
	r.pending.Put(r.ctx, rec)
	r.trim()
}

// trim gives up what waits in vain for a store that fails and has no room.
func (r *records) trim() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.failing.Load() {
		if _, bytes := r.pending.Held(); bytes <= maxPendingBytes {
			return
		}
		for _, rec := range r.pending.Oldest(1) {
			r.pending.Forget(r.ctx, rec.Origin)
			r.lose(1)
		}
	}
}

// lose counts records that the store will not get.
func (r *records) lose(n int) {
	r.lost.Add(float64(n))
	if r.untold.Add(int64(n)) == int64(n) {
		r.log.Warn().Msg("some policies are lost for the store: there is no room for all that wait for it")
	}
}

func (r *records) wake() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// close returns when all is written that can be.
func (r *records) close() {
	r.closed.Do(func() { close(r.closing) })
	late := time.AfterFunc(rest, r.cancel)
	<-r.written
	late.Stop()
	r.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calm != nil {
		r.calm.Stop()
	}
}

// write writes what is pending until the end.
func (r *records) write() {
	defer close(r.written)
	defer r.tellLoss()
	for closing := false; ; {
		found, kept := r.keepOldest()
		switch {
		case !found && closing:
			return
		case !found:
			select {
			case <-r.news:
			case <-r.closing:
				closing = true
			}
		case kept:
		case closing:
			return
		default:
			select {
			case <-time.After(rest):
			case <-r.closing:
				closing = true
			}
		}
	}
}

// tellLoss says at the end how much the store has not got.
func (r *records) tellLoss() {
	left, _ := r.pending.Held()
	r.lost.Add(float64(left))
	if n := r.untold.Add(int64(left)); n > 0 {
		r.log.Error().Int64("lost", n).Msg("policies could not be kept before the end; they are fetched again when somebody asks for them")
	}
}

// keepOldest writes a batch of records, if any are pending, and reports whether
// that worked.
func (r *records) keepOldest() (found, kept bool) {
	r.writing <- struct{}{}
	defer func() { <-r.writing }()
	recs := r.pending.Oldest(writeBatch)
	if len(recs) == 0 {
		return false, false
	}
	if r.keep(r.ctx, recs...) {
		return true, true
	}
	for _, rec := range recs { // it may be one alone that cannot be written
		if len(recs) == 1 || !r.keep(r.ctx, rec) {
			r.pending.Get(r.ctx, rec.Origin) // the others come first now
			return true, false
		}
	}
	return true, true
}

// errSlow is a write that takes longer than rest.
var errSlow = fmt.Errorf("writing has taken more than %v", rest)

// keep writes records that are pending, and reports whether that worked.
func (r *records) keep(ctx context.Context, recs ...store.Record) bool {
	defer r.wakeFetches()
	before := r.failures.Load()
	slow := time.AfterFunc(rest, func() { r.failed(ctx, errSlow) })
	err := r.guardedPut(ctx, recs)
	slow.Stop()
	if r.tried(ctx, putting, err) != nil {
		r.failed(ctx, err)
		return false
	}
	// A full disk can be read: only this says that it is full no more. What began before
	// the last failure says nothing.
	if r.failures.Load() == before && r.failing.Swap(false) {
		r.recovered(before)
	}
	for _, rec := range recs {
		r.pending.Remove(rec)
	}
	return true
}

// recovered has the log say that the store is back, unless it fails again too soon.
func (r *records) recovered(failures int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calm != nil {
		r.calm.Stop()
	}
	r.calm = time.AfterFunc(quiet, func() {
		if r.failures.Load() != failures || !r.away.Swap(false) {
			return
		}
		line := r.log.Info()
		if n := r.untold.Swap(0); n > 0 {
			line.Int64("lost", n)
		}
		line.Msg("policies can be kept again")
	})
}

// guardedPut is the store's Put, in which a panic over what a site has sent is an error.
func (r *records) guardedPut(ctx context.Context, recs []store.Record) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			crash(r.log, cause).Msg("a policy could not be written by a fault of the program; please report this")
			err = errCrashed
		}
	}()
	return r.store.Put(ctx, recs...)
}

// wakeFetches has the fetches that wait for room look again.
func (r *records) wakeFetches() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.ended)
	r.ended = make(chan struct{})
}

// An operation is what a store is asked to do, as metrics call it.
type operation string

const (
	getting         operation = "get"
	putting         operation = "put"
	listing         operation = "list"
	forgetting      operation = "forget"
	readingVersions operation = "versions"
	leasing         operation = "lease"
)

var operations = []operation{getting, putting, listing, forgetting, readingVersions, leasing}

// tried counts the error that came of an operation, if there is one, and returns it.
func (r *records) tried(ctx context.Context, op operation, err error) error {
	if err != nil && ctx.Err() == nil { // else it is no error of the store
		r.errors.WithLabelValues(string(op)).Inc()
	}
	return err
}

// failed logs the first error of reading or writing since the log last said that
// policies can be kept.
func (r *records) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // then it is no error of the store
	}
	r.failures.Add(1)
	r.failing.Store(true)
	if !r.away.Swap(true) {
		r.log.Error().Err(err).Msg("policies cannot be kept; going on with those in memory and fetching the others")
	}
	r.trim()
	r.wakeFetches()
}

// newer reports whether a is of a later fetch than b. What is from the future
// was written by a clock that was wrong.
func newer(a, b store.Record, now time.Time) bool {
	switch {
	case a.FetchedAt.Equal(b.FetchedAt):
		return a.Failures > b.Failures
	case a.FetchedAt.After(now) || b.FetchedAt.After(now):
		return b.FetchedAt.After(a.FetchedAt)
	}
	return a.FetchedAt.After(b.FetchedAt)
}
