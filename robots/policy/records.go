package policy

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"robotsproxy/robots/store"
)

// rest is how long a store that could not be written to is left alone, and how
// long at most one that does not answer holds up the end.
const rest = 5 * time.Second

// records is the store as a keeper uses it: one that may fail or be slow.
// What is put is written in its own time, and found from the first moment.
type records struct {
	store  store.Store
	log    zerolog.Logger
	errors *prometheus.CounterVec // of the store, by operation
	// pending has what the store does not have yet. Without it an origin whose
	// policy memory does not take would be fetched for every request.
	pending  *store.Memory
	writing  chan struct{} // has a value while the store gets, or forgets, what is pending
	failing  atomic.Bool   // as the log has it
	failures atomic.Int64  // so far

	ctx     context.Context // ends writing
	cancel  context.CancelFunc
	news    chan struct{} // has a value after a put
	closing chan struct{}
	closed  sync.Once
	written chan struct{} // closed when nothing more will be
}

func newRecords(s store.Store, log zerolog.Logger, errors *prometheus.CounterVec) *records {
	ctx, cancel := context.WithCancel(context.Background())
	r := &records{
		store: s, log: log, errors: errors, pending: store.NewMemory(0),
		ctx: ctx, cancel: cancel,
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
func (r *records) list(ctx context.Context, after string, limit int) ([]store.Record, error) {
	pending, _ := r.pending.List(ctx, after, limit)
	recs, err := r.store.List(ctx, after, limit)
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
		}
		r.pending.Forget(ctx, origin)
	}
	return r.tried(ctx, forgetting, r.store.Forget(ctx, origin))
}

// share writes rec at once, for other machines to find it. What fails is
// written later. Unlike the writing of put, those of several origins don't wait
// for each other; the origin's flight must last until it returns.
func (r *records) share(ctx context.Context, rec store.Record) {
	r.pending.Put(r.ctx, rec)
	if !r.keep(ctx, rec) {
		r.wake()
	}
}

// put has rec written soon.
func (r *records) put(rec store.Record) {
	r.pending.Put(r.ctx, rec)
	r.wake()
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
}

// write writes what is pending, one record after another, until the end.
func (r *records) write() {
	defer close(r.written)
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

// keepOldest writes a record, if one is pending, and reports whether that
// worked.
func (r *records) keepOldest() (found, kept bool) {
	r.writing <- struct{}{}
	defer func() { <-r.writing }()
	rec, ok := r.pending.Oldest()
	if !ok {
		return false, false
	}
	if !r.keep(r.ctx, rec) {
		r.pending.Get(r.ctx, rec.Origin) // it may be this one alone: the others come first now
		return true, false
	}
	return true, true
}

// keep writes a record that is pending, and reports whether that worked.
func (r *records) keep(ctx context.Context, rec store.Record) bool {
	before := r.failures.Load()
	if err := r.store.Put(ctx, rec); r.tried(ctx, putting, err) != nil {
		r.failed(ctx, err)
		return false
	}
	// A full disk can be read: only this says that it is full no more. What began before
	// the last failure says nothing.
	if r.failures.Load() == before && r.failing.Swap(false) {
		r.log.Info().Msg("policies can be kept again")
	}
	r.pending.Remove(rec)
	return true
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

// failed logs the first error of reading or writing since policies could last
// be kept.
func (r *records) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // then it is no error of the store
	}
	r.failures.Add(1)
	if !r.failing.Swap(true) {
		r.log.Error().Err(err).Msg("policies cannot be kept; going on with those in memory and fetching the others")
	}
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
