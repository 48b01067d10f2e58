package writebehind

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"robotsproxy/robots/store"
)

// metrics count what the store could not do.
type metrics struct {
	errors *prometheus.CounterVec // by operation
	lost   prometheus.Counter
}

// An operation is a call of the store, as metrics name it.
type operation string

const (
	getting         operation = "get"
	putting         operation = "put"
	listing         operation = "list"
	forgetting      operation = "forget"
	readingVersions operation = "versions"
	leasing         operation = "lease"
)

var operations = []operation{getting, putting, listing, forgetting, readingVersions, leasing}

// A bounded store drops what is oldest when it is full, and counts that.
type bounded interface {
	Evicted() (versions, origins int64)
}

// newMetrics returns the metrics of a store. It registers them with to, unless that is nil.
func newMetrics(s store.Store, to prometheus.Registerer) (metrics, error) {
	m := metrics{
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "robotsproxy_store_errors_total",
			Help: "Failed operations of the store of policies, by operation.",
		}, []string{"operation"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "robotsproxy_store_lost_total",
			Help: "Policies that were given up before a failing store had them.",
		}),
	}
	for _, op := range operations {
		m.errors.WithLabelValues(string(op)) // shown as 0 from the start
	}
	if to == nil {
		return m, nil
	}
	err := errors.Join(to.Register(m.errors), to.Register(m.lost))
	if b, ok := s.(bounded); ok {
		for what, dropped := range map[string]func() int64{
			"version": func() int64 { versions, _ := b.Evicted(); return versions },
			"origin":  func() int64 { _, origins := b.Evicted(); return origins },
		} {
			err = errors.Join(err, to.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name:        "robotsproxy_store_evicted_total",
				Help:        "What the store has dropped to stay within its size: versions no longer served, and origins with all that is known of them.",
				ConstLabels: prometheus.Labels{"what": what},
			}, func() float64 { return float64(dropped()) })))
		}
	}
	return m, err
}

// counted counts the error of an operation and returns it. If ctx has ended, the error says
// nothing about the store.
func (w *Store) counted(ctx context.Context, op operation, err error) error {
	if err != nil && ctx.Err() == nil {
		w.metrics.errors.WithLabelValues(string(op)).Inc()
	}
	return err
}
