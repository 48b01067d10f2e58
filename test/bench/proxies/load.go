package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// budget bounds a load by time and by requests, whichever comes first. Zero means no bound.
type budget struct {
	length   time.Duration
	requests int
}

// load is what workers have done.
type load struct {
	requests int
	took     time.Duration
	waits    []time.Duration // one for each response, ascending
	err      error           // the first, which ended the load
}

func (l *load) quantile(q float64) time.Duration {
	if len(l.waits) == 0 {
		return 0
	}
	return l.waits[min(int(q*float64(len(l.waits))), len(l.waits)-1)]
}

// closedLoop makes each worker send a request as soon as the one before has been answered.
func closedLoop(ctx context.Context, workers []worker, b budget) load {
	var taken atomic.Int64
	start := time.Now()
	return inParallel(ctx, workers, func(ctx context.Context, w worker, note func(time.Duration)) error {
		for ctx.Err() == nil && (b.length == 0 || time.Since(start) < b.length) && (b.requests == 0 || taken.Add(1) <= int64(b.requests)) {
			began := time.Now()
			if err := w.request(); err != nil {
				return err
			}
			note(time.Since(began))
		}
		return nil
	})
}

// openLoop makes the workers together send so many requests a second, whether or not those
// before have been answered. The wait of a request counts from when it was due.
func openLoop(ctx context.Context, workers []worker, b budget, perSecond float64) load {
	var taken atomic.Int64
	start := time.Now()
	return inParallel(ctx, workers, func(ctx context.Context, w worker, note func(time.Duration)) error {
		for ctx.Err() == nil {
			n := taken.Add(1)
			due := time.Duration(float64(n) / perSecond * float64(time.Second))
			if b.length > 0 && due > b.length || b.requests > 0 && n > int64(b.requests) {
				return nil
			}
			time.Sleep(due - time.Since(start))
			if err := w.request(); err != nil {
				return err
			}
			note(time.Since(start) - due)
		}
		return nil
	})
}

// inParallel runs work for all workers at once, until they are done or one fails. They note how
// long they waited for each response.
func inParallel(ctx context.Context, workers []worker, work func(ctx context.Context, w worker, note func(time.Duration)) error) load {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	waits := make([][]time.Duration, len(workers))
	var group sync.WaitGroup
	start := time.Now()
	for i, w := range workers {
		group.Go(func() {
			if err := work(ctx, w, func(wait time.Duration) { waits[i] = append(waits[i], wait) }); err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	l := load{took: time.Since(start), waits: slices.Concat(waits...), err: context.Cause(ctx)}
	l.requests = len(l.waits)
	slices.Sort(l.waits)
	return l
}
