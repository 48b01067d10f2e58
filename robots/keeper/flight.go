package keeper

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"robotsproxy/internal/loopback"
	"robotsproxy/robots/fetch"
	"robotsproxy/robots/keeper/memory"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
)

// A flight is one lookup beyond memory: in the store and, if that is not enough, at the
// origin itself. A key has one flight at a time, and all who ask for its policy wait for that
// one.
type flight struct {
	meanwhile *memory.Entry // what a refresh leaves in force; nil: nothing
	done      chan struct{} // closed when the result is there

	// The result.
	entry      *memory.Entry
	assessment *policy.Assessment // of entry
	fetched    bool               // the origin was asked
	err        error

	refusedAt time.Time // when the flight first found that another process has the key's lease

	waiting int             // how many called start and have not left; a refresh never leaves
	wanted  context.Context // ends with errUnwanted when all have left, and with the flight
	giveUp  context.CancelCauseFunc
	cancel  context.CancelCauseFunc // ends the flight
}

// A goal is what a flight is for. The flight ends as soon as what it finds meets its goal.
type goal uint8

const (
	findUsable  goal = iota // a policy that requests may go by
	findFresh               // a policy that needs no refresh either
	alwaysFetch             // the origin's answer, whatever is known
)

func (g goal) isMet(by policy.Need) bool {
	switch g {
	case findUsable:
		return by != policy.NeedFetch
	case findFresh:
		return by == policy.NeedNothing
	}
	return false
}

// start returns the key's flight, and begins one if there is none. The flight may lead
// wherever the client of ctx may be led.
func (k *Keeper) start(ctx context.Context, key memory.Key, by Sender, goal goal, meanwhile *memory.Entry) *flight {
	by.local = loopback.Of(ctx)
	return k.flights.start(key, meanwhile, func(ctx context.Context, f *flight) {
		f.err = k.lookUp(ctx, f, key, by, goal)
	})
}

// A flight that waits for another process to ask the origin looks for the result at these
// intervals, the first one doubled each time up to the last.
const (
	minLeasePoll = 10 * time.Millisecond
	maxLeasePoll = 250 * time.Millisecond
)

// lookUp runs a flight.
func (k *Keeper) lookUp(ctx context.Context, f *flight, key memory.Key, by Sender, goal goal) error {
	for pause := minLeasePoll; ; pause = min(2*pause, maxLeasePoll) {
		// Another flight may have ended, and another process may have fetched.
		e := k.newest(ctx, key)
		if k.settle(f, e, goal) {
			return nil
		}
		if done, err := k.askOrigin(ctx, f, e, by, goal); done || err != nil {
			return err
		}
		select {
		case <-time.After(pause): // another process asks the origin
		case <-f.wanted.Done():
			return context.Cause(f.wanted)
		}
	}
}

// settle ends a flight with an entry if that meets its goal, and reports whether it does.
func (k *Keeper) settle(f *flight, e *memory.Entry, goal goal) bool {
	a := e.Assess(k.opts(), k.now())
	if !goal.isMet(a.Need) {
		return false
	}
	k.memory.Set(e)
	f.entry, f.assessment = e, a
	return true
}

// askOrigin fetches the file of an entry. done is false if another process is fetching it.
func (k *Keeper) askOrigin(ctx context.Context, f *flight, e *memory.Entry, by Sender, goal goal) (done bool, err error) {
	if err := k.slots.Acquire(f.wanted, by.party()); err != nil {
		return false, err
	}
	defer k.slots.Release()
	if err := k.store.AwaitRoom(f.wanted, e.Record.Origin); err != nil {
		return false, err
	}
	release, taken := k.lease(ctx, f, e.Key)
	switch {
	case release != nil:
		defer k.flights.running.Go(func() {
			k.store.AwaitWritten(k.flights.ctx, e.Record.Origin) // the next to have the lease must find it
			release()
		})
		if e = k.newest(ctx, e.Key); k.settle(f, e, goal) { // another may have had the lease just before
			return true, nil
		}
	case taken:
		return false, nil
	}
	opts := k.opts().For(e.Kind)
	fetcher := fetch.Fetcher{Options: &opts.Options, Transport: k.transport, UserAgent: k.userAgent}
	got, err := fetcher.Fetch(ctx, k.request(e, by))
	if err != nil {
		return false, err
	}
	e = k.record(f, e, got)
	k.store.Put(e.Record)
	k.logFetch(e, got)
	return true, nil
}

