// Package pace makes requests take turns. It spaces their starts at each origin or site, holds
// them for as long as the origin asks by Retry-After or fails, and bounds how many are in
// flight and how many start in a day.
//
// [Pacer.Wait] returns when it is a [Request]'s turn, or a [Late] at once if the turn would
// come too late. The [Permit] that it returns takes the outcome. Several proxies can share
// their turns through Redis: package fleet does that, and package local is what a proxy knows of
// sites by itself.
package pace

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"robotsproxy/internal/redisclient"
	"robotsproxy/proxy/pace/fleet"
	"robotsproxy/proxy/pace/local"
)

// Request is a request that is to start. Requests of one origin, identity and group are
// spaced. Requests of one origin and identity are held and counted together. See [Scope] for
// what a site has instead.
type Request struct {
	Origin   string // scheme, host and port
	Identity string
	// Group is the name of the group of the robots.txt that applies. It is never what a
	// client calls itself, so a client that changes its name gets no more turns.
	Group string

	Delay  time.Duration // stated by the origin's robots.txt
	Stated bool          // false if it states none
}

// Pacer hands out turns. A waiting request costs no goroutine but its own. The state of an
// origin is removed when its last delay is over. A Pacer is safe for concurrent use.
type Pacer struct {
	opts  atomic.Pointer[Options]
	fleet *fleet.Fleet // nil: turns are not shared
	now   func() time.Time

	holds atomic.Int64 // number of sites that are held

	mu       sync.Mutex // guards all of these, and everything in them
	sites    map[fleet.Site]*site
	failures *local.Failures // known while BackOff is on
	today    local.Starts    // counts while MaxPerDay is set

	waiting prometheus.Gauge
	seconds prometheus.Counter
	late    prometheus.Counter
}

// New returns a Pacer. If server is not nil, the Pacer shares its turns with all proxies
// that use the same Redis server. If metrics is not nil, it registers its metrics there.
// Callers must call Close, and close the server's client only after that.
func New(opts Options, server *redisclient.Client, log zerolog.Logger, metrics prometheus.Registerer) *Pacer {
	p := &Pacer{
		now:   time.Now,
		sites: map[fleet.Site]*site{},
		waiting: promauto.With(metrics).NewGauge(prometheus.GaugeOpts{
			Name: "robotsproxy_paced_waiting",
			Help: "Requests that wait for their turn.",
		}),
		seconds: promauto.With(metrics).NewCounter(prometheus.CounterOpts{
			Name: "robotsproxy_paced_seconds_total",
			Help: "Time that requests have waited for their turn.",
		}),
		late: promauto.With(metrics).NewCounter(prometheus.CounterOpts{
			Name: "robotsproxy_paced_refused_total",
			Help: "Requests that were refused because their turn would have come after max_wait.",
		}),
	}
	p.failures = local.NewFailures(p.forgotten)
	p.opts.Store(&opts)
	if server != nil {
		p.fleet = fleet.New(server, log, metrics)
		p.fleet.Join()
	}
	return p
}

// NewObserver returns a Pacer that knows what holds requests in the fleet that shares a Redis
// server, of which it is no member. Only [Pacer.Held] may be called.
func NewObserver(opts Options, server *redisclient.Client) *Pacer {
	p := New(opts, nil, zerolog.Nop(), nil)
	p.fleet = fleet.New(server, zerolog.Nop(), nil)
	return p
}

// Close stops sharing turns. Requests that wait go on waiting.
func (p *Pacer) Close() {
	if p.fleet != nil {
		p.fleet.Close()
	}
}

// SetOptions replaces the options for requests that come from now on. MaxInFlight holds for
// waiting requests too. If RetryAfter or BackOff is off, its holds end. If Scope changes,
// requests take turns with new ones only.
func (p *Pacer) SetOptions(opts Options) {
	p.opts.Store(&opts)
	p.mu.Lock()
	defer p.mu.Unlock()
	if opts.BackOff.After == 0 {
		p.failures.Clear()
	}
	for _, s := range p.sites {
		if opts.BackOff.After == 0 && s.probe != nil {
			p.endProbe(s, s.probe)
		}
		// A request that max_per_day holds is counted again.
		if s.heldBy == ByRetryAfter && !opts.RetryAfter || s.heldBy == ByBackOff && opts.BackOff.After == 0 || s.heldBy == ByMaxPerDay {
			p.release(s)
		}
		p.fill(s)
		p.tidy(s)
	}
}

// Paces reports whether requests are spaced or counted. stated says whether their robots.txt
// states a delay at any time of the day.
func (p *Pacer) Paces(stated bool) bool { return p.opts.Load().paces(stated) }

// Permit is for one request that has started. Its zero value is for one that need not be
// counted or reported.
type Permit struct{ waiter *waiter }

