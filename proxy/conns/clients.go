// Package conns looks after the connections that clients have opened. [Clients] bounds how
// many there are and closes idle ones to make room, a [Set] holds those that no
// [http.Server] looks after any more, and a [Feed] leads connections from one server to
// another.
package conns

import (
	"crypto/tls"
	"iter"
	"math"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"robotsproxy/internal/slots"
)

// Options say what bounds the connections of clients.
type Options struct {
	// Max is how many may be open at once; 0 is no bound.
	Max int
	// StallTimeout is asked for each new connection: half of the time after which it is
	// closed if its client takes nothing of what is written to it. 0 is no bound.
	StallTimeout func() time.Duration
	// Descriptors are the slots of all connections that hold a file descriptor. New adds
	// the clients' idle connections to what makes room there.
	Descriptors *slots.Slots
}

// Clients are the connections that clients have opened. Each has a slot among the clients'
// and, if it holds a descriptor, one among the descriptors. Where no slot is free, the
// connection that has waited longest for its next request is closed; if none waits, the
// next client waits. Clients are safe for concurrent use.
type Clients struct {
	stallTimeout func() time.Duration
	slots        *slots.Slots
	descriptors  *slots.Slots
	gauge        prometheus.Gauge
	began        time.Time

	mu   sync.Mutex
	open map[*conn]struct{}
}

// New returns Clients without a connection. It registers their metrics with metrics; nil
// leaves them unregistered.
func New(opts Options, log zerolog.Logger, metrics prometheus.Registerer) *Clients {
	c := &Clients{
		stallTimeout: opts.StallTimeout,
		descriptors:  opts.Descriptors,
		gauge: promauto.With(metrics).NewGauge(prometheus.GaugeOpts{
			Name: "robotsproxy_connections",
			Help: "Client connections that are open.",
		}),
		began: time.Now(),
		open:  map[*conn]struct{}{},
	}
	reached := promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "robotsproxy_limit_reached_total",
		Help: "Connections that found no place: max_connections of clients, or descriptors of clients and origins.",
	}, []string{"limit"})
	onReached := func(limit, advice string) func(int64, bool) {
		count := reached.WithLabelValues(limit)
		return func(max int64, first bool) {
			count.Inc()
			if first {
				log.Warn().Str("limit", limit).Int64("max", max).Msg(advice)
			}
		}
	}
	c.slots = &slots.Slots{
		Max:      int64(opts.Max),
		MakeRoom: []func(){c.closeIdlest},
		Reached:  onReached("max_connections", "all client connections are in use: idle ones are closed, and others wait; raise limits.max_connections if the machine can bear it"),
	}
	c.descriptors.MakeRoom = append(c.descriptors.MakeRoom, c.closeIdlest)
	c.descriptors.Reached = onReached("descriptors", "as many connections are open as the limit on open files leaves room for: idle ones are closed, others wait or get 503; raise the limit (ulimit -n, LimitNOFILE= in systemd)")
	return c
}

// NoteState notes that the state of a connection, or of the TLS on it, has changed: one that
// is idle gives way to others. It fits [http.Server.ConnState]. Connections that did not come
// from a [Clients.Listener] are ignored.
func (c *Clients) NoteState(client net.Conn, state http.ConnState) {
	if secure, ok := client.(*tls.Conn); ok {
		client = secure.NetConn()
	}
	known, ok := client.(*conn)
	if !ok {
		return
	}
	known.noteNew(state == http.StateNew)
	c.noteIdle(known, state == http.StateIdle)
	if state == http.StateIdle {
		c.slots.LookAgain()
		c.descriptors.LookAgain()
	}
}

// Len is how many connections are open.
func (c *Clients) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// NoteNew notes whether a connection's client has yet to send its first request. A connection
// is new from its acceptance on until NoteState is told of its request. One that did not come
// from a [Clients.Listener] is ignored.
func (c *Clients) NoteNew(client net.Conn, isNew bool) {
	if known, ok := client.(*conn); ok {
		known.noteNew(isNew)
	}
}

// HasNew reports whether any connection is new.
func (c *Clients) HasNew() bool {
	for range c.new() {
		return true
	}
	return false
}

// CloseNew closes the connections that are new.
func (c *Clients) CloseNew() {
	for _, conn := range slices.Collect(c.new()) { // Close takes the lock
		conn.Close()
	}
}

// new are the connections that are new. c is locked meanwhile.
func (c *Clients) new() iter.Seq[*conn] {
	return func(yield func(*conn) bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for conn := range c.open {
			if conn.isNew.Load() && !yield(conn) {
				return
			}
		}
	}
}

// noteIdle notes that a connection waits for its next request from now on, or no longer.
func (c *Clients) noteIdle(conn *conn, idle bool) {
	since := int64(0)
	if idle {
		since = max(int64(time.Since(c.began)), 1)
	}
	conn.idleSince.Store(since)
}

func (c *Clients) add(conn *conn) {
	c.gauge.Inc()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = struct{}{}
}

func (c *Clients) remove(conn *conn) {
	c.gauge.Dec()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
}

// closeIdlest closes the connection that has waited longest for its next request, if
// any waits.
func (c *Clients) closeIdlest() {
	for {
		conn, since := c.idlest()
		if conn == nil {
			return
		}
		if conn.idleSince.CompareAndSwap(since, 0) { // else a request has come meanwhile
			conn.Close()
			return
		}
	}
}

func (c *Clients) idlest() (idlest *conn, since int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since = math.MaxInt64
	for conn := range c.open {
		if s := conn.idleSince.Load(); s > 0 && s < since {
			idlest, since = conn, s
		}
	}
	return idlest, since
}
