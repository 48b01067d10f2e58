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

const (
	retryWriteAfter = 5 * time.Second // after a failed write
	slowWriteAfter  = 5 * time.Second // a write that takes longer counts as failed
	closeTimeout    = 5 * time.Second // for what is pending when records are closed

	// recoveryTime is how long a store that failed must work without a failure before
	// the log says that it is back: one that comes and goes would fill the log.
	recoveryTime = 10 * time.Second
)

// writeBatch is how many records are written at once: one transaction in SQLite.
const writeBatch = 128

// What may be pending before fetches wait: few enough records to be written within
// closeTimeout, and few enough bytes to be held in memory while the store fails.
const (
	maxPending      = 1024
	maxPendingBytes = 8 << 20
)

// A Leaser is a store that several processes share, on one machine or on many. It lets
// one of them at a time ask an origin: until release is called, until that process has
// ended, or for the length at most. held is false while another has the lease.
type Leaser interface {
	Lease(ctx context.Context, origin string, length time.Duration) (release func(), held bool, err error)
}

// An expirer is a store that drops records by itself, that long after the lifetime of
// their answers.
type expirer interface{ SetKeep(length time.Duration) }

// records is the store as a keeper uses it, which may be slow or fail. A record that is
// put is found at once and written later.
//
// A slow store slows the fetches: none begins while too much is pending, so that nothing
// is lost. A failing store slows nothing: fetches go on, and pending records stay in
// memory as far as there is room. The oldest are then given up. They are counted, and the
// log says how many when the store is back or when records are closed.
type records struct {
	store    store.Store
	log      zerolog.Logger
	errors   *prometheus.CounterVec // of the store, by operation
	lost     prometheus.Counter     // records that were given up
	unlogged atomic.Int64           // those of them that the log has not mentioned yet
	// pending has what the store does not have yet. Without it, an origin whose
	// policy memory does not take would be fetched for every request.
	pending  *store.Memory
	writing  chan struct{} // has a value while pending records are written or forgotten
	failing  atomic.Bool   // no write has begun and worked since the last failure
	failures atomic.Int64  // so far
	outage   atomic.Bool   // the log has said that the store fails, and not yet that it is back

	mu            sync.Mutex
	writeEnded    chan struct{} // closed when a write has ended or is slow, then made anew
	recoveryTimer *time.Timer   // until the log says that the store is back

	ctx     context.Context // ends writing
	cancel  context.CancelFunc
	added   chan struct{} // has a value after a put
	closing chan struct{}
	closed  sync.Once
	stopped chan struct{} // closed when nothing more is written
}

func newRecords(s store.Store, log zerolog.Logger, m *metrics) *records {
	ctx, cancel := context.WithCancel(context.Background())
	r := &records{
		store: s, log: log, errors: m.storeErrors, lost: m.lost, pending: store.NewMemory(math.MaxInt64),
		ctx: ctx, cancel: cancel, writeEnded: make(chan struct{}),
		writing: make(chan struct{}, 1),
		added:   make(chan struct{}, 1), closing: make(chan struct{}), stopped: make(chan struct{}),
	}
	go r.writeAll()
	return r
}

// setKeep tells the store how long records may be needed after their lifetime.
func (r *records) setKeep(length time.Duration) {
	if s, ok := r.store.(expirer); ok {
		s.SetKeep(length)
	}
}

// get returns the origin's record, if there is one.
func (r *records) get(ctx context.Context, origin string) (store.Record, bool, error) {
	// In this order, or a record that is written meanwhile would be missed.
	if rec, ok, _ := r.pending.Get(ctx, origin); ok {
		return rec, true, nil
	}
	rec, ok, err := r.store.Get(ctx, origin)
	return rec, ok, r.counted(ctx, getting, err)
}

