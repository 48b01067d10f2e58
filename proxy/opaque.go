package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"robotsproxy/internal/loopback"
	"robotsproxy/proxy/answer"
	"robotsproxy/proxy/flow"
	"robotsproxy/proxy/forward"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/upstream"
	"robotsproxy/robots"
)

// opaqueTunnel is a tunnel that is not read: the gate judges it as a whole.
type opaqueTunnel struct {
	client    *tunnel
	origin    net.Conn
	judge     tunnelJudge
	ask       gate.Ask
	admission *gate.Admission
}

// tunnelJudge judges a tunnel as a whole, when it is opened and again while it lasts. It
// returns [gate.ErrNotUniform] for a tunnel that must be read.
type tunnelJudge func(ctx context.Context, ask gate.Ask) (*gate.Admission, error)

// onBehalfOf is j for a client, whatever context it is called with.
func (j tunnelJudge) onBehalfOf(client *loopback.Client) tunnelJudge {
	return func(ctx context.Context, ask gate.Ask) (*gate.Admission, error) {
		return j(loopback.With(ctx, client), ask)
	}
}

// neverRead reports whether the operator wants no tunnel to a host read.
func (t *Tunnels) neverRead(host string) bool {
	return t.Mode == Never || slices.ContainsFunc(t.Passthrough, func(g identity.HostGlob) bool { return g.Match(host) })
}

// opaqueJudge returns what judges a tunnel to a host that may stay opaque; nil if the
// tunnel is read in any case.
func (s *Server) opaqueJudge(tunnels *Tunnels, host string) tunnelJudge {
	switch {
	case tunnels.neverRead(host):
		mixed := gate.Disallowed
		if tunnels.Mixed == AllowMixed {
			mixed = gate.Allowed
		}
		return func(ctx context.Context, ask gate.Ask) (*gate.Admission, error) {
			return s.gate.AdmitOpaque(ctx, ask, mixed)
		}
	case tunnels.Mode == WhenNeeded:
		return s.gate.AdmitIfUniform
	}
	return nil
}

// passOpaque judges a CONNECT as a whole and, if the tunnel may pass, joins client and
// origin. It reports false if the tunnel must be read; t is open then if that showed only
// by its first octets.
func (s *Server) passOpaque(w http.ResponseWriter, r *http.Request, t *tunnel) (done bool) {
	tunnels := &s.access.Load().tunnels
	judge := s.opaqueJudge(tunnels, t.origin.Host)
	if judge == nil {
		return false
	}
	if s.forwarder.PassedBefore(r) {
		s.forwarder.Answer(w, r, s.forwarder.LoopDetected())
		return true
	}
	o := newOpaque(r.Context(), t, judge, t.presumedOrigin(), identity.Asker{Addr: forward.ClientAddr(r), User: t.user, Header: r.Header})
	switch refusal, err := s.openOpaque(r.Context(), o); {
	case errors.Is(err, gate.ErrNotUniform):
		return false
	case refusal != nil:
		s.forwarder.Answer(w, r, *refusal)
		o.notOpened(refusal.Status, err)
		return true
	case err != nil: // the client has left
		o.notOpened(0, err)
		return true
	case !s.openTunnel(w, r, t):
		o.origin.Close()
		o.notOpened(0, errNotOpened)
		return true
	}
	return s.passOpened(o, tunnels)
}

// presumedOrigin is where a tunnel leads in which nothing has been spoken yet.
func (t *tunnel) presumedOrigin() robots.Origin {
	origin := t.origin
	if origin.Port == "80" {
		origin.Scheme = "http"
	}
	return origin
}

func newOpaque(ctx context.Context, t *tunnel, judge tunnelJudge, origin robots.Origin, asker identity.Asker) *opaqueTunnel {
	return &opaqueTunnel{
		client: t,
		judge:  judge.onBehalfOf(loopback.Of(ctx)),
		ask:    gate.Ask{Target: robots.Target{Origin: origin, Path: "/"}, Asker: asker, Method: http.MethodConnect, Door: t.door},
	}
}

