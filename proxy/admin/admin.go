// Package admin serves what operators need: health, metrics, the CA certificate, the key
// directory, the JSON API and the dashboard.
//
// [New] makes its one handler. The API and the dashboard are behind a [guard.Guard]; the pages
// for people are in package dashboard.
package admin

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"robotsproxy/proxy/admin/dashboard"
	"robotsproxy/proxy/admin/guard"
	"robotsproxy/proxy/admin/ledger"
	"robotsproxy/proxy/distrust"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/pace"
	"robotsproxy/proxy/report"
	"robotsproxy/proxy/sign"
	"robotsproxy/robots"
	"robotsproxy/robots/keeper"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/store/counts"
)

// Setup is what [New] needs.
type Setup struct {
	// Listen is the address that the server listens on, as configured. Without a token, the
	// API answers requests for its host.
	Listen string
	// Token must come with requests to the API and the dashboard. Without one they answer
	// only requests for names of this server.
	Token   guard.Token
	Proxy   net.Addr // where the proxy listens
	Gate    *gate.Gate
	Pacer   *pace.Pacer
	Origins Origins
	CA      []byte // the CA certificate in PEM
	// Directory serves the keys by which sites verify what identities sign.
	Directory http.Handler
	Metrics   prometheus.Gatherer
	// Report makes a report of what has been decided.
	Report func(ctx context.Context, scope report.Scope) (*report.Report, error)
	// Counts has what has been decided, by day, and LastHour what has been decided since a
	// time that is about an hour ago.
	Counts   counts.Store
	LastHour func() (since time.Time, rows []counts.Row)
	// Changes calls do with the changes of robots.txt from a time until another, in no order.
	Changes report.Changes
	// Distrust returns up to limit of the clients that do not trust the CA, and how many there
	// are.
	Distrust func(limit int) (clients []distrust.Client, all int)
	// Ready reports whether the proxy serves. It does not while it starts or drains.
	Ready func() bool
	// Reload reads the configuration again. If it returns an error, the old one stays in
	// force; the error says what is wrong with the new one.
	Reload func() error
}

// Origins gives access to what is known of origins. It never fetches anything from them.
type Origins interface {
	// Peek returns an origin's policy; nil if it is not known.
	Peek(ctx context.Context, origin robots.Origin) (*policy.Policy, error)
	// Policies returns at most limit policies, ordered by origin: those whose origin follows
	// after and contains part.
	Policies(ctx context.Context, after, part string, limit int) ([]*policy.Policy, error)
	// History returns what an origin has answered for its robots.txt over time.
	History(ctx context.Context, origin robots.Origin) (keeper.History, error)
	// Forget drops all that is known of an origin except its history.
	Forget(ctx context.Context, origin robots.Origin) error
}

// Admin is the admin server's handler. Make one with [New].
type Admin struct {
	http.Handler
	setup  Setup
	ledger *ledger.Ledger
	began  time.Time
	now    func() time.Time

	reporting chan struct{} // holds a value while the counts of days are read

	unwatch func()
	close   sync.Once
	closed  chan struct{}
}

// New returns the admin server's handler, which watches the gate from now on. Callers must
// call [Admin.Close].
func New(s Setup) *Admin {
	a := &Admin{setup: s, ledger: ledger.New(), began: time.Now(), now: time.Now, reporting: make(chan struct{}, 1), closed: make(chan struct{})}
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
	mux.HandleFunc(sign.DirectoryPath, func(w http.ResponseWriter, r *http.Request) { s.Directory.ServeHTTP(w, r) })
	guarded := guard.Guard{Token: s.Token, Listen: s.Listen, Refuse: writeProblem}
	mux.Handle("/api/v1/", guarded.Protect(a.api()))
	guarded.Refuse = dashboard.Refuse
	pages := dashboard.Site{Proxy: s.Proxy, Identities: a.identityNames, Report: a.makeReport, Now: a.now}
	for route, handler := range pages.Routes() {
		mux.Handle(route, guarded.Protect(handler))
	}
	a.Handler = mux
	a.unwatch = s.Gate.Watch(a.ledger.Enter)
	return a
}

// Close stops watching the gate, and ends all streams of live decisions. It may be called
// more than once.
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
