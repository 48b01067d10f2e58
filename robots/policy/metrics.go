package policy

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"robotsproxy/robots/fetch"
	"robotsproxy/robots/store"
)

// metrics count what a keeper does.
type metrics struct {
	fetches                          *prometheus.CounterVec
	duration                         prometheus.Histogram
	fromMemory, fromStore, fromFetch prometheus.Counter
	storeErrors                      *prometheus.CounterVec
	lost                             prometheus.Counter
}

// A bounded store drops its oldest records when it is full.
type bounded interface{ Evicted() *store.Evicted }

// newMetrics registers the metrics with to, unless that is nil.
func newMetrics(to prometheus.Registerer, held func() int64, of store.Store) (*metrics, error) {
	lookups := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "robotsproxy_policy_lookups_total",
		Help: "Policies asked for, by where they were found.",
	}, []string{"tier"})
	m := &metrics{
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "robotsproxy_robots_fetches_total",
			Help: "Fetches of robots.txt, by outcome.",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "robotsproxy_robots_fetch_duration_seconds",
			Help:    "How long a fetch of robots.txt took.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2.5, 10),
		}),
		fromMemory: lookups.WithLabelValues("memory"),
		fromStore:  lookups.WithLabelValues("store"),
		fromFetch:  lookups.WithLabelValues("fetch"),
		storeErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "robotsproxy_store_errors_total",
			Help: "What the store of policies could not do, by operation.",
		}, []string{"operation"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "robotsproxy_store_lost_total",
			Help: "Policies that were given up before the store had them, as it failed.",
		}),
	}
	for _, op := range operations {
		m.storeErrors.WithLabelValues(string(op))
	}
	for _, outcome := range []Outcome{Rules, Unavailable, Unreachable, Status} {
		m.fetches.WithLabelValues(string(outcome)) // shown as 0 from the start
	}
	if to == nil {
		return m, nil
	}
	policies := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "robotsproxy_policies",
		Help: "Policies held in memory.",
	}, func() float64 { return float64(held()) })
	if b, ok := of.(bounded); ok {
		for what, dropped := range map[string]func() int64{"version": b.Evicted().Versions, "origin": b.Evicted().Origins} {
			err := to.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name:        "robotsproxy_store_evicted_total",
				Help:        "What the store has dropped to stay within its size: versions no longer served, and origins with all that is known of them.",
				ConstLabels: prometheus.Labels{"what": what},
			}, func() float64 { return float64(dropped()) }))
			if err != nil {
				return m, err
			}
		}
	}
	return m, errors.Join(to.Register(lookups), to.Register(m.fetches), to.Register(m.duration), to.Register(policies), to.Register(m.storeErrors), to.Register(m.lost))
}

func (m *metrics) fetched(got fetch.Result) {
	outcome, _ := outcomeOf(got.Meaning)
	m.fetches.WithLabelValues(string(outcome)).Inc()
	m.duration.Observe(got.Took.Seconds())
}