// record makes the entry that follows from a fetch, which is the flight's result.
func (k *Keeper) record(f *flight, e *memory.Entry, got fetch.Result) *memory.Entry {
	now := k.now()
	e = k.texts.Entry(e.Key, k.opts().Update(e.Record, got, now, k.random()))
	k.memory.Set(e)
	k.metrics[e.Kind].fetched(got)
	f.entry, f.assessment, f.fetched = e, e.Assess(k.opts(), now), true
	return e
}

// leaseMargin is what a lease lasts beyond fetch_timeout, for the result to be written.
const leaseMargin = 2 * time.Second

// lease takes the key's lease for a flight. If release is nil, the flight has no lease.
// Then either another process has it, if taken, or every process fetches for itself.
func (k *Keeper) lease(ctx context.Context, f *flight, key memory.Key) (release func(), taken bool) {
	length := k.opts().FetchTimeout + leaseMargin
	release, taken = k.store.Lease(ctx, key.String(), length)
	if !taken {
		return release, false
	}
	if f.refusedAt.IsZero() {
		f.refusedAt = time.Now()
	}
	// After that long, its holder has been stopped, or could not write the result.
	return nil, time.Since(f.refusedAt) <= length
}

// newest returns the newest that memory and the store know of a key, or an empty entry if
// they know nothing.
func (k *Keeper) newest(ctx context.Context, key memory.Key) *memory.Entry {
	held := k.memory.Get(key)
	name := key.String()
	stored, ok := k.store.Find(ctx, name)
	switch {
	case ok && (held == nil || newer(stored, held.Record, k.now())):
		return k.texts.Entry(key, stored)
	case held != nil:
		return held
	}
	return k.texts.Entry(key, store.Record{Origin: name})
}

// newer reports whether a is of a later fetch than b. A record from the future comes from a
// clock that was wrong.
func newer(a, b store.Record, now time.Time) bool {
	switch {
	case a.FetchedAt.Equal(b.FetchedAt):
		return a.Failures > b.Failures
	case a.FetchedAt.After(now) || b.FetchedAt.After(now):
		return b.FetchedAt.After(a.FetchedAt)
	}
	return a.FetchedAt.After(b.FetchedAt)
}

// sha256Key is the key of a text's SHA-256 in the log, by kind.
var sha256Key = [policy.KindCount]string{policy.RobotsTxt: "robots_sha256", policy.TDMRep: "tdmrep_sha256"}

func (k *Keeper) logFetch(e *memory.Entry, got fetch.Result) {
	outcome, _ := policy.OutcomeOf(got.Meaning)
	line, message := k.log.Debug(), e.Kind.String()+" fetched"
	if outcome == policy.Unreachable {
		line, message = k.log.Warn(), e.Kind.String()+" unreachable"
		line.Int("failures", e.Record.Failures).Time("next_try", e.Record.NextTry)
	}
	line.Str("origin", e.Origin.String()).Str("outcome", string(outcome)).Int("status", got.Status).
		Str("cause", got.Cause).Str("user_agent", got.UserAgent).Int("bytes", len(got.Body)).Str(sha256Key[e.Kind], got.SHA256).
		Int64("duration_ms", got.Took.Milliseconds()).Msg(message)
}

// errCrashed stands for a panic where a cause is shown.
var errCrashed = errors.New("the program failed; its log says how")

