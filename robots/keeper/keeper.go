// Package keeper knows what each origin allows. A [Keeper] looks a policy up in memory, then
// in the store, and has robots.txt fetched if neither has a policy to go by: once for all who
// wait for it. Package policy says what follows from what is known.
package keeper

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

	"robotsproxy/internal/fair"
	"robotsproxy/internal/loopback"
	"robotsproxy/robots"
	"robotsproxy/robots/fetch"
	"robotsproxy/robots/keeper/memory"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/writebehind"
)

// ErrClosed is the error of asking a keeper that has been closed.
var ErrClosed = errors.New("the keeper of policies is closed")

// A Setup is what a keeper works with.
type Setup struct {
	Options   policy.Options
	Memory    int64             // how much of the process's memory policies may take, in bytes
	Store     store.Store       // its owner must close it after the keeper
	Transport http.RoundTripper // for fetches; it must not follow redirects
	UserAgent string            // of fetches for which the operator names none; "": robotsproxy

	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: none

	Now    func() time.Time // nil: time.Now
	Random func() float64   // in [0,1), spreads retries; nil: math/rand
}

// A Sender is the identity and the client on whose behalf robots.txt is fetched. See
// [fetch.Request] for what a fetch states of them: the policy is for everybody.
type Sender struct {
	Identity  string // the client's, by its name in the configuration
	UserAgent string // the operator's for the identity; "": that of the Setup
	From      string // the operator's for the identity; "": none is sent

	Client      netip.Addr // where the request comes from; the zero Addr: no client
	ClientAgent string     // the User-Agent of the request; "": it has none

	Sign fetch.Signer // signs each request of a fetch, which may outlast the client's; nil: none is signed

	local *loopback.Client // says whether fetches may lead to this machine's loopback
}

// A party has one turn at a time for a fetch: the requests of one identity from one client.
type party struct {
	client   netip.Prefix
	identity string
}

func (s *Sender) party() party { return party{fair.Client(s.Client), s.Identity} }

// request is the request for the robots.txt of an entry's origin.
func (s *Sender) request(e *memory.Entry) fetch.Request {
	return fetch.Request{
		Origin:    e.Origin,
		UserAgent: s.UserAgent, From: s.From, ClientAgent: s.ClientAgent, Client: s.local,
		HasText: e.Record.SHA256 != "", KnownAgent: e.Record.UserAgent,
		CDN: e.Record.CDN, Sign: s.Sign,
	}
}

// A Keeper knows the policy of every origin. It looks in memory, then in the store, then
// asks the origin. It is safe for concurrent use.
type Keeper struct {
	options   atomic.Pointer[policy.Options]
	transport http.RoundTripper
	userAgent string
	now       func() time.Time
	random    func() float64
	log       zerolog.Logger

	memory  *memory.Memory
	texts   *memory.Texts
	store   *writebehind.Store
	slots   *fair.Slots[party] // for fetches
	flights *flights
	metrics *metrics
}

// New returns a keeper, which the caller must close. The error is that of setting up the
// memory, or of metrics that are registered already.
func New(s Setup) (*Keeper, error) {
	if s.UserAgent == "" {
		s.UserAgent = "robotsproxy"
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Random == nil {
		s.Random = rand.Float64
	}
	m, err := memory.New(s.Memory)
	if err != nil {
		return nil, err
	}
	metrics, err := newMetrics(s.Metrics, m.Count)
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("registering the metrics of policies: %w", err)
	}
	records, err := writebehind.New(s.Store, s.Log, s.Metrics)
	if err != nil {
		m.Close()
		return nil, err
	}
	k := &Keeper{
		transport: s.Transport,
		userAgent: s.UserAgent,
		now:       s.Now,
		random:    s.Random,
		log:       s.Log,
		memory:    m,
		texts:     new(memory.Texts),
		store:     records,
		slots:     fair.New[party](s.Options.MaxFetches),
		metrics:   metrics,
	}
	k.flights = newFlights(k.crashed)
	k.SetOptions(s.Options)
	return k, nil
}

// SetOptions replaces the options. The new ones also count for what is known already, but
// an answer keeps its lifetime, which max_ttl may shorten, and fetches under way keep the old
// options.
func (k *Keeper) SetOptions(opts policy.Options) {
	k.options.Store(&opts)
	k.store.SetKeep(opts.Keep())
	k.slots.Resize(opts.MaxFetches)
}

func (k *Keeper) opts() *policy.Options { return k.options.Load() }

// Close cancels the fetches under way, waits for them, and writes to the store what was
// fetched before.
func (k *Keeper) Close() {
	k.flights.close()
	k.store.Close()
	k.memory.Close()
}

