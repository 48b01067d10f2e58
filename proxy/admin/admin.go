// Package admin serves what operators look at: health, metrics, the CA
// certificate, the JSON API and the dashboard.
package admin

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"robotsproxy/proxy/gate"
	"robotsproxy/robots"
	"robotsproxy/robots/policy"
)

// Setup is what a handler works with.
type Setup struct {
	// Listen is the address that the server listens on, as configured: its
	// host is a name to which the API answers.
	Listen string
	// Token is what the API asks for. Without one it answers under names of this
	// server alone.
	Token   Token
	Proxy   net.Addr // where the proxy listens
	Gate    *gate.Gate
	Known   Known
	CA      []byte // the CA certificate in PEM
	Metrics prometheus.Gatherer
	// Ready reports whether the proxy serves: not while it starts or drains.
	Ready func() bool
	// Reload reads the configuration again. Its error says why it is refused; then
	// the old one stays.
	Reload func() error
}

// Known is what is known of origins. It never asks them.
type Known interface {
	// Peek returns an origin's policy, nil if it is not known.
	Peek(ctx context.Context, origin robots.Origin) (*policy.Policy, error)
	// Policies returns up to limit policies, those after the origin given, in
	// the order of origins.
	Policies(ctx context.Context, after, part string, limit int) ([]*policy.Policy, error)
	// History returns what an origin has answered over time.
	History(ctx context.Context, origin robots.Origin) (policy.History, error)
	// Forget drops what is known of an origin but for its history.
	Forget(ctx context.Context, origin robots.Origin) error
}

// Admin is the admin server's handler. Make one with [New].
type Admin struct {
	Setup
	http.Handler
	ledger *ledger
	began  time.Time
	now    func() time.Time

	unwatch func()
	close   sync.Once
	closed  chan struct{}
}

// New makes the admin server's handler, which watches the gate from now on. The
// caller closes it.
func New(s Setup) *Admin {
	a := &Admin{Setup: s, ledger: newLedger(), began: time.Now(), now: time.Now, closed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, "alive\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s.Ready() {
			writeText(w, http.StatusOK, "ready\n")
		} else {
			writeText(w, http.StatusServiceUnavailable, "starting or draining\n")
		}
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /ca.pem", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-pem-file")
		w.Write(s.CA)
	})
	mux.Handle("/api/v1/", a.guard(a.api()))
	mux.Handle("GET /{$}", a.guard(http.HandlerFunc(a.page)))
	mux.Handle("GET /dashboard/{file}", a.guard(http.HandlerFunc(a.pageFile)))
	a.Handler = mux
	a.unwatch = s.Gate.Watch(a.ledger.enter)
	return a
}

// Close ends the watching, the gate's and that of all who get live decisions.
func (a *Admin) Close() {
	a.close.Do(func() {
		a.unwatch()
		close(a.closed)
	})
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	w.Write([]byte(text))
}

// isOwnName reports whether a request under this name may be meant for this server: by
// an IP address, as localhost, or as it is configured.
func (a *Admin) isOwnName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	own, _, _ := net.SplitHostPort(a.Listen)
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost") || own != "" && strings.EqualFold(host, own)
}