// Waited says what the request had to wait for when it came; "" if it started at once.
func (p Permit) Waited() Holder {
	if p.waiter == nil {
		return ""
	}
	return p.waiter.waited
}

// Release ends the request, so that the next one may start. Callers of Wait must call it once.
func (p Permit) Release() {
	if p.waiter == nil {
		return
	}
	w, pacer := p.waiter, p.waiter.lane.pacer
	key, unreported := w.lane.site.key, false
	pacer.mu.Lock()
	if s := pacer.sites[key]; s != nil { // a new one, if that in which w waited has ended
		if w.counted {
			s.inFlight--
		}
		unreported = s.probe == w
		pacer.endProbe(s, w)
	}
	pacer.mu.Unlock()
	if unreported && pacer.fleet != nil {
		pacer.fleet.LeaveProbe(key, w.name())
	}
}

// Wait returns when a request may start. If the wait would be too long, it returns a [*Late]
// at once. If ctx ends first, it returns the error of ctx, and the requests behind move up.
func (p *Pacer) Wait(ctx context.Context, r Request) (Permit, error) {
	opts := p.opts.Load()
	delay := opts.delay(&r)
	opts.Scope.place(&r)
	if delay == 0 && !opts.counts() && !p.busy(opts, &r) {
		return Permit{}, nil
	}
	w := &waiter{maxWait: opts.MaxWait, turn: make(chan error, 1), stated: opts.states(&r)}
	err := p.wait(ctx, opts, &r, delay, w)
	for err == nil && p.fleet != nil && opts.asksFleet() && !p.confirm(opts, &r, w) {
		err = p.wait(ctx, opts, &r, delay, w)
	}
	if err != nil {
		if late, ok := err.(*Late); ok {
			late.Hold = p.heldHere(r.site())
			p.late.Inc()
		}
		return Permit{}, err
	}
	return Permit{w}, nil
}

