// Package pace makes requests take turns. It spaces their starts at each origin, holds them
// for as long as the origin asks by Retry-After, and bounds how many are in flight.
//
// [Pacer.Wait] returns when it is a [Request]'s turn, or a [Late] at once if the turn would
// come too late. Several proxies can share their turns through Redis.
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

// Request is a request that is to start. Requests of one origin, identity and group are
// spaced. Requests of one origin and identity are held and counted together.
type Request struct {
	Origin   string
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
	fleet *fleet // nil: turns are not shared
	now   func() time.Time

	holds atomic.Int64 // number of sites that are held

	mu    sync.Mutex // guards sites and everything in them
	sites map[siteKey]*site

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

// Close stops sharing turns. Requests that wait go on waiting.
func (p *Pacer) Close() {
	if p.fleet != nil {
		p.fleet.close()
	}
}

// SetOptions replaces the options for requests that come from now on. MaxInFlight holds for
// waiting requests too. If RetryAfter is off, all holds end.
func (p *Pacer) SetOptions(opts Options) {
	p.opts.Store(&opts)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sites {
		if !opts.RetryAfter {
			p.release(s)
		}
		p.fill(s)
	}
}

// Paces reports whether requests are spaced or counted. stated says whether their robots.txt
// states a delay at any time of the day.
func (p *Pacer) Paces(stated bool) bool { return p.opts.Load().paces(stated) }

// Permit allows one request to be in flight at its origin.
type Permit struct {
	pacer *Pacer
	site  *site // nil: it is not counted
}

// Release returns the permit, so that the next request may start. Callers of Wait must call
// it once.
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

// Wait returns when a request may start. If the wait would be too long, it returns a [*Late]
// at once. If ctx ends first, it returns the error of ctx, and the requests behind move up.
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
	w := &waiter{delay: delay, maxWait: opts.MaxWait, turn: make(chan error, 1)}
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
					p.fleet.giveBack(w.slot) // it may have been exchanged meanwhile
				}
			}()
		}
	}
	w.arrived = p.now()
	l := p.join(r, w)
	select {
	case err := <-w.turn: // without a wait
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
			// It is unknown how long other requests keep their permits. Without permits, the
			// turn is about to come.
			if p.opts.Load().MaxInFlight > 0 {
				return p.leave(l, w, &Late{Wait: max(delay, time.Second), Max: opts.MaxWait, Delay: w.delay, cause: noPermit})
			}
		case <-ctx.Done():
			return p.leave(l, w, ctx.Err())
		}
	}
}

// Hold keeps the requests of r's identity to r's origin from starting for length, at most a
// day, as the origin has asked. It holds waiting requests too. r's group does not matter.
func (p *Pacer) Hold(r Request, length time.Duration) {
	length = min(length, maxHold)
	p.mu.Lock()
	opts := p.opts.Load()
	held := opts.RetryAfter && length > 0
	if held {
		p.hold(p.siteOf(&r), p.now().Add(length))
	}
	p.mu.Unlock()
	if held && p.fleet != nil && opts.delay(&r) > 0 { // without a delay no proxy asks Redis
		p.fleet.hold(&r, length)
	}
}

// siteKey names a site.
type siteKey struct{ origin, identity string }

func (r *Request) site() siteKey { return siteKey{r.Origin, r.Identity} }

// sum is the hash of a group's name, which may be long.
type sum [sha256.Size]byte
