package proxy

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"robotsproxy/internal/printable"
	"robotsproxy/internal/shortage"
	"robotsproxy/proxy/upstream"
)

// internalError is the error type of RFC 9209 2.3 for what has no type of its own.
const internalError = "proxy_internal_error"

// newFailures counts what origins fail in. All error types are there from the start.
func newFailures(metrics prometheus.Registerer) *prometheus.CounterVec {
	failures := promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "robotsproxy_upstream_errors_total",
		Help: "Requests to which an origin gave no response or only a part, by the error type of RFC 9209.",
	}, []string{"error"})
	for _, kind := range upstream.FailureKinds {
		failures.WithLabelValues(kind)
	}
	return failures
}

// failed answers, and counts, a request that found no answer upstream.
func (s *Server) failed(err error) answer {
	a := failure(err)
	s.failures.WithLabelValues(a.kind).Inc()
	return a
}

// unjudged answers a request that the gate could not judge: the client has left, the proxy
// is being stopped, or this machine is short of something.
func (s *Server) unjudged(err error) answer {
	if shortage.Is(err) {
		return s.failed(err)
	}
	return answer{status: http.StatusServiceUnavailable, kind: internalError, details: err.Error()}
}

// lacking answers a request that fails for what this machine is short of. That is soon
// over, or told to the operator.
func lacking(err error) answer {
	a := answer{
		status:  http.StatusServiceUnavailable,
		kind:    internalError,
		details: "this proxy's machine is short of something: " + printable.Cut(err.Error(), maxDetails),
		advice:  "The origin has no part in it. Try again.",
		header:  http.Header{"Retry-After": {"1"}},
	}
	switch {
	case shortage.OfDescriptors(err):
		a.kind = upstream.LimitReached
	case shortage.OfNetwork(err):
		a.kind = "destination_ip_unroutable"
	}
	return a
}

// failure answers a request that found no answer upstream.
func failure(err error) answer {
	if shortage.Is(err) {
		return lacking(err)
	}
	status, kind := upstream.Failure(err)
	return answer{status: status, kind: kind, details: "no answer from upstream: " + printable.Cut(err.Error(), maxDetails)}
}
