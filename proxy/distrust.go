package proxy

import (
	"net"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
)

// distrust tells the operator of clients that do not trust the local CA: every
// such handshake is counted, and each pair of client and host is logged once.
type distrust struct {
	log      zerolog.Logger
	failures prometheus.Counter

	mu   sync.Mutex
	told map[string]struct{}
}

// maxTold bounds what is remembered. After so many pairs it starts anew.
const maxTold = 4096

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

// note takes a handshake that failed.
func (d *distrust) note(t *tunnel, err error) {
	d.failures.Inc()
	client, _, _ := net.SplitHostPort(t.RemoteAddr().String())
	if !saysUntrusted(err) && !t.alert.saysUntrusted() {
		d.log.Debug().Err(err).Str("client", client).Stringer("origin", t.origin).Msg("TLS handshake with a client failed")
		return
	}
	if d.first(client + " " + t.origin.Host) {
		d.log.Warn().Str("client", client).Str("host", t.origin.Host).
			Msg("the client does not trust this proxy's CA: let it trust the certificate that `robotsproxy ca --path` names (curl: CURL_CA_BUNDLE, Python: REQUESTS_CA_BUNDLE and SSL_CERT_FILE, Node: NODE_EXTRA_CA_CERTS)")
	}
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

// saysUntrusted recognises the alerts by which clients refuse a certificate
// (RFC 8446 6.2): crypto/tls gives them as text alone.
func saysUntrusted(err error) bool {
	for _, alert := range []string{"unknown certificate authority", "bad certificate", "unknown certificate", "certificate unknown"} {
		if strings.HasSuffix(err.Error(), alert) {
			return true
		}
	}
	return false
}

// alertWatch remembers the last octets that a client sent. A client that uses
// OpenSSL refuses a certificate by an alert that is not encrypted yet, where
// crypto/tls expects one that is: all that it can tell is "bad record MAC".
type alertWatch struct {
	last [7]byte // as long as the record of such an alert
}

func (a *alertWatch) see(p []byte) {
	if n := len(p); n < len(a.last) {
		copy(a.last[:], a.last[n:])
		copy(a.last[len(a.last)-n:], p)
	} else {
		copy(a.last[:], p[n-len(a.last):])
	}
}

// saysUntrusted recognises the record of a fatal alert that refuses a
// certificate (RFC 8446 5.1, 6.2).
func (a *alertWatch) saysUntrusted() bool {
	const alert, fatal = 21, 2
	if a.last[0] != alert || a.last[1] != 3 || a.last[3] != 0 || a.last[4] != 2 || a.last[5] != fatal {
		return false
	}
	switch a.last[6] {
	case 42, 43, 46, 48: // bad, unsupported or unknown certificate, unknown CA
		return true
	}
	return false
}
