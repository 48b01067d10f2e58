// Package pace has requests take turns: it spaces their starts at each origin,
// holds them as long as the origin says, and bounds how many there are at once.
package pace

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"robotsproxy/internal/redisclient"
)

// Request is one that is to start. Requests of one origin, identity and group are
// spaced; requests of one origin and identity are held and counted together.
type Request struct {
	Origin   string
	Identity string
	// Group is the group of the robots.txt that rules the request, by its name. It is
	// never what a client calls itself: one that changes its name takes no more turns.
	Group string

	Delay  time.Duration // that the origin's robots.txt states
	Stated bool          // whether it does
}

// Pacer hands out turns. A request that waits costs no goroutine but its own, and
// what is known of an origin is forgotten when the last delay there is over. Its
// methods may be called by many at once.
type Pacer struct {
	opts  atomic.Pointer[Options]
	fleet *fleet // nil: turns are this process' own
	now   func() time.Time

	holds atomic.Int64 // sites that are held

	mu    sync.Mutex // for all sites, and what is in them
	sites map[siteKey]*site

	waiting prometheus.Gauge
	seconds prometheus.Counter
	late    prometheus.Counter
}

// New makes a pacer. It shares its turns with all proxies that use the same Redis server;
// nil means none. It registers its metrics with metrics; nil leaves them unregistered.
// Callers must call Close, and close the server's client after that.
func New(opts Options, server *redisclient.Client, log zerolog.Logger, metrics prometheus.Registerer) *Pacer {
	p := &Pacer{
		now:   time.Now,
		sites: map[siteKey]*site{},
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
	p.opts.Store(&opts)
	if server != nil {
		p.fleet = newFleet(server, log, metrics)
	}
	return p
}

// Close ends what New began. Who waits still does so alone.
func (p *Pacer) Close() {
	if p.fleet != nil {
		p.fleet.close()
	}
}

// SetOptions puts other options in the place of those that are, for requests that
// come from now on; MaxInFlight for those that wait too. Without RetryAfter nothing
// stays held.
func (p *Pacer) SetOptions(opts Options) {
	p.opts.Store(&opts)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sites {
		if !opts.RetryAfter {
			p.letGo(s)
		}
		p.fill(s)
	}
}

// Paces reports whether requests for which a robots.txt states a delay at some time
// of the day, or none, are spaced or counted.
func (p *Pacer) Paces(stated bool) bool { return p.opts.Load().paces(stated) }

// Permit lets one request be in flight at its origin.
type Permit struct {
	pacer *Pacer
	site  *site // nil: it is not counted
}

// Release gives the permit to the next request. Callers of Wait must call it once.
func (p Permit) Release() {
	if p.site == nil {
		return
	}
	p.pacer.mu.Lock()
	defer p.pacer.mu.Unlock()
	p.site.inFlight--
	p.pacer.fill(p.site)
	p.pacer.tidy(p.site)
}

// Wait returns when a request may start. The error is a [*Late] at once where the
// wait would be too long, or the context's where that ends before; then the next in
// line moves up.
func (p *Pacer) Wait(ctx context.Context, r Request) (Permit, error) {
	opts := p.opts.Load()
	delay := opts.delay(&r)
	if delay == 0 && opts.MaxInFlight == 0 && !p.held(&r) {
		return Permit{}, nil
	}
	permit, err := p.wait(ctx, opts, &r, delay)
	if _, late := err.(*Late); late {
		p.late.Inc()
	}
	return permit, err
}

func (p *Pacer) held(r *Request) bool {
	if p.holds.Load() == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sites[r.site()]
	return s != nil && !s.held.IsZero()
}

func (p *Pacer) wait(ctx context.Context, opts *Options, r *Request, delay time.Duration) (Permit, error) {
	w := &waiter{delay: delay, most: opts.MaxWait, turn: make(chan error, 1)}
	if p.fleet != nil && delay > 0 {
		t := p.fleet.take(r, delay, opts)
		switch {
		case t == nil: // Redis is away
			w.delay = p.fleet.alone(delay)
		case t.wait > opts.MaxWait:
			return Permit{}, w.late(t.wait, t.hold)
		default:
			t.comes = p.now().Add(t.wait)
			w.slot = t
			defer func() {
				if !w.started {
					p.fleet.giveBack(w.slot) // maybe another one meanwhile
				}
			}()
		}
	}
	w.arrived = p.now()
	l := p.join(r, w)
	select {
	case err := <-w.turn: // at once
		return w.permit, err
	default:
	}
	p.waiting.Inc()
	defer func() {
		p.waiting.Dec()
		p.seconds.Add(p.now().Sub(w.arrived).Seconds())
	}()
	over := time.NewTimer(opts.MaxWait)
	defer over.Stop()
	for {
		select {
		case err := <-w.turn:
			return w.permit, err
		case <-over.C:
			// For how long the others keep their permits nobody knows. Without any, the
			// turn is about to come.
			if p.opts.Load().MaxInFlight > 0 {
				return p.leave(l, w, &Late{Wait: max(delay, time.Second), Max: opts.MaxWait, Delay: w.delay, Cause: NoPermit})
			}
		case <-ctx.Done():
			return p.leave(l, w, ctx.Err())
		}
	}
}

// Hold keeps requests to an origin from starting for so long, those that wait
// already as well: the origin has asked for it. r's group does not matter.
func (p *Pacer) Hold(r Request, length time.Duration) {
	length = min(length, longestHold)
	p.mu.Lock()
	opts := p.opts.Load()
	held := opts.RetryAfter && length > 0
	if held {
		p.hold(p.siteOf(&r), p.now().Add(length))
	}
	p.mu.Unlock()
	if held && p.fleet != nil && opts.delay(&r) > 0 { // else nobody asks Redis
		p.fleet.hold(&r, length)
	}
}

// siteKey names a site.
type siteKey struct{ origin, identity string }

func (r *Request) site() siteKey { return siteKey{r.Origin, r.Identity} }

// sum is a name of fixed length for a group: a robots.txt may have long ones.
type sum [sha256.Size]byte
