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

// distrust tells the operator of clients that do not trust the local CA: every
// such handshake is counted, and each pair of client and host is logged once.
//
// TLS has alerts for it, but few clients send one that can be read: OpenSSL sends
// it unencrypted where it should be encrypted, Node just hangs up, GnuTLS ends the
// handshake first. What all have in common is that they leave as soon as they have
// seen the certificate.
type distrust struct {
	log      zerolog.Logger
	failures prometheus.Counter

	mu   sync.Mutex
	told map[string]struct{}
}

// trust is what is known of a client's trust in the CA, by tunnel.
type trust struct {
	shown  bool      // the client has seen a certificate
	shaken time.Time // when the handshake was done
	used   bool      // a request has come
}

const (
	// maxTold bounds what is remembered. After so many pairs it starts anew.
	maxTold = 4096
	// soon is how fast a client leaves that does not like a certificate. One that
	// opened a connection in advance takes longer.
	soon = time.Second
)

func newDistrust(log zerolog.Logger, metrics prometheus.Registerer) *distrust {
	return &distrust{
		log: log,
		failures: promauto.With(metrics).NewCounter(prometheus.CounterOpts{
			Name: "robotsproxy_client_tls_failures_total",
			Help: "TLS handshakes that clients broke off, mostly because they do not trust the CA.",
		}),
		told: map[string]struct{}{},
	}
}

// brokenOff takes a handshake that failed.
func (d *distrust) brokenOff(t *tunnel, err error) {
	var timeout net.Error
	if !t.trust.shown || errors.Is(err, net.ErrClosed) || errors.As(err, &timeout) && timeout.Timeout() {
		d.log.Debug().Err(err).Stringer("origin", t.origin).Msg("TLS handshake with a client failed")
		return
	}
	d.tell(t)
}

// watchTrust notices the clients that end the handshake and leave at once, without
// a request.
func (s *Server) watchTrust(t *tunnel, state http.ConnState) {
	switch {
	case state == http.StateActive:
		t.trust.used = true
	case state == http.StateClosed && t.trust.shown && !t.trust.used && time.Since(t.trust.shaken) < soon:
		s.distrust.tell(t)
	}
}

func (d *distrust) tell(t *tunnel) {
	d.failures.Inc()
	client, _, _ := net.SplitHostPort(t.RemoteAddr().String())
	if d.first(client + " " + t.origin.Host) {
		d.log.Warn().Str("client", client).Str("host", t.origin.Host).
			Msg("the client left when it saw this proxy's certificate, as one does that does not trust its CA: give it the variables that `robotsproxy env` prints, or let it trust the file that `robotsproxy ca --path` names")
	}
}

// Distrusted are the hosts whose certificate a client has left at, as one does that
// does not trust the CA, in order.
func (s *Server) Distrusted() []string {
	s.distrust.mu.Lock()
	defer s.distrust.mu.Unlock()
	var hosts []string
	for pair := range s.distrust.told {
		_, host, _ := strings.Cut(pair, " ")
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

func (d *distrust) first(pair string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, told := d.told[pair]; told {
		return false
	}
	if len(d.told) >= maxTold {
		clear(d.told)
	}
	d.told[pair] = struct{}{}
	return true
}
