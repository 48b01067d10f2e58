package forward

import (
	"context"
	"io"
	"maps"
	"net/http"
	"time"

	"robotsproxy/internal/shortage"
	"robotsproxy/proxy/answer"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/message"
)

// response returns an answer in the form that goproxy takes.
func (f *Forwarder) response(r *http.Request, a answer.Answer) *http.Response {
	return a.Response(r, f.opts.Name)
}

// Answer writes an answer to a request that goproxy does not see.
func (f *Forwarder) Answer(w http.ResponseWriter, r *http.Request, a answer.Answer) {
	f.log.Debug().Stringer("client", ClientAddr(r)).Str("method", r.Method).Int("status", a.Status).Msg(a.Details)
	resp := f.response(r, a)
	maps.Copy(w.Header(), resp.Header)
	f.boundAnswer(w, r)
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
func (f *Forwarder) boundAnswer(w http.ResponseWriter, r *http.Request) {
	if limit := f.StallTimeout(); limit > 0 && r.ProtoMajor == 2 {
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit))
	}
}

// UpstreamFailed counts a request that got no response from upstream, and returns its answer.
func (f *Forwarder) UpstreamFailed(err error) answer.Answer {
	a := answer.Failure(err)
	f.upstreamErrors.WithLabelValues(a.Kind).Inc()
	return a
}

// NotJudged returns the answer to a request that the gate could not judge: the client has left, the proxy
// is being stopped, or this machine is short of something.
func (f *Forwarder) NotJudged(err error) answer.Answer {
	if shortage.Is(err) {
		return f.UpstreamFailed(err)
	}
	return answer.Answer{Status: http.StatusServiceUnavailable, Kind: answer.InternalError, Details: err.Error()}
}

// LoopDetected returns the answer to a request that has passed this proxy before.
func (f *Forwarder) LoopDetected() answer.Answer {
	return answer.Answer{
		Status:  http.StatusBadGateway,
		Kind:    "proxy_loop_detected",
		Details: "this request has passed " + f.opts.Name + " before",
		Advice:  "Proxies that are chained need names of their own.",
	}
}

// Refusal returns the answer to a request that the gate does not admit. The error says that
// this proxy does not go to the origin at all, which is not the origin's fault.
func (f *Forwarder) Refusal(ctx context.Context, a *gate.Admission) (answer.Answer, error) {
	if a.Late() != nil {
		return answer.TooLate(a), nil
	}
	if a.Reason == decision.Unreachable {
		if err := f.transport.CheckOrigin(ctx, a.Target.Origin); err != nil {
			return f.UpstreamFailed(err), err
		}
	}
	return answer.Refusal(&a.Verdict, time.Now()), nil
}
