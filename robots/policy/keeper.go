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

	"robotsproxy/internal/fair"
	"robotsproxy/internal/loopback"
	"robotsproxy/robots"
	"robotsproxy/robots/fetch"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/writebehind"
)

// ErrClosed is the error of asking a keeper that has been closed.
var ErrClosed = errors.New("the keeper of policies is closed")

// A Setup is what a keeper works with.
type Setup struct {
	Options   Options
	Memory    int64             // how much of the process's memory policies may take, in bytes
	Store     store.Store       // its owner must close it after the keeper
	Transport http.RoundTripper // for fetches; it must not follow redirects
	UserAgent string            // of fetches for which the operator names none; "": robotsproxy

	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: none

	Now    func() time.Time // nil: time.Now
	Random func() float64   // in [0,1), spreads retries; nil: math/rand
}

// A Sender is the identity and the client on whose behalf robots.txt is fetched. The
// policy is for everybody, so a fetch says what the operator wrote. What the client says
// of itself counts only where a site turns that away and has rules for the client.
type Sender struct {
	Identity  string // the client's, by its name in the configuration
	UserAgent string // the operator's for the identity; "": that of the Setup
	From      string // the operator's for the identity; "": none is sent

	Client      netip.Addr // where the request comes from; the zero Addr: no client
	ClientAgent string     // the User-Agent of the request; "": it has none

	local *loopback.Client // says whether fetches may lead to this machine's loopback
}

// A party has one turn at a time for a fetch: the requests of one identity from one client.
type party struct {
	client   netip.Prefix
	identity string
}

func (s *Sender) party() party { return party{fair.Client(s.Client), s.Identity} }

// request is that for the robots.txt of an entry's origin.
func (s *Sender) request(e *entry) fetch.Request {
	return fetch.Request{
		Origin:    e.origin,
		UserAgent: s.UserAgent, From: s.From, ClientAgent: s.ClientAgent, Client: s.local,
		HasText: e.rec.SHA256 != "", KnownAgent: e.rec.UserAgent,
	}
}

// A Keeper knows the policy of every origin. It looks in memory, then in the store, then
// asks the origin. It is safe for concurrent use.
type Keeper struct {
	options   atomic.Pointer[Options]
	transport http.RoundTripper
	userAgent string
	now       func() time.Time
	random    func() float64
	log       zerolog.Logger

	memory  *memory
	texts   *interner
	store   *writebehind.Store
	slots   *fair.Slots[party] // for fetches
	flights *flights
	metrics *metrics
}

// NewKeeper returns a keeper. The caller must close it. The error is that of setting up
// the memory, or of metrics that are registered already.
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
	metrics, err := newMetrics(s.Metrics, m.count.Load)
	if err != nil {
		m.close()
		return nil, fmt.Errorf("registering the metrics of policies: %w", err)
	}
	records, err := writebehind.New(s.Store, s.Log, s.Metrics)
	if err != nil {
		m.close()
		return nil, err
	}
	k := &Keeper{
		transport: s.Transport,
		userAgent: s.UserAgent,
		now:       s.Now,
		random:    s.Random,
		log:       s.Log,
		memory:    m,
		texts:     new(interner),
		store:     records,
		slots:     fair.New[party](s.Options.MaxFetches),
		metrics:   metrics,
	}
	k.flights = newFlights(k.crashed)
	k.SetOptions(s.Options)
	return k, nil
}

// SetOptions replaces the options. The new ones also count for everything that is known
// already, but an answer keeps its lifetime (max_ttl may shorten it), and fetches under
// way keep the old options.
func (k *Keeper) SetOptions(opts Options) {
	k.options.Store(&opts)
	k.store.SetKeep(opts.keep())
	k.slots.Resize(opts.MaxFetches)
}

func (k *Keeper) opts() *Options { return k.options.Load() }

// Close cancels the fetches under way, waits for them, and writes what was fetched
// before to the store.
func (k *Keeper) Close() {
	k.flights.close()
	k.store.Close()
	k.memory.close()
}

