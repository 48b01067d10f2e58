package proxy

import (
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"robotsproxy/internal/shortage"
	"robotsproxy/proxy/answer"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/message"
	"robotsproxy/proxy/upstream"
)

// response returns an answer in the form that goproxy takes.
func (s *Server) response(r *http.Request, a answer.Answer) *http.Response {
	return a.Response(r, s.opts.Name)
}

// answer writes an answer to a request that goproxy does not see.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, a answer.Answer) {
	s.log.Debug().Stringer("client", clientOf(r)).Str("method", r.Method).Int("status", a.Status).Msg(a.Details)
	resp := s.response(r, a)
	maps.Copy(w.Header(), resp.Header)
	s.boundAnswer(w, r)
	whole := message.Drain(w, r, r.Body)
	if !whole {
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(resp.StatusCode)
	io.Copy(w, resp.Body)
	if !whole {
		message.Linger(w, r.Body)
	}
}

// boundAnswer bounds how long a client may take to read an answer over HTTP/2. What the
// handler has written may still wait for the client when the handler is done, and no
// watchdog runs then.
func (s *Server) boundAnswer(w http.ResponseWriter, r *http.Request) {
	if limit := s.stallLimit(); limit > 0 && r.ProtoMajor == 2 {
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit))
	}
}

// upstreamFailed counts a request that got no response from upstream, and returns its answer.
func (s *Server) upstreamFailed(err error) answer.Answer {
	a := answer.Failure(err)
	s.upstreamErrors.WithLabelValues(a.Kind).Inc()
	return a
}

// notJudged returns the answer to a request that the gate could not judge: the client has left, the proxy
// is being stopped, or this machine is short of something.
func (s *Server) notJudged(err error) answer.Answer {
	if shortage.Is(err) {
		return s.upstreamFailed(err)
	}
	return answer.Answer{Status: http.StatusServiceUnavailable, Kind: answer.InternalError, Details: err.Error()}
}

// loopDetected returns the answer to a request that has passed this proxy before.
func (s *Server) loopDetected() answer.Answer {
	return answer.Answer{
		Status:  http.StatusBadGateway,
		Kind:    "proxy_loop_detected",
		Details: "this request has passed " + s.opts.Name + " before",
		Advice:  "Proxies that are chained need names of their own.",
	}
}

// refusal returns the answer to a request that the gate does not admit. The error says that
// this proxy does not go to the origin at all, which is not the origin's fault.
func (s *Server) refusal(r *http.Request, a *gate.Admission) (answer.Answer, error) {
	if a.Late() != nil {
		return answer.TooLate(a), nil
	}
	if a.Reason == gate.Unreachable {
		if err := s.transport.CheckOrigin(r.Context(), a.Target.Origin); err != nil {
			return s.upstreamFailed(err), err
		}
	}
	return answer.Refusal(&a.Verdict, time.Now()), nil
}

// newUpstreamErrors makes the counter of upstream errors, with all error types from the start.
func newUpstreamErrors(metrics prometheus.Registerer) *prometheus.CounterVec {
	byKind := promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "robotsproxy_upstream_errors_total",
		Help: "Requests to which an origin gave no response or only a part, by the error type of RFC 9209.",
	}, []string{"error"})
	for _, kind := range upstream.FailureKinds {
		byKind.WithLabelValues(kind)
	}
	return byKind
}
