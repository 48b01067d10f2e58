package gate

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
)

// Decisions says which requests get a line in the log.
type Decisions string

// All of them, those that are disallowed, or none.
const (
	AllDecisions     Decisions = "all"
	RefusedDecisions Decisions = "refused"
	NoDecisions      Decisions = "none"
)

// UnmarshalText accepts the three words above.
func (d *Decisions) UnmarshalText(text []byte) error {
	switch w := Decisions(text); w {
	case AllDecisions, RefusedDecisions, NoDecisions:
		*d = w
		return nil
	}
	return fmt.Errorf("%q is none of all, refused, none", text)
}

// account is where a request that has ended is written down: one log line and
// one count, both from its verdict.
type account struct {
	log      zerolog.Logger
	requests *prometheus.CounterVec
	duration prometheus.Histogram
}

func newAccount(log zerolog.Logger, metrics prometheus.Registerer) account {
	return account{
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

// Done ends a passage: status and bytes are those of the response as the client
// got it, failure says why the origin gave none or only a part; nil if it gave
// all.
func (p *Passage) Done(status int, bytes int64, failure error) {
	a := &p.gate.account
	took := p.gate.now().Sub(p.asked)
	a.requests.WithLabelValues(p.Identity, string(p.Judgment), string(p.Reason)).Inc()
	a.duration.Observe(took.Seconds())

	switch p.rules.Decisions {
	case NoDecisions:
		return
	case RefusedDecisions:
		if p.Judgment == Allowed {
			return
		}
	}
	line := a.log.Info().
		Stringer("client", p.ask.Addr).
		Str("identity", p.Identity).
		Str("agent", p.Agent).
		Str("method", p.ask.Method).
		Str("url", p.URL).
		Str("verdict", string(p.Judgment)).
		Str("reason", string(p.Reason))
	if p.Rule != "" {
		line.Str("rule", p.Rule).Int("line", p.Line)
	}
	if p.RobotsSHA256 != "" {
		line.Str("robots_sha256", p.RobotsSHA256)
	}
	if failure != nil {
		line.Str("error", failure.Error())
	}
	line.Int("status", status).
		Int64("bytes", bytes).
		Float64("duration_ms", milliseconds(took)).
		Float64("wait_ms", milliseconds(p.waited)).
		Msg("request")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
