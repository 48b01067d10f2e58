package gate

import (
	"iter"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"robotsproxy/internal/enum"
	"robotsproxy/internal/printable"
	"robotsproxy/proxy/identity"
)

// LogFilter says which requests get a line in the log.
type LogFilter string

// All of them, those that are disallowed, or none.
const (
	LogAll     LogFilter = "all"
	LogRefused LogFilter = "refused"
	LogNone    LogFilter = "none"
)

// UnmarshalText reads one of the words above.
func (f *LogFilter) UnmarshalText(text []byte) error {
	return enum.Unmarshal(f, text, LogAll, LogRefused, LogNone)
}

// maxText bounds, in octets, each text of a Decision that a client or a site has
// written. No server need take a URL that is longer (RFC 9110 4.1).
const maxText = 8 << 10

// Decision is what is told of a request that has ended: in the log, in the API and
// to those who watch. Texts longer than 8 KiB are cut and end in "…".
type Decision struct {
	Time         time.Time  `json:"time"` // of the end
	Client       netip.Addr `json:"client"`
	Identity     string     `json:"identity"`
	Agent        string     `json:"agent"`
	Method       string     `json:"method"`
	URL          string     `json:"url"` // without credentials
	Origin       string     `json:"origin"`
	Judgment     `json:"verdict"`
	Reason       `json:"reason"`
	Refused      bool    `json:"refused"` // also one whose turn would have come too late; not what is only reported
	Rule         string  `json:"rule,omitempty"`
	Line         int     `json:"line,omitempty"`
	Cause        string  `json:"cause,omitempty"` // why the robots.txt is unreachable, where that is the reason
	RobotsSHA256 string  `json:"robots_sha256,omitempty"`
	Status       int     `json:"status"` // as the client got it; 0: it left before
	Bytes        int64   `json:"bytes"`
	DurationMS   float64 `json:"duration_ms"`
	WaitMS       float64 `json:"wait_ms"`
	Error        string  `json:"error,omitempty"` // why the origin gave no response, or only a part
}

// Watch has do called with every decision from now on, until stop is called. It is
// called by many at once and on a request's way: it must not wait for anything.
func (g *Gate) Watch(do func(Decision)) (stop func()) {
	w := &watcher{do}
	g.account.change(func(all []*watcher) []*watcher { return append(all, w) })
	return func() {
		g.account.change(func(all []*watcher) []*watcher {
			return slices.DeleteFunc(all, func(other *watcher) bool { return other == w })
		})
	}
}

type watcher struct{ do func(Decision) }

// account is where a request that has ended is written down: one log line and
// one count, both from its verdict.
type account struct {
	log      zerolog.Logger
	requests *prometheus.CounterVec
	duration prometheus.Histogram

	mu       sync.Mutex // for who changes watchers
	watchers atomic.Pointer[[]*watcher]
}

func newAccount(log zerolog.Logger, metrics prometheus.Registerer) *account {
	return &account{
		log: log,
		requests: promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
			Name: "robotsproxy_requests_total",
			Help: "Requests that were judged. In mode report, verdict disallowed counts those let through all the same.",
		}, []string{"identity", "verdict", "reason"}),
		duration: promauto.With(metrics).NewHistogram(prometheus.HistogramOpts{
			Name:    "robotsproxy_request_duration_seconds",
			Help:    "From a request's header to the end of its response.",
			Buckets: []float64{.0005, .001, .005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
	}
}

// expect shows the requests of every identity, and every judgment, from the start: who
// asks for a rate would miss the first one of a series that begins with it.
func (a *account) expect(identities iter.Seq2[string, *identity.Identity]) {
	for name := range identities {
		for reason, those := range judgments {
			for _, judgment := range those {
				a.requests.WithLabelValues(name, string(judgment), string(reason))
			}
		}
	}
}

func (a *account) change(watchers func([]*watcher) []*watcher) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*watcher
	if now := a.watchers.Load(); now != nil {
		all = slices.Clone(*now)
	}
	all = watchers(all)
	a.watchers.Store(&all)
}

// Done ends an admission: status and bytes are those of the response as the client
// got it, failure says why the origin gave none or only a part; nil if it gave
// all.
func (p *Admission) Done(status int, bytes int64, failure error) {
	p.permit.Release()
	a := p.gate.account
	now := p.gate.now()
	took := now.Sub(p.asked)
	a.requests.WithLabelValues(p.Identity, string(p.Judgment), string(p.Reason)).Inc()
	a.duration.Observe(took.Seconds())

	d := Decision{
		Time:         now,
		Client:       p.client,
		Identity:     p.Identity,
		Agent:        p.Agent,
		Method:       printable.Cut(p.method, maxText),
		URL:          printable.Cut(p.URL, maxText),
		Origin:       p.Origin,
		Judgment:     p.Judgment,
		Reason:       p.Reason,
		Refused:      !p.Admits(),
		Rule:         printable.Cut(p.Rule, maxText),
		Line:         p.Line,
		RobotsSHA256: p.RobotsSHA256,
		Status:       status,
		Bytes:        bytes,
		DurationMS:   milliseconds(took),
		WaitMS:       milliseconds(p.waited),
	}
	if p.Reason == Unreachable {
		d.Cause = p.Cause
	}
	if failure == nil && p.late != nil {
		failure = p.late
	}
	if failure != nil {
		d.Error = printable.Cut(failure.Error(), maxText)
	}
	if watchers := a.watchers.Load(); watchers != nil {
		for _, w := range *watchers {
			w.do(d)
		}
	}
	switch p.settings.LogFilter {
	case LogNone:
		return
	case LogRefused:
		if p.Judgment == Allowed && !d.Refused {
			return
		}
	}
	a.write(&d)
}

// write writes the log's line.
func (a *account) write(d *Decision) {
	line := a.log.Info().
		Str("client", d.Client.String()).
		Str("identity", d.Identity).
		Str("agent", d.Agent).
		Str("method", d.Method).
		Str("url", d.URL).
		Str("verdict", string(d.Judgment)).
		Str("reason", string(d.Reason))
	if d.Rule != "" {
		line.Str("rule", d.Rule).Int("line", d.Line)
	}
	if d.Cause != "" {
		line.Str("cause", d.Cause)
	}
	if d.RobotsSHA256 != "" {
		line.Str("robots_sha256", d.RobotsSHA256)
	}
	if d.Error != "" {
		line.Str("error", d.Error)
	}
	line.Int("status", d.Status).
		Int64("bytes", d.Bytes).
		Float64("duration_ms", d.DurationMS).
		Float64("wait_ms", d.WaitMS).
		Msg("request")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
