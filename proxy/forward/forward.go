// Package forward takes a request from any door to the gate and, if it may pass, to its
// origin, and answers it otherwise. A [Forwarder] does all of this, with goproxy as its
// engine.
package forward

import (
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"robotsproxy/proxy/conns"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/message"
	"robotsproxy/proxy/upstream"
)

// Options say what a Forwarder calls itself, and what it shares with the doors.
type Options struct {
	// Name is this deployment's name in Via and Proxy-Status: a token.
	Name string
	Via  upstream.Via
	// Hijacked gets the connections of WebSockets while they are open.
	Hijacked *conns.Set
}

// Forwarder forwards requests. It is safe for concurrent use.
type Forwarder struct {
	opts      Options
	gate      *gate.Gate
	transport *upstream.Transport
	log       zerolog.Logger
	via       message.Via
	engine    http.Handler // goproxy: calls admit and ask for every request

	stallTimeout   atomic.Int64 // a time.Duration
	exchanges      sync.RWMutex // each exchange holds it for reading until it has been logged
	upstreamErrors *prometheus.CounterVec
}

// New returns a Forwarder that asks g and reaches origins through t. It registers its metrics
// with metrics; nil leaves them unregistered.
func New(opts Options, g *gate.Gate, t *upstream.Transport, log zerolog.Logger, metrics prometheus.Registerer) *Forwarder {
	f := &Forwarder{
		opts:           opts,
		gate:           g,
		transport:      t,
		log:            log,
		via:            message.NewVia(opts.Name),
		upstreamErrors: newUpstreamErrors(metrics),
	}
	f.engine = f.newEngine()
	return f
}

// newUpstreamErrors makes the counter of upstream errors, with all error types from the start.
func newUpstreamErrors(metrics prometheus.Registerer) *prometheus.CounterVec {
	byKind := promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "robotsproxy_upstream_errors_total",
		Help: "Requests to which an origin gave no response or only a part, by the error type of RFC 9209.",
	}, []string{"error"})
	for _, kind := range upstream.FailureKinds {
		byKind.WithLabelValues(kind)
	}
	return byKind
}

// SetStallTimeout sets how long what begins from now on may stand still; 0 is no limit.
func (f *Forwarder) SetStallTimeout(limit time.Duration) { f.stallTimeout.Store(int64(limit)) }

// StallTimeout is what SetStallTimeout has set.
func (f *Forwarder) StallTimeout() time.Duration { return time.Duration(f.stallTimeout.Load()) }

// PassedBefore reports whether a request has passed this proxy before, by its Via.
func (f *Forwarder) PassedBefore(r *http.Request) bool { return f.via.IsIn(r.Header) }

// Wait waits until every exchange that has begun is logged.
func (f *Forwarder) Wait() {
	f.exchanges.Lock()
	defer f.exchanges.Unlock()
}

// LogPanic logs what a deferred function has recovered from the handling of a request.
func (f *Forwarder) LogPanic(cause any) {
	f.log.Error().Any("panic", cause).Bytes("stack", debug.Stack()).Msg("a request failed inside the proxy; please report this")
}

// ClientAddr is the address that a request comes from.
func ClientAddr(r *http.Request) netip.Addr {
	ap, _ := netip.ParseAddrPort(r.RemoteAddr)
	return ap.Addr().Unmap()
}
