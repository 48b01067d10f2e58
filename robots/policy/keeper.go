package policy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"robotsproxy/internal/loopback"
	"robotsproxy/robots"
	"robotsproxy/robots/store"
)

// ErrClosed is the error of asking a keeper that has been closed.
var ErrClosed = errors.New("the keeper of policies is closed")

// A Setup is what a keeper works with.
type Setup struct {
	Options   Options
	Memory    int64             // ceiling of the policies in memory, in bytes
	Store     store.Store       // closed by its owner, after the keeper
	Transport http.RoundTripper // fetches go through it; it must not follow redirects
	UserAgent string            // of fetches for which the operator names none; "": robotsproxy

	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: none

	Now    func() time.Time // nil: time.Now
	Random func() float64   // in [0,1), spreads retries; nil: math/rand
}

// A Sender is on whose behalf robots.txt is fetched. The policy that comes of it is
// for everybody, so a fetch bears the operator's words. What the client says of itself
// counts only where a site turns those away and has rules for the client.
type Sender struct {
	Identity  string // the client's, by its name in the configuration
	UserAgent string // the operator's for the identity; "": that of the Setup
	From      string // the operator's for the identity; "": none is sent

	Client      netip.Addr // where the request comes from; the zero Addr: no client
	ClientAgent string     // the User-Agent of the request; "": it has none

	access *loopback.Client // where fetches may lead
}

// A Keeper knows the policy of every origin: from memory, under it the store,
// under that a fetch. It is safe for concurrent use.
type Keeper struct {
	options   atomic.Pointer[Options]
	transport http.RoundTripper
	userAgent string
	now       func() time.Time
	random    func() float64
	log       zerolog.Logger

	memory   *memory
	readings *readings
	records  *records
	places   *places // for fetches
	flights  *flights
	metrics  *metrics
}

// NewKeeper returns a keeper, to be closed in the end.
func NewKeeper(s Setup) (*Keeper, error) {
	if s.UserAgent == "" {
		s.UserAgent = "robotsproxy"
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Random == nil {
		s.Random = rand.Float64
	}
	m, err := newMemory(s.Memory)
	if err != nil {
		return nil, err
	}
	metrics, err := newMetrics(s.Metrics, m.count.Load, s.Store)
	if err != nil {
		m.close()
		return nil, fmt.Errorf("registering the metrics of policies: %w", err)
	}
	k := &Keeper{
		transport: s.Transport,
		userAgent: s.UserAgent,
		now:       s.Now,
		random:    s.Random,
		log:       s.Log,
		memory:    m,
		readings:  new(readings),
		records:   newRecords(s.Store, s.Log, metrics),
		places:    newPlaces(s.Options.MaxFetches),
		metrics:   metrics,
	}
	k.flights = newFlights(k.crashed)
	k.SetOptions(s.Options)
	return k, nil
}

// SetOptions puts other options in the place of those that are. They count for all
// that is known already, but for lifetimes, which an answer keeps; fetches under way
// end by the old ones.
func (k *Keeper) SetOptions(opts Options) {
	k.options.Store(&opts)
	k.records.setKeep(opts.keep())
	k.places.resize(opts.MaxFetches)
}

func (k *Keeper) opts() *Options { return k.options.Load() }

// Close ends the fetches under way and returns when they have ended, and what
// was fetched before is in the store.
func (k *Keeper) Close() {
	k.flights.close()
	k.records.close()
	k.memory.close()
}

// Policy returns what the origin allows now. by is who asks the origin, if it must
// be asked. The error is the end of ctx, ErrClosed or a shortage of this machine's (see
// [shortage.Is]), nothing else: an unreachable robots.txt is a policy too.
func (k *Keeper) Policy(ctx context.Context, origin robots.Origin, by Sender) (*Policy, error) {
	if e := k.memory.get(origin); e != nil {
		if j := e.judge(k.opts(), k.now()); j.Need != NeedFetch {
			k.metrics.fromMemory.Inc()
			return k.serve(ctx, e, by, j), nil
		}
	}
	f := k.start(ctx, origin, by, NeedFetch, nil)
	if e := f.meanwhile; e != nil {
		if j := e.judge(k.opts(), k.now()); j.Need != NeedFetch {
			k.metrics.fromMemory.Inc() // a refresh is under way of what the cache did not take
			return &j.Policy, nil
		}
	}
	switch err := k.flights.wait(ctx, f); {
	case wantsAnother(ctx, err):
		return k.Policy(ctx, origin, by)
	case errors.Is(err, loopback.ErrElsewhere):
		return &Policy{Origin: origin, Outcome: Unreachable, Cause: err.Error()}, nil
	case err != nil:
		return nil, err
	}
	if f.fetched {
		k.metrics.fromFetch.Inc()
	} else {
		k.metrics.fromStore.Inc()
	}
	return k.serve(ctx, f.entry, by, f.judgement), nil
}

// wantsAnother reports whether a flight that ended with err was none for the client of
// ctx: nobody waited for it, or only its beginner must not be led to the origin.
func wantsAnother(ctx context.Context, err error) bool {
	return err == errUnwanted || errors.Is(err, loopback.ErrElsewhere) && loopback.Of(ctx).Bar() == nil
}

// serve hands out the judgement of an entry, and starts the refresh that it may
// need.
func (k *Keeper) serve(ctx context.Context, e *entry, by Sender, j *Judgement) *Policy {
	if j.Need == NeedRefresh {
		k.start(ctx, e.origin, by, NeedRefresh, e)
	}
	return &j.Policy
}

// Fresh is Policy after a fetch, whatever is known.
func (k *Keeper) Fresh(ctx context.Context, origin robots.Origin, by Sender) (*Policy, error) {
	for {
		f := k.start(ctx, origin, by, NeedNothing, nil)
		if err := k.flights.wait(ctx, f); wantsAnother(ctx, err) {
			continue
		} else if err != nil {
			return nil, err
		}
		if f.fetched { // else it was under way already, for someone whom the store's record contented
			return &f.judgement.Policy, nil
		}
	}
}

// Peek returns what is known of an origin without asking it, however old that
// is; nil if nothing is.
func (k *Keeper) Peek(ctx context.Context, origin robots.Origin) (*Policy, error) {
	e := k.memory.get(origin)
	if e == nil {
		rec, ok, err := k.records.get(ctx, origin.String())
		if err != nil || !ok {
			return nil, err
		}
		e = k.readings.entry(origin, rec)
	}
	return k.known(e), nil
}

// Policies returns up to limit of the known origins' policies, those after the
// origin given whose origins have part in them, in order and without Text and File.
func (k *Keeper) Policies(ctx context.Context, after, part string, limit int) ([]*Policy, error) {
	recs, err := k.records.list(ctx, after, part, limit)
	if err != nil {
		return nil, err
	}
	policies := make([]*Policy, 0, len(recs))
	for _, rec := range recs {
		origin, err := robots.ParseOrigin(rec.Origin)
		if err != nil {
			return nil, fmt.Errorf("reading the store: %w", err)
		}
		policies = append(policies, k.known(&entry{origin: origin, rec: rec}))
	}
	return policies, nil
}

// known is the policy to show: of a record that is over and must be fetched
// again, what it said.
func (k *Keeper) known(e *entry) *Policy {
	j := e.judge(k.opts(), k.now())
	if j.Policy.Outcome == None {
		j = e.judge(k.opts(), e.rec.FetchedAt)
	}
	return &j.Policy
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
