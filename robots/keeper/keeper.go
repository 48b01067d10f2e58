// Package keeper knows what each origin allows. A [Keeper] looks a policy up in memory, then
// in the store, and has robots.txt fetched if neither has a policy to go by: once for all who
// wait for it. Package policy says what follows from what is known. It keeps a site's
// tdmrep.json in the same way: see [Files].
package keeper

import (
	"cmp"
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

// errClosed is the error of asking a keeper that has been closed.
var errClosed = errors.New("the keeper of policies is closed")

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

// Files are those of one kind that a keeper knows, of all origins. They are safe for
// concurrent use, and closed with their keeper.
type Files struct {
	keeper *Keeper
	kind   policy.Kind
}

// A Keeper knows the policy of every origin. It looks in memory, then in the store, then
// asks the origin. It is safe for concurrent use.
type Keeper struct {
	Files        // robots.txt: what may be fetched
	TDMRep Files // tdmrep.json: what may be mined; fetched only if it is asked for

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
	metrics *[policy.KindCount]metrics // by kind
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
	k.Files, k.TDMRep = Files{k, policy.RobotsTxt}, Files{k, policy.TDMRep}
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

// CDN returns the network that an origin is known to be behind, as [fetch.Result] names it, by
// what memory has of its robots.txt; "" for none. It asks neither the store nor the origin.
func (k *Keeper) CDN(origin robots.Origin) string {
	if e := k.memory.Get(memory.Key{Origin: origin}); e != nil {
		return e.Record.CDN
	}
	return ""
}

// request is the request for the file of an entry. The network that its origin is behind may
// be known by robots.txt alone, which is asked for first.
func (k *Keeper) request(e *memory.Entry, s Sender) fetch.Request {
	return fetch.Request{
		Origin: e.Origin, Path: e.Kind.Path(),
		UserAgent: s.UserAgent, From: s.From, ClientAgent: s.ClientAgent, Client: s.local,
		HasText: e.Record.SHA256 != "", KnownAgent: e.Record.UserAgent,
		CDN: cmp.Or(e.Record.CDN, k.CDN(e.Origin)), Sign: s.Sign,
	}
}

// Close cancels the fetches under way, waits for them, and writes to the store what was
// fetched before.
func (k *Keeper) Close() {
	k.flights.close()
	k.store.Close()
	k.memory.Close()
}

// Policy returns what the origin allows now by its file of this kind. If the origin must be
// asked, by says on whose behalf. The error is that of ctx, errClosed or a shortage of this
// machine's (see [shortage.Is]), and nothing else: an unreachable file has a policy too.
func (fs Files) Policy(ctx context.Context, origin robots.Origin, by Sender) (*policy.Policy, error) {
	k, key, metrics := fs.keeper, memory.Key{Origin: origin, Kind: fs.kind}, &fs.keeper.metrics[fs.kind]
	if e := k.memory.Get(key); e != nil {
		if a := e.Assess(k.opts(), k.now()); findUsable.isMet(a.Need) {
			metrics.fromMemory.Inc()
			return k.serve(ctx, e, by, a), nil
		}
	}
	f := k.start(ctx, key, by, findUsable, nil)
	if e := f.meanwhile; e != nil {
		if a := e.Assess(k.opts(), k.now()); findUsable.isMet(a.Need) {
			metrics.fromMemory.Inc() // memory has not taken it, and its refresh is under way
			return &a.Policy, nil
		}
	}
	switch err := k.flights.wait(ctx, f); {
	case wantsAnother(ctx, err):
		return fs.Policy(ctx, origin, by)
	case errors.Is(err, loopback.ErrElsewhere):
		return &policy.Policy{Origin: origin, Outcome: policy.Unreachable, Cause: err.Error()}, nil
	case err != nil:
		return nil, err
	}
	if f.fetched {
		metrics.fromFetch.Inc()
	} else {
		metrics.fromStore.Inc()
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
		k.start(ctx, e.Key, by, findFresh, e)
	}
	return &a.Policy
}

// Fresh fetches the origin's file, whatever is known, and returns the policy that follows.
// Its errors are those of Policy.
func (fs Files) Fresh(ctx context.Context, origin robots.Origin, by Sender) (*policy.Policy, error) {
	k := fs.keeper
	for {
		f := k.start(ctx, memory.Key{Origin: origin, Kind: fs.kind}, by, alwaysFetch, nil)
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

// Peek returns what is known of an origin's file, however old it is, without asking the
// origin. It returns nil if nothing is known. The error is that of the store.
func (fs Files) Peek(ctx context.Context, origin robots.Origin) (*policy.Policy, error) {
	k, key := fs.keeper, memory.Key{Origin: origin, Kind: fs.kind}
	e := k.memory.Get(key)
	if e == nil {
		rec, ok, err := k.store.Get(ctx, key.String())
		if err != nil || !ok {
			return nil, err
		}
		e = k.texts.Entry(key, rec)
	}
	return k.known(e), nil
}

// Policies returns at most limit policies of the known robots.txt, ordered by origin: those
// whose origin follows after ("": all of them) and contains part. They have neither Text nor File.
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
		policies = append(policies, k.known(&memory.Entry{Key: memory.Key{Origin: origin}, Record: rec}))
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

// Forget drops what is known of an origin's files of every kind, so that the next request
// fetches them. Their history stays. The error is that of ctx or of the store.
func (k *Keeper) Forget(ctx context.Context, origin robots.Origin) error {
	for kind := range policy.Kind(policy.KindCount) {
		if err := k.forget(ctx, memory.Key{Origin: origin, Kind: kind}); err != nil {
			return err
		}
	}
	return nil
}

func (k *Keeper) forget(ctx context.Context, key memory.Key) error {
	forgetErr := errCrashed
	f := k.flights.replace(key, func(_ context.Context, f *flight) {
		k.memory.Remove(key)
		forgetErr = k.store.Forget(ctx, key.String())
		f.err = errUnwanted // those who wait look again
	})
	if err := k.flights.wait(ctx, f); err != nil && err != errUnwanted {
		return err
	}
	return forgetErr
}