// Policy returns what the origin allows now. by says on whose behalf the origin is
// asked, if it must be. The error is that of ctx, ErrClosed or a shortage of this
// machine's (see [shortage.Is]), nothing else: an unreachable robots.txt has a policy too.
func (k *Keeper) Policy(ctx context.Context, origin robots.Origin, by Sender) (*Policy, error) {
	if e := k.memory.get(origin); e != nil {
		if a := e.assess(k.opts(), k.now()); findUsable.isMet(a.need) {
			k.metrics.fromMemory.Inc()
			return k.serve(ctx, e, by, a), nil
		}
	}
	f := k.start(ctx, origin, by, findUsable, nil)
	if e := f.meanwhile; e != nil {
		if a := e.assess(k.opts(), k.now()); findUsable.isMet(a.need) {
			k.metrics.fromMemory.Inc() // memory did not take it, and its refresh is under way
			return &a.policy, nil
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
	return k.serve(ctx, f.entry, by, f.assessment), nil
}

// wantsAnother reports whether the client of ctx needs another flight after one that
// ended with err: nobody waited for that one, or the client that began it must not be
// led to the origin, and this client may.
func wantsAnother(ctx context.Context, err error) bool {
	return err == errUnwanted || errors.Is(err, loopback.ErrElsewhere) && loopback.Of(ctx).Check() == nil
}

// serve returns the policy of an entry, and starts the refresh that it may need.
func (k *Keeper) serve(ctx context.Context, e *entry, by Sender, a *assessment) *Policy {
	if a.need == needRefresh {
		k.start(ctx, e.origin, by, findFresh, e)
	}
	return &a.policy
}

// Fresh fetches the origin's robots.txt, whatever is known, and returns the policy that
// follows. Its errors are those of Policy.
func (k *Keeper) Fresh(ctx context.Context, origin robots.Origin, by Sender) (*Policy, error) {
	for {
		f := k.start(ctx, origin, by, alwaysFetch, nil)
		if err := k.flights.wait(ctx, f); wantsAnother(ctx, err) {
			continue
		} else if err != nil {
			return nil, err
		}
		if f.fetched { // else it was under way already, and the store's record met its goal
			return &f.assessment.policy, nil
		}
	}
}

// Peek returns what is known of an origin without asking the origin, however old it is;
// nil if nothing is known. The error is that of the store.
func (k *Keeper) Peek(ctx context.Context, origin robots.Origin) (*Policy, error) {
	e := k.memory.get(origin)
	if e == nil {
		rec, ok, err := k.store.Get(ctx, origin.String())
		if err != nil || !ok {
			return nil, err
		}
		e = k.texts.entry(origin, rec)
	}
	return k.known(e), nil
}

// Policies returns the policies of up to limit known origins, in the origins' order:
// those after the given one ("": from the start) that contain part. They have neither
// Text nor File. The error is that of the store.
func (k *Keeper) Policies(ctx context.Context, after, part string, limit int) ([]*Policy, error) {
	recs, err := k.store.List(ctx, after, part, limit)
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

// known is the policy to show for an entry. An answer that has expired is shown as it
// was.
func (k *Keeper) known(e *entry) *Policy {
	a := e.assess(k.opts(), k.now())
	if a.policy.Outcome == None {
		a = e.assess(k.opts(), e.rec.FetchedAt)
	}
	return &a.policy
}

// Forget drops what is known of an origin, so that the next request fetches its
// robots.txt. Its history stays. The error is that of ctx or of the store.
func (k *Keeper) Forget(ctx context.Context, origin robots.Origin) error {
	forgetErr := errCrashed
	f := k.flights.replace(origin, func(_ context.Context, f *flight) {
		k.memory.remove(origin)
		forgetErr = k.store.Forget(ctx, origin.String())
		f.err = errUnwanted // those who wait look again
	})
	if err := k.flights.wait(ctx, f); err != nil && err != errUnwanted {
		return err
	}
	return forgetErr
}