// busy reports whether even a request without a delay has to wait for others.
func (p *Pacer) busy(opts *Options, r *Request) bool {
	if p.holds.Load() == 0 && opts.Scope != PerSite {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sites[r.site()]
	return s != nil && (!s.held.IsZero() || opts.Scope == PerSite && len(s.lanes) > 0)
}

// wait returns when it is a request's turn. It may be called again if the turn came to nothing.
func (p *Pacer) wait(ctx context.Context, opts *Options, r *Request, delay time.Duration, w *waiter) error {
	w.delay, w.slot, w.started = delay, nil, false
	if p.fleet != nil && delay > 0 {
		most := opts.MaxWait
		if !w.arrived.IsZero() {
			most -= p.now().Sub(w.arrived)
		}
		t := p.fleet.Take(r.site(), r.Group, delay, most, opts.RetryAfter)
		switch {
		case t == nil: // Redis is away
			w.delay = alone(delay, p.fleet.Members())
		case t.Wait > most:
			return w.late(t.Wait, t.Hold, ByRetryAfter)
		default:
			t.At = p.now().Add(t.Wait)
			w.slot = t
			defer func() {
				if !w.started {
					p.fleet.GiveBack(w.slot) // it may have been exchanged meanwhile
				}
			}()
		}
	}
	begun := p.now()
	if w.arrived.IsZero() {
		w.arrived = begun
	}
	p.join(r, w)
	select {
	case err := <-w.turn: // without a wait
		return err
	default:
	}
	p.waiting.Inc()
	defer func() {
		p.waiting.Dec()
		p.seconds.Add(p.now().Sub(begun).Seconds())
	}()
	over := time.NewTimer(opts.MaxWait - begun.Sub(w.arrived))
	defer over.Stop()
	for {
		select {
		case err := <-w.turn:
			return err
		case <-over.C:
			// It is unknown when other requests end. If the lane does not wait for that, the
			// turn is about to come.
			if why := p.blocked(w); why != nil {
				return p.leave(w, why)
			}
			over.Reset(time.Second)
		case <-ctx.Done():
			return p.leave(w, ctx.Err())
		}
	}
}

// blocked returns the error of a request that has waited for too long until others end; nil if
// it need not wait for that.
func (p *Pacer) blocked(w *waiter) *Late {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := &Late{Wait: max(w.delay, time.Second), Max: w.maxWait, Delay: w.delay}
	switch {
	case w.lane.site.probe != nil:
		late.cause = probing
	case p.opts.Load().MaxInFlight > 0:
		late.cause = noPermit
	default:
		return nil
	}
	return late
}

// confirm asks the fleet whether a request whose turn has come may start. If it may not, its
// site is held, and the request has to wait again.
func (p *Pacer) confirm(opts *Options, r *Request, w *waiter) bool {
	key := r.site()
	state := p.fleet.Enter(key, w.name(), opts.shared())
	if state != nil {
		p.learn(key, w, state, opts)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.siteOf(key)
	may := state == nil || state.Wait <= 0
	if may && opts.MaxPerDay > 0 {
		limit := math.MaxInt // the fleet has counted it
		if state == nil {    // Redis is away
			limit = max(1, opts.MaxPerDay/int(p.fleet.Members()))
		}
		may = p.countToday(s, limit)
	}
	if !may && w.counted {
		s.inFlight--
		w.counted = false
	}
	if !may {
		p.endProbe(s, w)
	}
	p.tidy(s)
	return may
}

// learn does what the fleet says of a site, after a question about w.
func (p *Pacer) learn(key fleet.Site, w *waiter, n *fleet.State, opts *Options) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, s := p.now(), p.siteOf(key)
	if opts.BackOff.After > 0 {
		p.failures.Learn(key, n, now, opts.shared())
	}
	if n.Wait > 0 {
		p.hold(s, now.Add(n.Wait), holders[n.By])
	}
	if n.Probe && s.probe == nil {
		p.startProbe(s, w)
	}
	if !n.Probe {
		p.endProbe(s, w)
	}
}

// Hold keeps the requests of r's identity to r's origin from starting for length, at most a
// day, as the origin has asked. It holds waiting requests too. r's group does not matter.
func (p *Pacer) Hold(r Request, length time.Duration) {
	length = min(length, maxHold)
	opts := p.opts.Load()
	delay := opts.delay(&r)
	opts.Scope.place(&r)
	if !opts.RetryAfter || length <= 0 {
		return
	}
	p.mu.Lock()
	p.hold(p.siteOf(r.site()), p.now().Add(length), ByRetryAfter)
	p.mu.Unlock()
	if p.fleet != nil && (delay > 0 || opts.asksFleet()) { // else no proxy asks Redis
		p.fleet.Hold(r.site(), length)
	}
}

// Hold is what keeps the requests of an identity from an origin.
type Hold struct {
	Until time.Time `json:"held_until"`
	By    Holder    `json:"held_by"`
}

// Holder says why requests are held.
type Holder string

// All holders.
const (
	ByRetryAfter Holder = "retry-after" // the origin has asked for a pause
	ByBackOff    Holder = "back_off"    // it has failed several times in a row
	ByMaxPerDay  Holder = "max_per_day" // as many requests as may have started in the last 24 hours

	// Those of a request that waits, and never of a [Hold]:

	ByDelay       Holder = "delay"         // the delay after the request before
	ByCrawlDelay  Holder = "crawl_delay"   // the same, and the site's robots.txt states it; only of [Permit.Waited]
	ByMaxInFlight Holder = "max_in_flight" // as many requests as may are in flight
)

// holders are the holders by the reasons of a fleet.
var holders = [...]Holder{fleet.None: "", fleet.RetryAfter: ByRetryAfter, fleet.BackOff: ByBackOff, fleet.MaxPerDay: ByMaxPerDay}

// Phrase returns the holder in a few words.
func (h Holder) Phrase() string {
	switch h {
	case ByRetryAfter:
		return "the origin has asked for a pause"
	case ByBackOff:
		return "the origin has failed several times in a row"
	case ByMaxPerDay:
		return "pace.max_per_day requests have started in 24 hours"
	case ByDelay:
		return "the delay between two requests"
	case ByCrawlDelay:
		return "the Crawl-delay of its robots.txt"
	case ByMaxInFlight:
		return "pace.max_in_flight requests at once"
	}
	return "not held"
}

// Held returns what holds requests like r, at this proxy or in its fleet; nil if nothing does.
// It may ask Redis.
func (p *Pacer) Held(r Request) *Hold {
	opts := p.opts.Load()
	delay := opts.delay(&r)
	opts.Scope.place(&r)
	if hold := p.heldHere(r.site()); hold != nil || p.fleet == nil || delay == 0 && !opts.asksFleet() {
		return hold
	}
	if state := p.fleet.Look(r.site(), opts.shared()); state != nil && state.Wait > 0 {
		return &Hold{p.now().Add(state.Wait), holders[state.By]}
	}
	return nil
}

// heldHere returns what holds a site at this proxy; nil if nothing does.
func (p *Pacer) heldHere(key fleet.Site) *Hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sites[key]
	if s == nil || !s.held.After(p.now()) {
		return nil
	}
	return &Hold{s.held, s.heldBy}
}

func (r *Request) site() fleet.Site { return fleet.Site{Origin: r.Origin, Identity: r.Identity} }

// name names a request among those of all proxies.
func (w *waiter) name() string {
	if w.token == "" {
		w.token = rand.Text()
	}
	return w.token
}

// alone returns the delay for each of so many proxies while they cannot share their turns. If all
// of them keep it, they keep delay together.
func alone(delay time.Duration, members int64) time.Duration {
	n := time.Duration(members)
	return min(delay, maxDelay/n) * n
}

// sum is the hash of a group's name, which may be long.
type sum [sha256.Size]byte
