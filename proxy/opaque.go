package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"robotsproxy/internal/loopback"
	"robotsproxy/proxy/flow"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/upstream"
	"robotsproxy/robots"
)

// tunnelJudge judges a tunnel as a whole, again and again while it lasts. It fails with
// [gate.ErrNotUniform] for one that must be read.
type tunnelJudge func(ctx context.Context, ask gate.Ask) (*gate.Admission, error)

// onBehalf is j for a client, whatever context it is called with.
func (j tunnelJudge) onBehalf(client *loopback.Client) tunnelJudge {
	return func(ctx context.Context, ask gate.Ask) (*gate.Admission, error) {
		return j(loopback.With(ctx, client), ask)
	}
}

// neverRead reports whether the operator wants no tunnel to a host read.
func (t *Tunnels) neverRead(host string) bool {
	return t.Mode == Never || slices.ContainsFunc(t.Passthrough, func(g identity.HostGlob) bool { return g.Match(host) })
}

// opaqueJudge says who judges a tunnel to a host that may not be read; nil for one
// that is read in any case.
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

// passOpaque judges a CONNECT and, if it may pass, joins client and origin. It
// reports false where the tunnel must be read. If that showed only when it was open,
// t has its connection then.
func (s *Server) passOpaque(w http.ResponseWriter, r *http.Request, t *tunnel) bool {
	tunnels := &s.access.Load().tunnels
	judge := s.opaqueJudge(tunnels, t.origin.Host)
	if judge == nil {
		return false
	}
	judge = judge.onBehalf(loopback.Of(r.Context()))
	if passedBy(r.Header, s.opts.Name) {
		s.answer(w, r, s.loop())
		return true
	}
	origin := t.origin
	if origin.Port == "80" { // nobody knows better what is spoken inside
		origin.Scheme = "http"
	}
	if err := upstream.CheckLoopback(r.Context(), origin); err != nil {
		s.answer(w, r, s.failed(err))
		return true
	}
	ask := gate.Ask{Target: robots.Target{Origin: origin, Path: "/"}, Asker: askerOf(r), Method: r.Method}
	admission, err := judge(r.Context(), ask)
	switch {
	case errors.Is(err, gate.ErrNotUniform):
		return false
	case err != nil:
		s.answer(w, r, s.unjudged(err))
		return true
	}
	if err := admission.Wait(r.Context()); err != nil { // the client has left
		admission.Done(0, 0, err)
		return true
	}
	if !admission.Admits() {
		a, err := s.refuse(r, admission)
		s.answer(w, r, a)
		admission.Done(a.Status, 0, err)
		return true
	}
	up, err := s.transport.Dial(r.Context(), origin)
	if err != nil {
		a := s.failed(err)
		s.answer(w, r, a)
		admission.Done(a.Status, 0, err)
		return true
	}
	if !s.openTunnel(w, r, t) {
		up.Close()
		admission.Done(0, 0, errNotOpened)
		return true
	}
	course, err := t.courseIn(tunnels)
	if course == refuse {
		admission.Misdirected()
		if admission.Admits() { // its identity's mode is report or off
			course = join
		}
	}
	switch course {
	case join:
		s.hijacked.Add(t.Conn)
		s.tunnels.Inc()
		// net/http's own goroutine and buffers, which it gives up now, are many times
		// what an idle tunnel needs.
		go func() {
			defer s.guard(func() {})
			defer s.hijacked.Remove(t.Conn)
			defer s.tunnels.Dec()
			s.carry(t, up, admission, judge, ask, err)
		}()
	case read:
		up.Close()
		admission.Discard()
		return false
	case refuse:
		t.Write(unrecognizedName)
		flow.CloseWrite(t.Conn)
		fallthrough
	default:
		up.Close()
		t.Close()
		admission.Done(http.StatusOK, 0, err)
	}
	return true
}

var errNotOpened = errors.New("the client left before its tunnel was open")

// carry joins a client and its origin for as long as the tunnel may pass. A concern is
// what the log's line is to say of a tunnel that passes all the same; nil for none.
func (s *Server) carry(t *tunnel, up net.Conn, admission *gate.Admission, judge tunnelJudge, ask gate.Ask, concern error) {
	down := int64(0)
	defer func() { admission.Done(http.StatusOK, down, concern) }()
	defer t.Close()
	defer up.Close()
	var refused atomic.Bool
	stop := s.judgeAgain(admission, judge, ask, func() {
		refused.Store(true)
		t.Close()
		up.Close()
	})
	defer stop()
	t.SetDeadline(time.Time{})
	watchdog := flow.Watchdog{Limit: s.stallLimit(), Target: flow.Ends{Client: t, Origin: up}}
	watchdog.Start()
	defer watchdog.Stop()
	down = flow.Join(t, up, &watchdog.Flow)
	if stall := watchdog.Stop(); stall != flow.Moving {
		concern = watchdog.Error(stall)
	}
	if refused.Load() {
		concern = errRefusedLater
	}
}

// guard is deferred in a goroutine of a tunnel's, which net/http does not guard as it
// does those of its handlers: a panic ends the tunnel, by end, and not the process.
func (s *Server) guard(end func()) {
	if cause := recover(); cause != nil {
		s.log.Error().Any("panic", cause).Bytes("stack", debug.Stack()).Msg("a tunnel failed inside the proxy; please report this")
		end()
	}
}

var errRefusedLater = errors.New("what the origin allows has changed: the tunnel was closed")

// rejudgeEvery is how long a tunnel goes at most without being judged again: what its
// origin allows may change before it expires.
const rejudgeEvery = time.Minute

// judgeAgain judges a tunnel again when the policy that let it through is over, and
// now and then before. It calls end once, when the tunnel may no longer pass or
// would have to be read. The caller ends it by stop.
func (s *Server) judgeAgain(first *gate.Admission, judge tunnelJudge, ask gate.Ask, end func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var timer *time.Timer
	next := func(p *gate.Admission) time.Duration {
		if p.ExpiresAt.IsZero() {
			return rejudgeEvery
		}
		return min(max(time.Until(p.ExpiresAt), 50*time.Millisecond), rejudgeEvery)
	}
	ready := make(chan struct{})
	timer = time.AfterFunc(next(first), func() {
		defer s.guard(end)
		<-ready
		p, err := judge(ctx, ask)
		switch {
		case ctx.Err() != nil:
		case err != nil || !p.Admits():
			end()
		default:
			timer.Reset(next(p))
		}
	})
	close(ready)
	return func() {
		cancel()
		timer.Stop()
	}
}
