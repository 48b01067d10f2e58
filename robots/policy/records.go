package policy

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/robots/store"
)

// rest is how long a store that could not be written to is left alone, and how
// long at most one that does not answer holds up the end.
const rest = 5 * time.Second

// records is the store as a keeper uses it: one that may fail or be slow.
// What is put is written in its own time, and found from the first moment.
type records struct {
	store store.Store
	log   zerolog.Logger
	// pending has what the store does not have yet. Without it an origin whose
	// policy memory does not take would be fetched for every request.
	pending *store.Memory
	failing atomic.Bool

	ctx     context.Context // ends writing
	cancel  context.CancelFunc
	news    chan struct{} // has a value after a put
	closing chan struct{}
	closed  sync.Once
	written chan struct{} // closed when nothing more will be
}

func newRecords(s store.Store, log zerolog.Logger) *records {
	ctx, cancel := context.WithCancel(context.Background())
	r := &records{
		store: s, log: log, pending: store.NewMemory(0),
		ctx: ctx, cancel: cancel,
		news: make(chan struct{}, 1), closing: make(chan struct{}), written: make(chan struct{}),
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
	return r.store.Get(ctx, origin)
}

// list is store.Store's List.
func (r *records) list(ctx context.Context, after string, limit int) ([]store.Record, error) {
	pending, _ := r.pending.List(ctx, after, limit)
	recs, err := r.store.List(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	recs = append(pending, recs...) // of two records of one origin, the pending one is first
	slices.SortStableFunc(recs, func(a, b store.Record) int { return strings.Compare(a.Origin, b.Origin) })
	recs = slices.CompactFunc(recs, func(a, b store.Record) bool { return a.Origin == b.Origin })
	return recs[:min(len(recs), limit)], nil
}

// put has rec written soon.
func (r *records) put(rec store.Record) {
	r.pending.Put(r.ctx, rec)
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
		rec, ok := r.pending.Oldest()
		switch {
		case !ok && closing:
			return
		case !ok:
			select {
			case <-r.news:
			case <-r.closing:
				closing = true
			}
		case r.keep(rec):
			r.pending.Remove(rec)
		case closing:
			return
		default:
			r.pending.Get(r.ctx, rec.Origin) // it may be this one alone: the others come first now
			select {
			case <-time.After(rest):
			case <-r.closing:
				closing = true
			}
		}
	}
}

// keep writes a record, and reports whether that worked.
func (r *records) keep(rec store.Record) bool {
	err := r.store.Put(r.ctx, rec)
	if err != nil {
		r.failed(r.ctx, err)
	} else if r.failing.Swap(false) { // a full disk can be read: only this says that it is full no more
		r.log.Info().Msg("policies can be kept again")
	}
	return err == nil
}

// failed logs the first error of reading or writing since policies could last
// be kept.
func (r *records) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // then it is no error of the store
	}
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