// Policy returns what the origin allows now. If the origin must be asked,
// by says on whose behalf. The error is that of ctx, ErrClosed or a shortage of this
// machine's (see [shortage.Is]), and nothing else: an unreachable robots.txt has a policy too.
func (k *Keeper) Policy(ctx context.Context, origin robots.Origin, by Sender) (*policy.Policy, error) {
	if e := k.memory.Get(origin); e != nil {
		if a := e.Assess(k.opts(), k.now()); findUsable.isMet(a.Need) {
			k.metrics.fromMemory.Inc()
			return k.serve(ctx, e, by, a), nil
		}
	}
	f := k.start(ctx, origin, by, findUsable, nil)
	if e := f.meanwhile; e != nil {
		if a := e.Assess(k.opts(), k.now()); findUsable.isMet(a.Need) {
			k.metrics.fromMemory.Inc() // memory has not taken it, and its refresh is under way
			return &a.Policy, nil
		}
	}
	switch err := k.flights.wait(ctx, f); {
	case wantsAnother(ctx, err):
		return k.Policy(ctx, origin, by)
	case errors.Is(err, loopback.ErrElsewhere):
		return &policy.Policy{Origin: origin, Outcome: policy.Unreachable, Cause: err.Error()}, nil
	case err != nil:
		return nil, err
	}
	if f.fetched {
		k.metrics.fromFetch.Inc()
	} else {
		k.metrics.fromStore.Inc()
	}
	return k.serve(ctx, f.entry, by, f.assessment), nil
}

// wantsAnother reports whether the client of ctx needs another flight after one that ended
// with err. It does if nobody waited for that one, or if the client that began it must not
// be led to the origin and this client may be.
func wantsAnother(ctx context.Context, err error) bool {
	return err == errUnwanted || errors.Is(err, loopback.ErrElsewhere) && loopback.Of(ctx).Check() == nil
}

// serve returns the policy of an entry, and starts the refresh that it may need.
func (k *Keeper) serve(ctx context.Context, e *memory.Entry, by Sender, a *policy.Assessment) *policy.Policy {
	if a.Need == policy.NeedRefresh {
		k.start(ctx, e.Origin, by, findFresh, e)
	}
	return &a.Policy
}

// Fresh fetches the origin's robots.txt, whatever is known, and returns the policy that
// follows. Its errors are those of Policy.
func (k *Keeper) Fresh(ctx context.Context, origin robots.Origin, by Sender) (*policy.Policy, error) {
	for {
		f := k.start(ctx, origin, by, alwaysFetch, nil)
		if err := k.flights.wait(ctx, f); wantsAnother(ctx, err) {
			continue
		} else if err != nil {
			return nil, err
		}
		if f.fetched { // else it was under way already, and the store's record met its goal
			return &f.assessment.Policy, nil
		}
	}
}

// Peek returns what is known of an origin, however old it is, without asking the origin. It
// returns nil if nothing is known. The error is that of the store.
func (k *Keeper) Peek(ctx context.Context, origin robots.Origin) (*policy.Policy, error) {
	e := k.memory.Get(origin)
	if e == nil {
		rec, ok, err := k.store.Get(ctx, origin.String())
		if err != nil || !ok {
			return nil, err
		}
		e = k.texts.Entry(origin, rec)
	}
	return k.known(e), nil
}

// Policies returns at most limit policies of known origins, ordered by origin: those whose
// origin follows after ("": all of them) and contains part. They have neither Text nor File.
// The error is that of the store.
func (k *Keeper) Policies(ctx context.Context, after, part string, limit int) ([]*policy.Policy, error) {
	recs, err := k.store.List(ctx, after, part, limit)
	if err != nil {
		return nil, err
	}
	policies := make([]*policy.Policy, 0, len(recs))
	for _, rec := range recs {
		origin, err := robots.ParseOrigin(rec.Origin)
		if err != nil {
			return nil, fmt.Errorf("reading the store: %w", err)
		}
		policies = append(policies, k.known(&memory.Entry{Origin: origin, Record: rec}))
	}
	return policies, nil
}

// known is the policy to show for an entry. An answer that has expired is shown as it was.
func (k *Keeper) known(e *memory.Entry) *policy.Policy {
	a := e.Assess(k.opts(), k.now())
	if a.Policy.Outcome == policy.None {
		a = e.Assess(k.opts(), e.Record.FetchedAt)
	}
	return &a.Policy
}

// Forget drops what is known of an origin, so that the next request fetches its
// robots.txt. Its history stays. The error is that of ctx or of the store.
func (k *Keeper) Forget(ctx context.Context, origin robots.Origin) error {
	forgetErr := errCrashed
	f := k.flights.replace(origin, func(_ context.Context, f *flight) {
		k.memory.Remove(origin)
		forgetErr = k.store.Forget(ctx, origin.String())
		f.err = errUnwanted // those who wait look again
	})
	if err := k.flights.wait(ctx, f); err != nil && err != errUnwanted {
		return err
	}
	return forgetErr
}
