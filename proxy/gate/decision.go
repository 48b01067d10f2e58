package gate

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/sign"
	"robotsproxy/robots/preference"
)

// maxText bounds, in octets, each text of a Decision that a client or a site wrote. RFC 9110
// 4.1 recommends that servers accept URLs of 8,000 octets.
const maxText = 8 << 10

// shortKeyID is how many characters of a key's ID tell an operator which of a few keys it is.
const shortKeyID = 8

// Decision is a request that has ended, as the log, the API and watchers get it. Texts longer
// than 8 KiB are cut and end in "…".
type Decision struct {
	Time         time.Time  `json:"time"` // when it ended
	Client       netip.Addr `json:"client"`
	Door         string     `json:"door,omitempty"` // see [Door.String]
	Identity     string     `json:"identity"`
	Agent        string     `json:"agent"`
	Method       string     `json:"method"`
	URL          string     `json:"url"` // without credentials
	Origin       string     `json:"origin"`
	Judgment     Judgment   `json:"verdict"`
	Reason       Reason     `json:"reason"`
	Refused      bool       `json:"refused"` // also if its turn would have come too late; not in mode report
	Rule         string     `json:"rule,omitempty"`
	Line         int        `json:"line,omitempty"`
	Cause        string     `json:"cause,omitempty"` // of the reason Unreachable
	RobotsSHA256 string     `json:"robots_sha256,omitempty"`
	Signed       string     `json:"signed,omitempty"` // the first 8 characters of the key's ID; "": the proxy did not sign it
	Status       int        `json:"status"`           // as the client got it, or would have got it by CONNECT; 0: the client left before
	Bytes        int64      `json:"bytes"`
	DurationMS   float64    `json:"duration_ms"`
	WaitMS       float64    `json:"wait_ms"`
	PacedMS      int64      `json:"paced_ms,omitempty"` // of WaitMS, whole milliseconds for its turn
	Error        string     `json:"error,omitempty"`    // why the origin gave no response, or only a part of it

	OverrideReason string `json:"override_reason,omitempty"` // of the override that decided
	OverrideBy     string `json:"override_by,omitempty"`

	Preference     string `json:"preference,omitempty"`      // see [Verdict]
	PreferenceLine int    `json:"preference_line,omitempty"` // in robots.txt or, if Preference begins with tdmrep, in tdmrep.json
	WouldRefuse    bool   `json:"would_refuse,omitempty"`

	Edge  Edge   `json:"edge,omitempty"`  // what the origin did although its robots.txt allows the request
	Price string `json:"price,omitempty"` // that it named, if Edge is Priced
}

// Watch calls do with every decision from now on, until stop is called. Many goroutines call
// do at once, each before its request ends, so do must not block.
func (g *Gate) Watch(do func(Decision)) (stop func()) {
	w := &watcher{do}
	g.recorder.changeWatchers(func(all []*watcher) []*watcher { return append(all, w) })
	return func() {
		g.recorder.changeWatchers(func(all []*watcher) []*watcher {
			return slices.DeleteFunc(all, func(other *watcher) bool { return other == w })
		})
	}
}

type watcher struct{ do func(Decision) }

// recorder records each request that has ended: one log line and one count, both from its
// verdict.
type recorder struct {
	log      zerolog.Logger
	requests *prometheus.CounterVec
	signed   *prometheus.CounterVec
	spared   *prometheus.CounterVec
	edge     *prometheus.CounterVec
	duration prometheus.Histogram

	mu       sync.Mutex // held while watchers is replaced
	watchers atomic.Pointer[[]*watcher]
}

func newRecorder(log zerolog.Logger, metrics prometheus.Registerer) *recorder {
	return &recorder{
		log: log,
		requests: promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
			Name: "robotsproxy_requests_total",
			Help: "Requests that were judged. In mode report, verdict disallowed counts those let through all the same.",
		}, []string{"identity", "verdict", "reason"}),
		signed: promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
			Name: "robotsproxy_signed_total",
			Help: "Requests of clients that were signed, by the form of Signature-Agent.",
		}, []string{"form"}),
		spared: promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
			Name: "robotsproxy_would_refuse_total",
			Help: "Requests let through that a site's preference would refuse in preferences.mode enforce, by where the site states it; tunnel: in one that is not read.",
		}, []string{"identity", "source"}),
		edge: promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
			Name: "robotsproxy_edge_total",
			Help: "Requests that robots.txt allows and the origin turned away: by a challenge, by 401, 403 or 429 (refused), or by 402 (priced).",
		}, []string{"identity", "edge"}),
		duration: promauto.With(metrics).NewHistogram(prometheus.HistogramOpts{
			Name:    "robotsproxy_request_duration_seconds",
			Help:    "From a request's header to the end of its response.",
			Buckets: []float64{.0005, .001, .005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
	}
}

// expect creates the count of every identity, verdict and reason, and of every edge, at 0. It does so for every form
// of signature if any identity signs, and for every source that counts for those that
// declare purposes. If a series began with its first request, its rate would not show
// that request.
func (r *recorder) expect(identities iter.Seq2[string, *identity.Identity], sources []preference.Source) {
	for name, id := range identities {
		if declares(id) {
			for _, source := range sources {
				r.spared.WithLabelValues(name, string(source))
			}
			r.spared.WithLabelValues(name, string(OpaqueTunnel))
		}
		if id.Signs() {
			r.signed.WithLabelValues(sign.Dictionary.String())
			r.signed.WithLabelValues(sign.String.String())
		}
		for _, edge := range edges {
			r.edge.WithLabelValues(name, string(edge))
		}
		for reason, about := range reasons {
			for _, judgment := range about.judgments {
				r.requests.WithLabelValues(name, string(judgment), string(reason))
			}
		}
	}
}

func (r *recorder) changeWatchers(change func([]*watcher) []*watcher) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*watcher
	if now := r.watchers.Load(); now != nil {
		all = slices.Clone(*now)
	}
	all = change(all)
	r.watchers.Store(&all)
}

