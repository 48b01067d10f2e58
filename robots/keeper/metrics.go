package keeper

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"robotsproxy/robots/fetch"
	"robotsproxy/robots/policy"
)

// metrics count what a keeper does for the files of one kind. Those of robots.txt count
// nothing else: alerts go by them.
type metrics struct {
	fetches                          *prometheus.CounterVec // by outcome
	duration                         prometheus.Histogram
	fromMemory, fromStore, fromFetch prometheus.Counter
}

// newMetrics returns the metrics of a keeper that has held(kind) policies in memory. It
// registers them with to, unless that is nil.
func newMetrics(to prometheus.Registerer, held func(policy.Kind) int64) (*[policy.KindCount]metrics, error) {
	all, err := new([policy.KindCount]metrics), error(nil)
	for kind, names := range metricNames {
		of := policy.Kind(kind)
		lookups := prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: names.lookups,
			Help: "Lookups of policies by " + of.String() + ", by where the policy was found.",
		}, []string{"tier"})
		m := metrics{
			fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
				Name: names.fetches,
				Help: "Fetches of " + of.String() + ", by outcome.",
			}, []string{"outcome"}),
			duration: prometheus.NewHistogram(prometheus.HistogramOpts{
				Name:    names.duration,
				Help:    "How long fetches of " + of.String() + " took.",
				Buckets: prometheus.ExponentialBuckets(0.005, 2.5, 10),
			}),
			fromMemory: lookups.WithLabelValues("memory"),
			fromStore:  lookups.WithLabelValues("store"),
			fromFetch:  lookups.WithLabelValues("fetch"),
		}
		for _, outcome := range names.outcomes {
			m.fetches.WithLabelValues(string(outcome)) // shown as 0 from the start
		}
		all[kind] = m
		if to == nil {
			continue
		}
		inMemory := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: names.held,
			Help: "Policies by " + of.String() + " held in memory.",
		}, func() float64 { return float64(held(of)) })
		err = errors.Join(err, to.Register(lookups), to.Register(m.fetches), to.Register(m.duration), to.Register(inMemory))
	}
	return all, err
}

// metricNames are the names of the metrics, by kind, and the outcomes that fetches may have.
var metricNames = [policy.KindCount]struct {
	lookups, fetches, duration, held string
	outcomes                         []policy.Outcome
}{
	policy.RobotsTxt: {
		lookups:  "robotsproxy_policy_lookups_total",
		fetches:  "robotsproxy_robots_fetches_total",
		duration: "robotsproxy_robots_fetch_duration_seconds",
		held:     "robotsproxy_policies",
		outcomes: []policy.Outcome{policy.Rules, policy.Unavailable, policy.Unreachable, policy.Status},
	},
	policy.TDMRep: {
		lookups:  "robotsproxy_tdmrep_lookups_total",
		fetches:  "robotsproxy_tdmrep_fetches_total",
		duration: "robotsproxy_tdmrep_fetch_duration_seconds",
		held:     "robotsproxy_tdmreps",
		outcomes: []policy.Outcome{policy.Rules, policy.Unavailable, policy.Unreachable},
	},
}

func (m *metrics) fetched(got fetch.Result) {
	outcome, _ := policy.OutcomeOf(got.Meaning)
	m.fetches.WithLabelValues(string(outcome)).Inc()
	m.duration.Observe(got.Took.Seconds())
}