// list is store.Store's List.
func (r *records) list(ctx context.Context, after, part string, limit int) ([]store.Record, error) {
	pending, _ := r.pending.List(ctx, after, part, limit)
	recs, err := r.store.List(ctx, after, part, limit)
	if r.counted(ctx, listing, err) != nil {
		return nil, err
	}
	recs = append(pending, recs...) // of two records of one origin, the pending one comes first
	slices.SortStableFunc(recs, func(a, b store.Record) int { return strings.Compare(a.Origin, b.Origin) })
	recs = slices.CompactFunc(recs, func(a, b store.Record) bool { return a.Origin == b.Origin })
	return recs[:min(len(recs), limit)], nil
}

// versions is store.Store's Versions.
func (r *records) versions(ctx context.Context, origin string) ([]store.Version, error) {
	pending, _ := r.pending.Versions(ctx, origin)
	versions, err := r.store.Versions(ctx, origin)
	if r.counted(ctx, readingVersions, err) != nil || len(pending) == 0 {
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

// forget drops the origin's record. Its answer remains one of its versions.
func (r *records) forget(ctx context.Context, origin string) error {
	select {
	case r.writing <- struct{}{}:
		defer func() { <-r.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if rec, ok, _ := r.pending.Get(ctx, origin); ok {
		if err := r.store.Put(ctx, rec); r.counted(ctx, putting, err) != nil {
			r.report(ctx, err)
			r.lose(1)
		}
		r.pending.Forget(ctx, origin)
	}
	return r.counted(ctx, forgetting, r.store.Forget(ctx, origin))
}

// awaitRoom waits until the result of a fetch of the origin can be put: until not too
// much is pending, and no record of the origin is, which would be replaced. It does not
// wait for a store that fails. The error is that of ctx, or errUnwanted if unwanted ends.
func (r *records) awaitRoom(ctx, unwanted context.Context, origin string) error {
	return r.await(ctx, unwanted, func() bool {
		n, bytes := r.pending.Held()
		return n < maxPending && bytes < maxPendingBytes && !r.isPending(origin)
	})
}

// awaitWritten waits until no record of the origin is pending. It does not wait for a
// store that fails.
func (r *records) awaitWritten(ctx context.Context, origin string) {
	r.await(ctx, ctx, func() bool { return !r.isPending(origin) })
}

func (r *records) isPending(origin string) bool {
	_, is, _ := r.pending.Get(r.ctx, origin)
	return is
}

// await returns once done reports true or the store fails; it looks after each write.
// The error is that of ctx, or errUnwanted if unwanted ends.
func (r *records) await(ctx, unwanted context.Context, done func() bool) error {
	for {
		r.mu.Lock()
		ended := r.writeEnded
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

// put adds a record to those that are written in the background.
func (r *records) put(rec store.Record) {
	r.addPending(rec)
	r.wakeWriter()
}

// addPending adds rec to the pending records. An answer that it replaces there is lost.
func (r *records) addPending(rec store.Record) {
	old, replaces, _ := r.pending.Get(r.ctx, rec.Origin)
	if replaces && old.Status != 0 && (old.Status != rec.Status || old.SHA256 != rec.SHA256) {
		r.lose(1)
	}
	r.pending.Put(r.ctx, rec)
	r.trim()
}

// trim gives up the oldest pending records for which there is no room while the store
// fails.
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
	if r.unlogged.Add(int64(n)) == int64(n) {
		r.log.Warn().Msg("some policies are lost for the store: there is no room for all that wait for it")
	}
}

func (r *records) wakeWriter() {
	select {
	case r.added <- struct{}{}:
	default:
	}
}

// close writes what is pending, as far as that is possible within closeTimeout.
func (r *records) close() {
	r.closed.Do(func() { close(r.closing) })
	timeout := time.AfterFunc(closeTimeout, r.cancel)
	<-r.stopped
	timeout.Stop()
	r.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recoveryTimer != nil {
		r.recoveryTimer.Stop()
	}
}

// writeAll writes pending records until records are closed.
func (r *records) writeAll() {
	defer close(r.stopped)
	defer r.logLosses()
	for closing := false; ; {
		found, written := r.writeOldest()
		switch {
		case !found && closing:
			return
		case !found:
			select {
			case <-r.added:
			case <-r.closing:
				closing = true
			}
		case written:
		case closing:
			return
		default:
			select {
			case <-time.After(retryWriteAfter):
			case <-r.closing:
				closing = true
			}
		}
	}
}

// logLosses has the log say at the end how many records the store has not got.
func (r *records) logLosses() {
	left, _ := r.pending.Held()
	r.lost.Add(float64(left))
	if n := r.unlogged.Add(int64(left)); n > 0 {
		r.log.Error().Int64("lost", n).Msg("policies could not be kept before the end; they are fetched again when somebody asks for them")
	}
}

// writeOldest writes a batch of pending records, if there are any, and reports whether
// that worked.
func (r *records) writeOldest() (found, written bool) {
	r.writing <- struct{}{}
	defer func() { <-r.writing }()
	recs := r.pending.Oldest(writeBatch)
	if len(recs) == 0 {
		return false, false
	}
	if r.write(r.ctx, recs...) {
		return true, true
	}
	for _, rec := range recs { // perhaps only one of them cannot be written
		if len(recs) == 1 || !r.write(r.ctx, rec) {
			r.pending.Get(r.ctx, rec.Origin) // makes it the youngest: the others come first now
			return true, false
		}
	}
	return true, true
}

// errSlow is a write that takes longer than slowWriteAfter.
var errSlow = fmt.Errorf("writing has taken more than %v", slowWriteAfter)

// write writes pending records, and reports whether that worked.
func (r *records) write(ctx context.Context, recs ...store.Record) bool {
	defer r.wakeWaiting()
	before := r.failures.Load()
	slow := time.AfterFunc(slowWriteAfter, func() { r.report(ctx, errSlow) })
	err := r.guardedPut(ctx, recs)
	slow.Stop()
	if r.counted(ctx, putting, err) != nil {
		r.report(ctx, err)
		return false
	}
	// Only a write proves that the store is back: a full disk can still be read. And only
	// one that began after the last failure.
	if r.failures.Load() == before && r.failing.Swap(false) {
		r.recovered(before)
	}
	for _, rec := range recs {
		r.pending.Remove(rec)
	}
	return true
}

// recovered has the log say that the store is back, unless it fails again within
// recoveryTime.
func (r *records) recovered(failures int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recoveryTimer != nil {
		r.recoveryTimer.Stop()
	}
	r.recoveryTimer = time.AfterFunc(recoveryTime, func() {
		if r.failures.Load() != failures || !r.outage.Swap(false) {
			return
		}
		line := r.log.Info()
		if n := r.unlogged.Swap(0); n > 0 {
			line.Int64("lost", n)
		}
		line.Msg("policies can be kept again")
	})
}

// guardedPut is the store's Put. A panic, which something that a site has sent may cause,
// becomes an error.
func (r *records) guardedPut(ctx context.Context, recs []store.Record) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			logPanic(r.log, cause).Msg("a policy could not be written by a fault of the program; please report this")
			err = errCrashed
		}
	}()
	return r.store.Put(ctx, recs...)
}

// wakeWaiting has all who await something look again.
func (r *records) wakeWaiting() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.writeEnded)
	r.writeEnded = make(chan struct{})
}

// An operation is a call of the store, as metrics name it.
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

// counted counts the error of an operation, if there is one, and returns it.
func (r *records) counted(ctx context.Context, op operation, err error) error {
	if err != nil && ctx.Err() == nil { // else it is no error of the store
		r.errors.WithLabelValues(string(op)).Inc()
	}
	return err
}

// report marks the store as failing. It logs the first error since the log last said
// that policies can be kept.
func (r *records) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // then it is no error of the store
	}
	r.failures.Add(1)
	r.failing.Store(true)
	if !r.outage.Swap(true) {
		r.log.Error().Err(err).Msg("policies cannot be kept; going on with those in memory and fetching the others")
	}
	r.trim()
	r.wakeWaiting()
}