// record is [Admission.Done].
func (r *recorder) record(a *Admission, status int, bytes int64, failure error) {
	now := a.gate.now()
	took := now.Sub(a.asked)
	r.requests.WithLabelValues(a.Identity, string(a.Judgment), string(a.Reason)).Inc()
	if a.WouldRefuse {
		r.spared.WithLabelValues(a.Identity, cmp.Or(string(a.preferred), string(OpaqueTunnel))).Inc()
	}
	r.duration.Observe(took.Seconds())

	d := Decision{
		Time:         now,
		Client:       a.client,
		Door:         a.door.String(),
		Identity:     a.Identity,
		Agent:        a.Agent,
		Method:       printable.Cut(a.method, maxText),
		URL:          printable.Cut(a.URL, maxText),
		Origin:       a.Origin,
		Judgment:     a.Judgment,
		Reason:       a.Reason,
		Refused:      !a.Admits(),
		Rule:         printable.Cut(a.Rule, maxText),
		Line:         a.Line,
		RobotsSHA256: a.RobotsSHA256,
		Status:       status,
		Bytes:        bytes,
		DurationMS:   milliseconds(took),
		WaitMS:       milliseconds(a.waited),
		PacedMS:      a.queued.Milliseconds(),
	}
	d.Preference, d.PreferenceLine, d.WouldRefuse = printable.Cut(a.Preference, maxText), a.PreferenceLine, a.WouldRefuse
	d.Edge, d.Price = a.edge, a.price
	d.OverrideReason, d.OverrideBy = a.OverrideReason, a.OverrideBy
	if a.signed != "" {
		d.Signed = a.signed[:shortKeyID]
	}
	if a.Reason == Unreachable || a.preferred == preference.TDMRep && a.PreferenceLine == 0 {
		d.Cause = a.Cause
	}
	if failure == nil && a.late != nil {
		failure = a.late
	}
	if failure != nil {
		d.Error = printable.Cut(failure.Error(), maxText)
	}
	if watchers := r.watchers.Load(); watchers != nil {
		for _, w := range *watchers {
			w.do(d)
		}
	}
	switch a.settings.LogFilter {
	case LogNone:
		return
	case LogRefused:
		if a.Judgment == Allowed && !d.Refused && !d.WouldRefuse {
			return
		}
	}
	r.write(&d)
}

// write writes the log line.
func (r *recorder) write(d *Decision) {
	line := r.log.Info().
		Str("client", d.Client.String()).
		Str("identity", d.Identity).
		Str("agent", d.Agent).
		Str("method", d.Method).
		Str("url", d.URL).
		Str("verdict", string(d.Judgment)).
		Str("reason", string(d.Reason))
	if d.Door != "" {
		line.Str("door", d.Door)
	}
	if d.Rule != "" {
		line.Str("rule", d.Rule).Int("line", d.Line)
	}
	if d.Preference != "" {
		line.Str("preference", d.Preference)
	}
	if d.PreferenceLine > 0 {
		line.Int("preference_line", d.PreferenceLine)
	}
	if d.WouldRefuse {
		line.Bool("would_refuse", true)
	}
	if d.Edge != "" {
		line.Str("edge", string(d.Edge))
	}
	if d.Price != "" {
		line.Str("price", d.Price)
	}
	if d.Cause != "" {
		line.Str("cause", d.Cause)
	}
	if d.RobotsSHA256 != "" {
		line.Str("robots_sha256", d.RobotsSHA256)
	}
	if d.OverrideReason != "" {
		line.Str("override_reason", d.OverrideReason)
	}
	if d.OverrideBy != "" {
		line.Str("override_by", d.OverrideBy)
	}
	if d.Signed != "" {
		line.Str("signed", d.Signed)
	}
	if d.Error != "" {
		line.Str("error", d.Error)
	}
	if d.PacedMS > 0 {
		line.Int64("paced_ms", d.PacedMS)
	}
	line.Int("status", d.Status).
		Int64("bytes", d.Bytes).
		Float64("duration_ms", d.DurationMS).
		Float64("wait_ms", d.WaitMS).
		Msg("request")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
