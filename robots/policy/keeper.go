package policy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
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

// Forget drops what is known of an origin, so that the next request fetches its
// robots.txt. Its history stays.
func (k *Keeper) Forget(ctx context.Context, origin robots.Origin) error {
	failure := errCrashed
	f := k.flights.instead(origin, func(_ context.Context, f *flight) {
		k.memory.remove(origin)
		failure = k.records.forget(ctx, origin.String())
		f.err = errUnwanted // whoever waits for it looks again
	})
	if err := k.flights.wait(ctx, f); err != nil && err != errUnwanted {
		return err
	}
	return failure
}
