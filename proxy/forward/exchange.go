package forward

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"robotsproxy/proxy/answer"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/flow"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/message"
	"robotsproxy/proxy/upstream"
	"robotsproxy/robots"
)

// exchange is one request on its way, and its response.
type exchange struct {
	client    message.Writer
	interim   message.Interim
	target    robots.Target
	user      string
	admission *gate.Admission // nil until the gate has judged
	err       error           // why the origin gave no response
	body      message.Download

	forwarder *Forwarder
	watchdog  flow.Watchdog
	cancel    func()    // ends what goes on upstream; if nil, closing upstream does
	upstream  io.Closer // the body of the origin's response; nil until it is there
	asking    bool      // a request with a body is being sent; guarded by watchdog.Sync
	told      bool      // the answer says that the request stood still
	door      decision.Door
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange { return r.Context().Value(exchangeKey{}).(*exchange) }

// Forward takes a request for a target to the gate and, if it may pass, to its origin.
// Every door ends here, and says which it is. user is whom the client says it is; "" if it does not say.
func (f *Forwarder) Forward(w http.ResponseWriter, r *http.Request, door decision.Door, target robots.Target, user string) {
	x := &exchange{forwarder: f, door: door, target: target, user: user}
	x.watchdog.Limit, x.watchdog.Target = f.StallTimeout(), x
	x.client = message.Writer{ResponseWriter: w, Watchdog: &x.watchdog, Hijacked: f.opts.Hijacked, Head: r.Method == http.MethodHead}
	f.exchanges.RLock()
	defer f.exchanges.RUnlock()
	defer f.conclude(x, r)
	f.engine.ServeHTTP(&x.client, f.outgoing(r, x))
}

// conclude ends an exchange and logs it, also after a panic. Forward defers it.
func (f *Forwarder) conclude(x *exchange, r *http.Request) {
	cause := recover()
	stall := x.watchdog.Stop()
	if x.cancel != nil {
		defer x.cancel()
	}
	if cause != nil && cause != http.ErrAbortHandler {
		f.LogPanic(cause)
		if x.client.Status() == 0 {
			clear(x.client.Header())
			f.Answer(&x.client, r, answer.Answer{Status: http.StatusInternalServerError, Kind: answer.InternalError, Details: "the proxy failed on this request"})
			cause = nil
		}
	}
	x.client.Close()
	switch {
	case stall == flow.Silent && x.client.Upload.Whole() && x.upstream != nil:
		f.upstreamErrors.WithLabelValues("connection_read_timeout").Inc()
		x.admission.Failed()
	case stall == flow.UpBlocked && !x.told:
		f.upstreamErrors.WithLabelValues("connection_write_timeout").Inc()
	case stall == flow.Moving && x.body.Cut() != nil && r.Context().Err() == nil: // else the client has left
		f.upstreamErrors.WithLabelValues(upstream.CutShort).Inc()
		if x.client.Upload.Whole() { // else the transport may have broken off, for want of the client's body
			x.admission.Failed()
		}
	}
	if x.admission != nil {
		x.admission.Done(x.client.Status(), x.client.Octets(), cmp.Or(x.watchdog.Error(stall), x.err, x.body.Cut()))
	}
	broken := cause != nil || x.body.Cut() != nil || stall != flow.Moving && !x.told
	if r.ProtoMajor == 1 && !x.client.Upload.Whole() {
		if !broken {
			message.Linger(x.client.ResponseWriter, x.client.Upload)
		}
		// The transport may still be reading; net/http would wait for it.
		http.NewResponseController(x.client.ResponseWriter).SetReadDeadline(pastDeadline)
	}
	if broken {
		// The status has been sent. Only a broken connection or a reset stream can still
		// say that the body is incomplete.
		panic(http.ErrAbortHandler)
	}
}

// sent notes that a request with a body has been sent. From then on the transport bounds
// how long the response may take.
func (x *exchange) sent(info httptrace.WroteRequestInfo) {
	x.watchdog.Sync(func() {
		if info.Err == nil && x.asking {
			x.watchdog.Pause()
		}
	})
}

// answered notes that the origin has answered or failed, and says how the exchange stood
// still before.
func (x *exchange) answered() flow.Stall {
	return x.watchdog.Sync(func() {
		x.asking = false
		x.watchdog.Resume()
		x.watchdog.Down.Delivered()
	})
}

// Abort ends an exchange that stands still. While the request is being sent, the client
// can still be answered; later its response is cut short.
func (x *exchange) Abort(how flow.Stall) {
	defer func() {
		if cause := recover(); cause != nil {
			x.forwarder.LogPanic(cause)
		}
	}()
	client := http.NewResponseController(x.client.ResponseWriter)
	if how != flow.UpBlocked || !x.asking {
		client.SetReadDeadline(pastDeadline)
	}
	if !x.asking {
		client.SetWriteDeadline(pastDeadline)
	}
	switch {
	case x.cancel != nil:
		x.cancel()
	case x.upstream != nil:
		go x.upstream.Close() // Close may wait for what stands still
	}
}

// pastDeadline is a deadline that has passed.
var pastDeadline = time.Unix(1, 0)
