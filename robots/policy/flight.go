package policy

import (
	"context"
	"errors"
	"sync"
	"time"

	"robotsproxy/robots"
)

// A flight is one look beyond memory for an origin: into the store and, if
// that does not do, to the origin itself. There is one at a time for an
// origin, whoever waits for it.
type flight struct {
	meanwhile *entry        // what a refresh leaves in force; nil: nothing
	done      chan struct{} // closed when the rest is there

	entry     *entry
	judgement *Judgement // of entry
	fetched   bool
	err       error

	refused time.Time // when another process was first found to have the origin's lease

	waiting  int             // how many started it and have not left; who starts a refresh never does
	unwanted context.Context // ends when all have left
	giveUp   context.CancelFunc
	end      context.CancelCauseFunc
}

// errUnwanted ends a flight that nobody waited for any more, or whose origin
// has been forgotten. Whoever has come since then starts another.
var errUnwanted = errors.New("nobody waits for it")

// flights are those under way. It is singleflight with what a keeper needs
// besides: flights that nobody waits for and that leave nothing behind for
// each request that would have started one, and an end that waits for all.
type flights struct {
	ctx     context.Context // ends the flights
	cancel  context.CancelCauseFunc
	crashed func(*flight, robots.Origin, any) // fills in one that has panicked

	mu       sync.Mutex
	closed   bool
	underWay map[robots.Origin]*flight
	running  sync.WaitGroup
}

func newFlights(crashed func(*flight, robots.Origin, any)) *flights {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &flights{ctx: ctx, cancel: cancel, crashed: crashed, underWay: make(map[robots.Origin]*flight)}
}

// start returns the origin's flight. If there is none it begins one, which fly
// fills in; meanwhile is what is in force until then, if anything is.
func (fs *flights) start(origin robots.Origin, meanwhile *entry, fly func(context.Context, *flight)) *flight {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f, ok := fs.underWay[origin]; ok {
		f.waiting++
		return f
	}
	return fs.begin(origin, meanwhile, fly)
}

// instead ends the origin's flight, if there is one, and begins another as soon
// as it has ended.
func (fs *flights) instead(origin robots.Origin, fly func(context.Context, *flight)) *flight {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	last, ok := fs.underWay[origin]
	if !ok {
		return fs.begin(origin, nil, fly)
	}
	last.end(errUnwanted)
	return fs.begin(origin, nil, func(ctx context.Context, f *flight) {
		<-last.done
		fly(ctx, f)
	})
}

// begin begins a flight. The caller holds the lock.
func (fs *flights) begin(origin robots.Origin, meanwhile *entry, fly func(context.Context, *flight)) *flight {
	f := &flight{meanwhile: meanwhile, done: make(chan struct{}), waiting: 1}
	var ctx context.Context
	ctx, f.end = context.WithCancelCause(fs.ctx)
	f.unwanted, f.giveUp = context.WithCancel(ctx)
	if fs.closed {
		f.err = ErrClosed
		close(f.done)
		return f
	}
	fs.underWay[origin] = f
	fs.running.Go(func() {
		defer fs.land(origin, f)
		defer func() {
			// What a site sends goes through here: it may end its own flight, but
			// neither the process nor the hope of those who wait.
			if cause := recover(); cause != nil {
				fs.crashed(f, origin, cause)
			}
		}()
		fly(ctx, f)
	})
	return f
}

// land ends a flight that has been filled in.
func (fs *flights) land(origin robots.Origin, f *flight) {
	fs.mu.Lock()
	if fs.underWay[origin] == f {
		delete(fs.underWay, origin)
	}
	fs.mu.Unlock()
	close(f.done)
	f.end(nil)
}

// wait returns the error of a flight that was started, or that of ctx if it
// ends first.
func (fs *flights) wait(ctx context.Context, f *flight) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.giveUp()
	}
	return ctx.Err()
}

// close ends all flights and waits for their ends.
func (fs *flights) close() {
	fs.mu.Lock()
	fs.closed = true
	fs.mu.Unlock()
	fs.cancel(ErrClosed)
	fs.running.Wait()
}
