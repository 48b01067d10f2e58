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

// response is an answer in the form that goproxy takes.
func (s *Server) response(r *http.Request, a answer.Answer) *http.Response {
	return a.Response(r, s.opts.Name)
}

// answer writes an answer itself, to a request that goproxy never sees.
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
// handler has written still waits for the client when the handler is done, and nothing
// watches it then.
func (s *Server) boundAnswer(w http.ResponseWriter, r *http.Request) {
	if limit := s.stallLimit(); limit > 0 && r.ProtoMajor == 2 {
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit))
	}
}

// failed answers, and counts, a request that found no answer upstream.
func (s *Server) failed(err error) answer.Answer {
	a := answer.Failure(err)
	s.failures.WithLabelValues(a.Kind).Inc()
	return a
}

// unjudged answers a request that the gate could not judge: the client has left, the proxy
// is being stopped, or this machine is short of something.
func (s *Server) unjudged(err error) answer.Answer {
	if shortage.Is(err) {
		return s.failed(err)
	}
	return answer.Answer{Status: http.StatusServiceUnavailable, Kind: answer.InternalError, Details: err.Error()}
}

// loop answers a request that has passed this proxy before.
func (s *Server) loop() answer.Answer {
	return answer.Answer{
		Status:  http.StatusBadGateway,
		Kind:    "proxy_loop_detected",
		Details: "this request has passed " + s.opts.Name + " before",
		Advice:  "Proxies that are chained need names of their own.",
	}
}

// refuse answers a request that the gate does not admit. It returns an error if this proxy
// does not go to the origin at all, which is no fault of the origin's.
func (s *Server) refuse(r *http.Request, p *gate.Admission) (answer.Answer, error) {
	if p.Late() != nil {
		return answer.TooLate(p), nil
	}
	if p.Reason == gate.Unreachable {
		if err := s.transport.CheckOrigin(r.Context(), p.Target.Origin); err != nil {
			return s.failed(err), err
		}
	}
	return answer.Refusal(&p.Verdict, time.Now()), nil
}

// newFailures makes the counter of failures upstream, with all error types from the start.
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
