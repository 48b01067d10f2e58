package proxy

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
)

// distrust tells the operator of clients that do not trust the local CA. Their
// handshakes are counted, and each pair of client and host is logged once.
//
// TLS has alerts for it, but few clients send one that can be read: OpenSSL sends
// it unencrypted where it should be encrypted, Node just hangs up, GnuTLS ends the
// handshake first. What all have in common is that they leave as soon as they have
// seen the certificate.
//
// So does a browser that has opened more connections than it needs. But then the same
// client asks that host for something, before or soon after: it is judged late.
type distrust struct {
	log              zerolog.Logger
	failures, unused prometheus.Counter

	mu     sync.Mutex
	pairs  map[pair]*standing // at most maxPairs
	closed bool
}

// A pair is a client and a host that it has opened a tunnel to.
type pair struct{ client, host string }

// standing is what is known of a pair.
type standing struct {
	asked bool        // a request has come: the client trusts the CA
	told  bool        // it has been logged that it does not
	left  int         // the handshakes that it has left at, and that are not judged yet
	timer *time.Timer // judges them
}

// trust is what is known of a client's trust in the CA, by tunnel.
type trust struct {
	shown  bool      // the client has seen a certificate
	shaken time.Time // when the handshake was done
	used   bool      // a request has come
}

const (
	// maxPairs bounds the pairs that are remembered. Beyond it one of them is
	// forgotten, whichever it is.
	maxPairs = 4096
	// leavesWithin is how fast a client leaves that does not like a certificate.
	leavesWithin = time.Second
	// judgesAfter is how long a client that has left may take to ask for something.
	judgesAfter = 3 * time.Second
)

func newDistrust(log zerolog.Logger, metrics prometheus.Registerer) *distrust {
	return &distrust{
		log: log,
		failures: promauto.With(metrics).NewCounter(prometheus.CounterOpts{
			Name: "robotsproxy_client_tls_failures_total",
			Help: "TLS handshakes that clients left at, mostly because they do not trust the CA.",
		}),
		unused: promauto.With(metrics).NewCounter(prometheus.CounterOpts{
			Name: "robotsproxy_client_tls_unused_total",
			Help: "TLS connections that clients opened ahead and left without a request.",
		}),
		pairs: map[pair]*standing{},
	}
}

// brokenOff takes a handshake that failed.
func (d *distrust) brokenOff(t *tunnel, err error) {
	var timeout net.Error
	if !t.trust.shown || errors.Is(err, net.ErrClosed) || errors.As(err, &timeout) && timeout.Timeout() {
		d.log.Debug().Err(err).Stringer("origin", t.origin).Msg("TLS handshake with a client failed")
		return
	}
	d.left(pairOf(t))
}

// watchTrust notices the clients that speak after the handshake, and those that leave
// at once.
func (s *Server) watchTrust(t *tunnel, state http.ConnState) {
	switch {
	case t.trust.used || t.trust.shaken.IsZero():
	case state == http.StateActive:
		t.trust.used = true
		s.distrust.asked(pairOf(t))
	case state == http.StateClosed && t.trust.shown && time.Since(t.trust.shaken) < leavesWithin:
		s.distrust.left(pairOf(t))
	case state == http.StateClosed:
		s.distrust.unused.Inc()
	}
}

func pairOf(t *tunnel) pair {
	client, _, _ := net.SplitHostPort(t.RemoteAddr().String())
	return pair{client, t.origin.Host}
}

// asked takes a request. The connections that the client has left were more than it
// needed.
func (d *distrust) asked(p pair) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.standing(p)
	s.asked, s.told = true, false
	if s.left > 0 {
		s.timer.Stop()
		d.unused.Add(float64(s.left))
		s.left = 0
	}
}

// left takes a client that has left when it saw the certificate, and judges it when it
// has had time to ask for something.
func (d *distrust) left(p pair) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return // it was this proxy that left
	}
	s := d.standing(p)
	if s.asked {
		d.unused.Inc()
		return
	}
	if s.left++; s.left == 1 {
		s.timer = time.AfterFunc(judgesAfter, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.judge(p, s)
		})
	}
}

// judge counts the handshakes of a pair as failures. The caller holds the lock.
func (d *distrust) judge(p pair, s *standing) {
	if s.left == 0 {
		return
	}
	s.timer.Stop()
	d.failures.Add(float64(s.left))
	s.left = 0
	if !s.told {
		s.told = true
		d.log.Warn().Str("client", p.client).Str("host", p.host).
			Msg("the client left when it saw this proxy's certificate, as one does that does not trust its CA: give it the variables that `robotsproxy env` prints, or let it trust the file that `robotsproxy ca --path` names")
	}
}

// standing is that of a pair, which it makes if there is none. The caller holds the
// lock.
func (d *distrust) standing(p pair) *standing {
	s := d.pairs[p]
	if s != nil {
		return s
	}
	if len(d.pairs) >= maxPairs {
		for other, its := range d.pairs {
			d.judge(other, its)
			delete(d.pairs, other)
			break
		}
	}
	s = &standing{}
	p.host = strings.Clone(p.host) // a part of a longer text
	d.pairs[p] = s
	return s
}

// close judges what is left to judge. Whoever leaves from then on is not noticed.
func (d *distrust) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for p, s := range d.pairs {
		d.judge(p, s)
	}
}

// Distrusted are the hosts whose certificate a client has left at, as one does that
// does not trust the CA, in order. The last ones are among them after Shutdown.
func (s *Server) Distrusted() []string {
	s.distrust.mu.Lock()
	defer s.distrust.mu.Unlock()
	var hosts []string
	for p, standing := range s.distrust.pairs {
		if standing.told {
			hosts = append(hosts, p.host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
