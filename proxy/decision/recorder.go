package decision

import (
	"cmp"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"robotsproxy/internal/enum"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/sign"
	"robotsproxy/robots/preference"
)

type watcher struct{ do func(Decision) }

// judged are the labels by which requests are counted.
type judged struct {
	identity string
	Judgment
	Reason
}

// Recorder records each request that has ended: one log line and one count, both from its
// decision. Its methods are safe for concurrent use.
type Recorder struct {
	log      zerolog.Logger
	requests *prometheus.CounterVec
	known    atomic.Pointer[map[judged]prometheus.Counter] // of requests: CounterVec takes much longer
	signed   *prometheus.CounterVec
	spared   *prometheus.CounterVec
	edge     *prometheus.CounterVec
	duration prometheus.Histogram

	mu       sync.Mutex // held while watchers is replaced
	watchers atomic.Pointer[[]*watcher]
}

// NewRecorder returns a Recorder that writes to log. If metrics is not nil, it registers its
// metrics there.
func NewRecorder(log zerolog.Logger, metrics prometheus.Registerer) *Recorder {
	return &Recorder{
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

// Initialize sets counters that do not exist yet to 0: for each identity, those of every
// verdict with its reasons and of every edge; if it declares purposes, those of the sources;
// and if any identity signs, those of both forms. If a counter appeared with its first
// request, its rate would not show that request.
func (r *Recorder) Initialize(identities iter.Seq2[string, *identity.Identity], sources []preference.Source) {
	known := map[judged]prometheus.Counter{}
	for name, id := range identities {
		if id.Declares() {
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
				key := judged{name, judgment, reason}
				known[key] = r.counter(key)
			}
		}
	}
	r.known.Store(&known)
}

func (r *Recorder) changeWatchers(change func([]*watcher) []*watcher) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*watcher
	if now := r.watchers.Load(); now != nil {
		all = slices.Clone(*now)
	}
	all = change(all)
	r.watchers.Store(&all)
}

// Watch calls do with every decision from now on, until stop is called. Many goroutines call
// do at once, each before its request ends, so do must not block.
func (r *Recorder) Watch(do func(Decision)) (stop func()) {
	w := &watcher{do}
	r.changeWatchers(func(all []*watcher) []*watcher { return append(all, w) })
	return func() {
		r.changeWatchers(func(all []*watcher) []*watcher {
			return slices.DeleteFunc(all, func(other *watcher) bool { return other == w })
		})
	}
}

func (r *Recorder) counter(of judged) prometheus.Counter {
	return r.requests.WithLabelValues(of.identity, string(of.Judgment), string(of.Reason))
}

func (r *Recorder) countRequest(as judged) {
	if known := r.known.Load(); known != nil {
		if counter := (*known)[as]; counter != nil {
			counter.Inc()
			return
		}
	}
	r.counter(as).Inc()
}

// Signed counts a request that was signed in that form.
func (r *Recorder) Signed(form sign.Form) { r.signed.WithLabelValues(form.String()).Inc() }

// TurnedAway counts a request that the origin turned away.
func (r *Recorder) TurnedAway(identity string, edge Edge) {
	r.edge.WithLabelValues(identity, string(edge)).Inc()
}

// Spared counts a request that would be refused in mode enforce for a preference of that source;
// "" stands for a tunnel that is not read.
func (r *Recorder) Spared(identity string, source preference.Source) {
	r.spared.WithLabelValues(identity, cmp.Or(string(source), string(OpaqueTunnel))).Inc()
}

// Record cuts the texts of d, sets its DurationMS to what it took, counts it and hands it to the
// watchers. It logs d if the filter shows it.
func (r *Recorder) Record(d *Decision, took time.Duration, shown LogFilter) {
	d.DurationMS = Milliseconds(took)
	d.cut()
	r.countRequest(judged{d.Identity, d.Judgment, d.Reason})
	r.duration.Observe(took.Seconds())
	if watchers := r.watchers.Load(); watchers != nil {
		for _, w := range *watchers {
			w.do(*d)
		}
	}
	if shown.shows(d) {
		r.write(d)
	}
}

// message is the message of a decision's line in the log.
const message = "request"

// write writes the log line.
func (r *Recorder) write(d *Decision) {
	line := r.log.Info().
		Str("client", d.Client.String()).
		Str("identity", d.Identity).
		Str("agent", d.Agent).
		Str("method", d.Method).
		Str("url", d.URL).
		Str("verdict", string(d.Judgment)).
		Str("reason", string(d.Reason))
	stated := func(key, value string) {
		if value != "" {
			line.Str(key, value)
		}
	}
	if d.Refused {
		line.Bool("refused", true)
	}
	stated("door", d.Door)
	if d.Rule != "" {
		line.Str("rule", d.Rule).Int("line", d.Line)
	}
	stated("preference", d.Preference)
	if d.PreferenceLine > 0 {
		line.Int("preference_line", d.PreferenceLine)
	}
	if d.WouldRefuse {
		line.Bool("would_refuse", true)
	}
	stated("edge", string(d.Edge))
	stated("price", d.Price)
	stated("cause", d.Cause)
	stated("robots_sha256", d.RobotsSHA256)
	stated("override_reason", d.OverrideReason)
	stated("override_by", d.OverrideBy)
	stated("signed", d.Signed)
	stated("error", d.Error)
	if d.PacedMS > 0 {
		line.Int64("paced_ms", d.PacedMS)
		stated("paced_by", d.PacedBy)
	}
	line.Int("status", d.Status).
		Int64("bytes", d.Bytes).
		Float64("duration_ms", d.DurationMS).
		Float64("wait_ms", d.WaitMS).
		Msg(message)
}

// Milliseconds returns d as decisions state it, to the microsecond.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// LogFilter says which requests get a line in the log.
type LogFilter string

const (
	LogAll     LogFilter = "all"     // every request; the zero value means the same
	LogRefused LogFilter = "refused" // refused, whatever the reason, or only let through by a mode report
	LogNone    LogFilter = "none"
)

// UnmarshalText reads one of the words above.
func (f *LogFilter) UnmarshalText(text []byte) error {
	return enum.Unmarshal(f, text, LogAll, LogRefused, LogNone)
}

// shows reports whether d gets a line.
func (f LogFilter) shows(d *Decision) bool {
	switch f {
	case LogNone:
		return false
	case LogRefused:
		return d.Refused || d.WouldRefuse
	}
	return true
}