// crashed gives its result to a flight that has panicked: the file is unreachable. It looks
// in memory alone, since the store's record may be the cause.
func (k *Keeper) crashed(f *flight, key memory.Key, cause any) {
	k.log.Error().Any("panic", cause).Bytes("stack", debug.Stack()).Str("origin", key.Origin.String()).
		Msgf("a fault in the program kept it from fetching a %s; please report this", key.Kind)
	e := k.memory.Get(key)
	if e == nil {
		e = &memory.Entry{Key: key, Record: store.Record{Origin: key.String()}}
	}
	k.record(f, e, fetch.Result{CDN: e.Record.CDN}.Failed(errCrashed))
	f.err = nil
}

// errUnwanted ends a flight that nobody waits for any more, or whose origin has been
// forgotten. Requests that have come since then start another.
var errUnwanted = errors.New("nobody waits for it")

// flights are the running ones: singleflight with what a keeper needs besides. Waiters may
// leave, a refresh costs a request nothing if one is running already, and close waits for
// all.
type flights struct {
	ctx     context.Context // ends the flights
	cancel  context.CancelCauseFunc
	crashed func(*flight, memory.Key, any) // gives its result to a flight that has panicked

	mu      sync.Mutex
	closed  bool
	byKey   map[memory.Key]*flight
	running sync.WaitGroup
}

func newFlights(crashed func(*flight, memory.Key, any)) *flights {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &flights{ctx: ctx, cancel: cancel, crashed: crashed, byKey: make(map[memory.Key]*flight)}
}

// start returns the key's flight. If there is none, it begins one, to which run gives its
// result. meanwhile is what is in force until then, if anything is.
func (fs *flights) start(key memory.Key, meanwhile *memory.Entry, run func(context.Context, *flight)) *flight {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f, ok := fs.byKey[key]; ok {
		f.waiting++
		return f
	}
	return fs.begin(key, meanwhile, run)
}

// replace cancels the key's flight, if there is one, and begins another that runs
// once the first has ended.
func (fs *flights) replace(key memory.Key, run func(context.Context, *flight)) *flight {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	last, ok := fs.byKey[key]
	if !ok {
		return fs.begin(key, nil, run)
	}
	last.cancel(errUnwanted)
	return fs.begin(key, nil, func(ctx context.Context, f *flight) {
		<-last.done
		run(ctx, f)
	})
}

// begin begins a flight. The caller holds the lock.
func (fs *flights) begin(key memory.Key, meanwhile *memory.Entry, run func(context.Context, *flight)) *flight {
	f := &flight{meanwhile: meanwhile, done: make(chan struct{}), waiting: 1}
	var ctx context.Context
	ctx, f.cancel = context.WithCancelCause(fs.ctx)
	f.wanted, f.giveUp = context.WithCancelCause(ctx)
	if fs.closed {
		f.err = errClosed
		close(f.done)
		return f
	}
	fs.byKey[key] = f
	fs.running.Go(func() {
		defer fs.end(key, f)
		defer func() {
			// What a site sends may make this flight panic. It must not end the process
			// or leave the waiters without a result.
			if cause := recover(); cause != nil {
				fs.crashed(f, key, cause)
			}
		}()
		run(ctx, f)
	})
	return f
}

// end ends a flight that has its result.
func (fs *flights) end(key memory.Key, f *flight) {
	fs.mu.Lock()
	if fs.byKey[key] == f {
		delete(fs.byKey, key)
	}
	fs.mu.Unlock()
	close(f.done)
	f.cancel(nil)
}

// wait returns the error of a flight that was started, or that of ctx if ctx ends
// first.
func (fs *flights) wait(ctx context.Context, f *flight) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.giveUp(errUnwanted)
	}
	return ctx.Err()
}

// close cancels all flights and waits until they have ended.
func (fs *flights) close() {
	fs.mu.Lock()
	fs.closed = true
	fs.mu.Unlock()
	fs.cancel(errClosed)
	fs.running.Wait()
}
