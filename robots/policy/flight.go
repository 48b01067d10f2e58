package policy

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/internal/loopback"
	"robotsproxy/robots"
	"robotsproxy/robots/store"
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

// start returns the origin's flight, and begins it if there is none. It ends
// without a fetch if what is found on the way needs less than what the flight
// is for. It may lead where the client of ctx may be led.
func (k *Keeper) start(ctx context.Context, origin robots.Origin, by Sender, need Need, meanwhile *entry) *flight {
	by.access = loopback.Of(ctx)
	return k.flights.start(origin, meanwhile, func(ctx context.Context, f *flight) {
		f.err = k.look(ctx, f, origin, by, need)
	})
}

// look is a flight.
func (k *Keeper) look(ctx context.Context, f *flight, origin robots.Origin, by Sender, need Need) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		// Another flight may have ended, and another process may have fetched.
		e := k.newest(ctx, origin)
		if k.lands(f, e, need) {
			return nil
		}
		if done, err := k.visit(ctx, f, e, by, need); done || err != nil {
			return err
		}
		select {
		case <-time.After(pause): // another process asks the origin
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.unwanted.Done():
			return errUnwanted
		}
	}
}

// lands ends a flight with an entry that needs less than the flight is for, and
// reports whether it does.
func (k *Keeper) lands(f *flight, e *entry, need Need) bool {
	j := e.judge(k.opts(), k.now())
	if j.Need >= need {
		return false
	}
	k.memory.set(e)
	f.entry, f.judgement = e, j
	return true
}

// visit asks the origin of an entry, unless another process is doing so: then
// the flight is not done.
func (k *Keeper) visit(ctx context.Context, f *flight, e *entry, by Sender, need Need) (done bool, err error) {
	if err := k.places.enter(ctx, f.unwanted, by.party()); err != nil {
		return false, err
	}
	defer k.places.leave()
	if err := k.records.room(ctx, f.unwanted, e.rec.Origin); err != nil {
		return false, err
	}
	release, taken := k.lease(ctx, f, e.origin)
	switch {
	case release != nil:
		defer k.flights.running.Go(func() {
			k.records.settled(k.flights.ctx, e.rec.Origin) // others find it when they have the lease
			release()
		})
		if e = k.newest(ctx, e.origin); k.lands(f, e, need) { // another may have had the lease just before
			return true, nil
		}
	case taken:
		return false, nil
	}
	got, err := (&fetcher{k.opts(), k.transport, k.userAgent}).fetch(ctx, e.origin, by, e.rec)
	if err != nil {
		return false, err
	}
	now := k.now()
	e = k.readings.entry(e.origin, k.opts().learn(e.rec, got, now, k.random()))
	k.memory.set(e)
	k.records.put(e.rec)
	k.metrics.fetched(got)
	k.logFetch(e, got)
	f.entry, f.judgement, f.fetched = e, e.judge(k.opts(), now), true
	return true, nil
}

// errCrashed is what has come of a panic.
var errCrashed = errors.New("the program failed; its log says how")

// crash begins the log's line on a panic. The function that recovers calls it.
func crash(log zerolog.Logger, cause any) *zerolog.Event {
	return log.Error().Any("panic", cause).Bytes("stack", debug.Stack())
}

// crashed fills in a flight in which something has panicked: the robots.txt is
// unreachable. It goes by memory alone, as what the store has may be the cause.
func (k *Keeper) crashed(f *flight, origin robots.Origin, cause any) {
	crash(k.log, cause).Str("origin", origin.String()).
		Msg("a robots.txt could not be fetched by a fault of the program; please report this")
	e := k.memory.get(origin)
	if e == nil {
		e = &entry{origin: origin, rec: store.Record{Origin: origin.String()}}
	}
	got := found{}.failed(errCrashed)
	now := k.now()
	e = k.readings.entry(origin, k.opts().learn(e.rec, got, now, k.random()))
	k.memory.set(e)
	k.metrics.fetched(got)
	f.entry, f.judgement, f.fetched, f.err = e, e.judge(k.opts(), now), true, nil
}

// newest returns what memory or the store knows best; an empty entry if
// neither knows anything.
func (k *Keeper) newest(ctx context.Context, origin robots.Origin) *entry {
	held := k.memory.get(origin)
	name := origin.String()
	stored, ok, err := k.records.get(ctx, name)
	if err != nil {
		k.records.failed(ctx, err)
	}
	switch {
	case ok && (held == nil || newer(stored, held.rec, k.now())):
		return k.readings.entry(origin, stored)
	case held != nil:
		return held
	}
	return k.readings.entry(origin, store.Record{Origin: name})
}

func (k *Keeper) logFetch(e *entry, got found) {
	line, message := k.log.Debug(), "robots.txt fetched"
	if !got.answered {
		line, message = k.log.Warn(), "robots.txt unreachable"
		line.Int("failures", e.rec.Failures).Time("next_try", e.rec.NextTry)
	}
	line.Str("origin", e.rec.Origin).Str("outcome", string(got.outcome)).Int("status", got.status).
		Str("cause", got.cause).Str("user_agent", got.userAgent).Int("bytes", len(got.body)).Str("robots_sha256", got.sha256).
		Int64("duration_ms", got.took.Milliseconds()).Msg(message)
}

// A Leaser is a store that several processes share, on one machine or many. It lets one
// of them at a time ask an origin: until release is called or its process has ended,
// or for so long if neither happens. held is false while another has the lease.
type Leaser interface {
	Lease(ctx context.Context, origin string, length time.Duration) (release func(), held bool, err error)
}

// leaseMargin is what a lease has over fetch_timeout, to keep what was fetched.
const leaseMargin = 2 * time.Second

// How soon and how late a flight looks again for what another process fetches.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

// lease takes the origin's lease for a flight. release is nil if there is none to take:
// another has it, if taken; or there are no leases here or the store is away, so that
// each fetches for itself.
func (k *Keeper) lease(ctx context.Context, f *flight, origin robots.Origin) (release func(), taken bool) {
	l, ok := k.records.store.(Leaser)
	if !ok {
		return nil, false
	}
	length := k.opts().FetchTimeout + leaseMargin
	release, held, err := l.Lease(ctx, origin.String(), length)
	switch {
	case k.records.tried(ctx, leasing, err) != nil:
		k.records.failed(ctx, err)
		return nil, false
	case held:
		return release, true
	case f.refused.IsZero():
		f.refused = time.Now()
	case time.Since(f.refused) > length: // its process has been stopped, or its fetch is known to nobody
		return nil, false
	}
	return nil, true
}
