// Package distrust finds the clients that do not trust the proxy's CA, and tells the
// operator. A [Detector] counts their handshakes, and logs each pair of client and host
// once; a [Handshake] reports to it what happens in one tunnel.
//
// TLS has alerts for it, but few clients send one that can be read: OpenSSL sends it
// unencrypted where it should be encrypted, Node just hangs up, GnuTLS ends the handshake
// first. What all have in common is that they leave as soon as they have seen the
// certificate.
//
// A browser that has opened more connections than it needs does the same. But that client
// also asks the host for something, before or soon after. So the Detector waits a while
// before it counts a client that has left.
package distrust

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
)

// Detector knows which clients trust the CA. It is safe for concurrent use.
type Detector struct {
	log              zerolog.Logger
	failures, unused prometheus.Counter

	mu     sync.Mutex
	pairs  map[pair]*record // at most maxPairs
	closed bool
}

// A pair is a client and a host that it has opened a tunnel to.
type pair struct{ client, host string }

// record is what is known of a pair.
type record struct {
	asked   bool        // a request has come: the client trusts the CA
	logged  bool        // it has been logged that it does not
	pending int         // how often it has left without being judged yet
	timer   *time.Timer // judges it
}

const (
	// maxPairs bounds the pairs that are remembered. Beyond it, any one of them is
	// forgotten.
	maxPairs = 4096
	// leaveWindow is how soon after the handshake a client leaves that rejects the
	// certificate.
	leaveWindow = time.Second
	// judgeDelay is how long a client that has left may take to ask for something.
	judgeDelay = 3 * time.Second
)

// New returns a Detector. It registers its metrics with metrics; nil leaves them
// unregistered. Callers must call Close.
func New(log zerolog.Logger, metrics prometheus.Registerer) *Detector {
	return &Detector{
		log: log,
		failures: promauto.With(metrics).NewCounter(prometheus.CounterOpts{
			Name: "robotsproxy_client_tls_failures_total",
			Help: "TLS handshakes that clients left at, mostly because they do not trust the CA.",
		}),
		unused: promauto.With(metrics).NewCounter(prometheus.CounterOpts{
			Name: "robotsproxy_client_tls_unused_total",
			Help: "TLS connections that clients opened ahead and left without a request.",
		}),
		pairs: map[pair]*record{},
	}
}

// asked notes a request. The connections that the client has left were more than it
// needed.
func (d *Detector) asked(p pair) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.record(p)
	r.asked, r.logged = true, false
	if r.pending > 0 {
		r.timer.Stop()
		d.unused.Add(float64(r.pending))
		r.pending = 0
	}
}

// left notes that a client has left after it saw the certificate. It judges the client when
// that has had time to ask for something.
func (d *Detector) left(p pair) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return // it was this proxy that left
	}
	r := d.record(p)
	if r.asked {
		d.unused.Inc()
		return
	}
	if r.pending++; r.pending == 1 {
		r.timer = time.AfterFunc(judgeDelay, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.judge(p, r)
		})
	}
}

// judge counts the pending handshakes of a pair as failures. The caller holds the lock.
func (d *Detector) judge(p pair, r *record) {
	if r.pending == 0 {
		return
	}
	r.timer.Stop()
	d.failures.Add(float64(r.pending))
	r.pending = 0
	if !r.logged {
		r.logged = true
		d.log.Warn().Str("client", p.client).Str("host", p.host).
			Msg("the client left when it saw this proxy's certificate, as one does that does not trust its CA: give it the variables that `robotsproxy env` prints, or let it trust the file that `robotsproxy ca --path` names")
	}
}

// record returns the record of a pair, and makes one if there is none. The caller holds
// the lock.
func (d *Detector) record(p pair) *record {
	r := d.pairs[p]
	if r != nil {
		return r
	}
	if len(d.pairs) >= maxPairs {
		for other, its := range d.pairs {
			d.judge(other, its)
			delete(d.pairs, other)
			break
		}
	}
	r = &record{}
	p.host = strings.Clone(p.host) // a part of a longer text
	d.pairs[p] = r
	return r
}

// Close judges the clients that are still to be judged. From then on it is the proxy that
// leaves its clients, so no client that leaves is counted.
func (d *Detector) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for p, r := range d.pairs {
		d.judge(p, r)
	}
}

// A Client is one that has left when it saw the certificate for a host, and has not asked that
// host for anything since.
type Client struct {
	Addr string `json:"client"`
	Host string `json:"host"`
}

// Clients returns up to limit of the clients that do not trust the CA, sorted, and how many
// pairs of client and host there are.
func (d *Detector) Clients(limit int) (clients []Client, all int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	clients = []Client{}
	for p, r := range d.pairs {
		if r.logged {
			clients = append(clients, Client{p.client, p.host})
		}
	}
	slices.SortFunc(clients, func(a, b Client) int {
		return cmp.Or(cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.Host, b.Host))
	})
	return clients[:min(len(clients), limit)], len(clients)
}

// Hosts are the hosts, sorted, whose certificate made a client leave that has not asked the
// host for anything since. They are complete after Close.
func (d *Detector) Hosts() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var hosts []string
	for p, r := range d.pairs {
		if r.logged {
			hosts = append(hosts, p.host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
