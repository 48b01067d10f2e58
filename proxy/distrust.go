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
	if !saysUntrusted(err) {
		d.log.Debug().Err(err).Str("client", client).Stringer("origin", t.origin).Msg("TLS handshake with a client failed")
		return
	}
	if d.first(client + " " + t.origin.Host) {
		d.log.Warn().Err(err).Str("client", client).Str("host", t.origin.Host).
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