// openOpaque judges a tunnel as a whole and, if it may pass, dials its origin. If not, it
// returns the answer to a CONNECT. An error without an answer is [gate.ErrNotUniform] for a
// tunnel that must be read, else it says that the client has left.
func (s *Server) openOpaque(ctx context.Context, o *opaqueTunnel) (refusal *answer.Answer, err error) {
	origin := o.ask.Target.Origin
	failed := func(err error) (*answer.Answer, error) {
		a := s.forwarder.UpstreamFailed(err)
		return &a, err
	}
	if err := upstream.CheckLoopback(ctx, origin); err != nil {
		return failed(err)
	}
	o.admission, err = o.judge(ctx, o.ask)
	switch {
	case errors.Is(err, gate.ErrNotUniform):
		return nil, err
	case err != nil:
		a := s.forwarder.NotJudged(err)
		return &a, err
	}
	if err := o.admission.Wait(ctx); err != nil {
		return nil, err
	}
	if !o.admission.Admits() {
		a, err := s.forwarder.Refusal(ctx, o.admission)
		return &a, err
	}
	if o.origin, err = s.transport.Dial(ctx, origin); err != nil {
		return failed(err)
	}
	return nil, nil
}

// notOpened ends the admission of a tunnel that was not opened, if it was judged.
func (o *opaqueTunnel) notOpened(status int, failure error) {
	if o.admission != nil {
		o.admission.Done(status, 0, failure)
	}
}

var errNotOpened = errors.New("the client left before its tunnel was open")

// passOpened looks at the first octets in a tunnel that the gate admits, and joins client
// and origin or closes both. It reports false if the tunnel must be read.
func (s *Server) passOpened(o *opaqueTunnel, tunnels *Tunnels) (done bool) {
	step, err := o.client.nextStep(tunnels)
	if step == stepRefuse {
		o.admission.Misdirected()
		if o.admission.Admits() { // its identity's mode is report or off
			step = stepJoin
		}
	}
	switch step {
	case stepJoin:
		s.hijacked.Add(o.client.hijacked)
		s.openTunnels.Inc()
		// The goroutine of a CONNECT is net/http's. It and its buffers, which end now,
		// are many times what an idle tunnel needs.
		go func() {
			defer s.recoverTunnel(func() {})
			defer s.hijacked.Remove(o.client.hijacked)
			defer s.openTunnels.Dec()
			s.carry(o, err)
		}()
	case stepRead:
		o.origin.Close()
		o.admission.Discard()
		return false
	case stepRefuse:
		o.client.alert()
		fallthrough
	default:
		o.close()
		o.admission.Done(http.StatusOK, 0, err)
	}
	return true
}

// step is what happens next to a tunnel that the gate admits as a whole, by its first
// octets.
type step int

const (
	stepHangUp step = iota // close it: the client says nothing
	stepJoin               // carry octets between client and origin
	stepRead               // serve it as one that is read
	stepRefuse             // close it: what is inside is for another server, and must not be read
)

// nextStep looks at the first octets in a tunnel. The gate judged the host that the CONNECT
// named, but the server name in the client's TLS chooses among the sites of one server. So
// a tunnel whose TLS names another server is read or, where the operator wants neither of
// the two read, refused. The error says why the tunnel is not joined.
//
// A client need not name a server. If it does not, or does not speak TLS, the tunnel is read
// in mode when_needed, and joined where the operator wants it unread.
func (t *tunnel) nextStep(tunnels *Tunnels) (step, error) {
	never := tunnels.neverRead(t.origin.Host)
	unnamed := stepRead
	if never {
		unnamed = stepJoin
	}
	mayBeTLS, err := t.MayBeTLS()
	switch {
	case err == io.EOF && never: // the client has nothing to say, and may listen
		return stepJoin, nil
	case err != nil:
		return stepHangUp, fmt.Errorf("waiting for the client to say something in its tunnel: %w", err)
	case !mayBeTLS:
		return unnamed, nil
	}
	hello, err := t.Hello()
	name := hello.ServerName
	switch {
	case err != nil && never:
		return stepRefuse, fmt.Errorf("the tunnel must not be read, and its TLS cannot be understood: %w", err)
	case err != nil:
		return stepRead, nil
	case name == "" && net.ParseIP(t.origin.Host) != nil: // TLS never names an address
		return stepJoin, nil
	case name == "":
		return unnamed, nil
	case strings.EqualFold(name, t.origin.Host): // as servers compare it, without a URL's spelling
		return stepJoin, nil
	}
	// A name that no URL can have is that of another server.
	named, err := robots.ParseOrigin("https://" + name)
	if never && (err != nil || tunnels.neverRead(named.Host)) {
		return stepRefuse, fmt.Errorf("the tunnel to %s must not be read, and its TLS asks for the server %q", t.origin.Host, name)
	}
	return stepRead, nil
}

