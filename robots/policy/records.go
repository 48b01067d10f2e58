package policy

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/robots/store"
)

// records is the store as a keeper uses it: one that may fail, and that is
// stood in for while it does.
type records struct {
	store store.Store
	log   zerolog.Logger
	// spare takes what the store does not, so that an origin whose policy
	// memory does not take either is not fetched for every request.
	spare   *store.Memory
	failing atomic.Bool
}

// get returns the origin's record, if there is one.
func (r *records) get(ctx context.Context, origin string, now time.Time) (store.Record, bool) {
	rec, ok, err := r.store.Get(ctx, origin)
	r.report(ctx, err)
	spare, spared, _ := r.spare.Get(ctx, origin)
	if spared && (!ok || newer(spare, rec, now)) {
		return spare, true
	}
	return rec, ok
}

func (r *records) put(ctx context.Context, rec store.Record) {
	err := r.store.Put(ctx, rec)
	if err != nil {
		r.spare.Put(ctx, rec)
	}
	r.report(ctx, err)
}

// report logs the first error, and the first success after one.
func (r *records) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil: // then it is no error of the store
	case err != nil && !r.failing.Swap(true):
		r.log.Error().Err(err).Msg("policies cannot be kept; going on with those in memory and fetching the others")
	case err == nil && r.failing.Load() && r.failing.Swap(false):
		r.log.Info().Msg("policies can be kept again")
	}
}

// newer reports whether a is of a later fetch than b. What is from the future
// was written by a clock that was wrong.
func newer(a, b store.Record, now time.Time) bool {
	switch {
	case a.FetchedAt.After(now) || b.FetchedAt.After(now):
		return b.FetchedAt.After(a.FetchedAt)
	case a.FetchedAt.Equal(b.FetchedAt):
		return a.Failures > b.Failures
	}
	return a.FetchedAt.After(b.FetchedAt)
}
