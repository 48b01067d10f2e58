package keeper

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"robotsproxy/robots/fetch"
	"robotsproxy/robots/policy"
)

// metrics count what a keeper does.
type metrics struct {
	fetches                          *prometheus.CounterVec // by outcome
	duration                         prometheus.Histogram
	fromMemory, fromStore, fromFetch prometheus.Counter
}

// newMetrics returns the metrics of a keeper that has held() policies in memory. It registers
// them with to, unless that is nil.
func newMetrics(to prometheus.Registerer, held func() int64) (*metrics, error) {
	lookups := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "robotsproxy_policy_lookups_total",
		Help: "Lookups of policies, by where the policy was found.",
	}, []string{"tier"})
	m := &metrics{
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "robotsproxy_robots_fetches_total",
			Help: "Fetches of robots.txt, by outcome.",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "robotsproxy_robots_fetch_duration_seconds",
			Help:    "How long fetches of robots.txt took.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2.5, 10),
		}),
		fromMemory: lookups.WithLabelValues("memory"),
		fromStore:  lookups.WithLabelValues("store"),
		fromFetch:  lookups.WithLabelValues("fetch"),
	}
	for _, outcome := range []policy.Outcome{policy.Rules, policy.Unavailable, policy.Unreachable, policy.Status} {
		m.fetches.WithLabelValues(string(outcome)) // shown as 0 from the start
	}
	if to == nil {
		return m, nil
	}
	policies := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "robotsproxy_policies",
		Help: "Policies held in memory.",
	}, func() float64 { return float64(held()) })
	return m, errors.Join(to.Register(lookups), to.Register(m.fetches), to.Register(m.duration), to.Register(policies))
}

func (m *metrics) fetched(got fetch.Result) {
	outcome, _ := policy.OutcomeOf(got.Meaning)
	m.fetches.WithLabelValues(string(outcome)).Inc()
	m.duration.Observe(got.Took.Seconds())
}