// unrecognizedName is the alert (RFC 6066 3) to a client whose TLS is refused.
var unrecognizedName = []byte{0x15, 3, 3, 0, 2, 2, 112}

// alert tells a client that its TLS is refused, and that nothing more comes.
func (t *tunnel) alert() {
	t.Write(unrecognizedName)
	t.CloseWrite()
}

// carry joins a client and its origin for as long as the tunnel may pass. concern is what
// the log line says of a tunnel that passes nevertheless; nil for none.
func (s *Server) carry(o *opaqueTunnel, concern error) {
	down := int64(0)
	defer func() { o.admission.Done(http.StatusOK, down, concern) }()
	defer o.close()
	var refused atomic.Bool
	stop := s.judgeAgain(o, func() {
		refused.Store(true)
		o.close()
	})
	defer stop()
	watchdog := flow.Watchdog{Limit: s.forwarder.StallTimeout(), Target: flow.Ends{Client: o.client, Origin: o.origin}}
	var stalled error
	if down, stalled = join(o.client, o.origin, &watchdog); stalled != nil {
		concern = stalled
	}
	if refused.Load() {
		concern = errRefusedLater
	}
}

// join carries octets between a client and its origin until both directions have ended. An
// error says that the watchdog broke them off.
func join(client *tunnel, origin net.Conn, watchdog *flow.Watchdog) (down int64, err error) {
	client.SetDeadline(time.Time{})
	watchdog.Start()
	defer watchdog.Stop()
	down = flow.Join(client, origin, &watchdog.Flow)
	if stall := watchdog.Stop(); stall != flow.Moving {
		err = watchdog.Error(stall)
	}
	return down, err
}

var errRefusedLater = errors.New("what the origin allows has changed: the tunnel was closed")

func (o *opaqueTunnel) close() {
	o.client.Close()
	o.origin.Close()
}

// recoverTunnel is deferred in the goroutines of a tunnel, which net/http does not guard as
// it does its handlers': a panic calls end, and does not end the process.
func (s *Server) recoverTunnel(end func()) {
	if cause := recover(); cause != nil {
		s.log.Error().Any("panic", cause).Bytes("stack", debug.Stack()).Msg("a tunnel failed inside the proxy; please report this")
		end()
	}
}

const (
	// rejudgeEvery is the longest time between two judgements of a tunnel: what its origin
	// allows may change before the policy expires.
	rejudgeEvery = time.Minute
	// rejudgePause is the shortest.
	rejudgePause = 50 * time.Millisecond
)

// judgeAgain judges a tunnel again whenever the policy that admitted it expires, and at
// least every rejudgeEvery. It calls end once, when the tunnel may no longer pass or would
// have to be read. Callers must call stop.
func (s *Server) judgeAgain(o *opaqueTunnel, end func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var timer *time.Timer
	next := func(a *gate.Admission) time.Duration {
		if a.ExpiresAt.IsZero() {
			return rejudgeEvery
		}
		return min(max(time.Until(a.ExpiresAt), rejudgePause), rejudgeEvery)
	}
	ready := make(chan struct{})
	timer = time.AfterFunc(next(o.admission), func() {
		defer s.recoverTunnel(end)
		<-ready
		a, err := o.judge(ctx, o.ask)
		switch {
		case ctx.Err() != nil:
		case err != nil || !a.Admits():
			end()
		default:
			timer.Reset(next(a))
		}
	})
	close(ready)
	return func() {
		cancel()
		timer.Stop()
	}
}
