// Package opaque is about tunnels that the proxy does not read. [Options] say which may stay
// opaque. A [Tunnel] is judged as a whole; its first octets say whether it stays opaque after
// all; then it is carried, and judged again while it lasts.
package opaque

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"robotsproxy/internal/loopback"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/flow"
	"robotsproxy/proxy/gate"
)

// A Tunnel is one that may stay opaque. [Options.Tunnel] makes it. Judge comes first, then
// Next, then Carry.
type Tunnel struct {
	// Admission is what Judge has brought. Whoever does not call Carry must end it.
	Admission *gate.Admission

	gate   *gate.Gate
	ask    gate.Ask
	opts   *Options
	client *loopback.Client
}

// NeverRead reports whether the operator wants the tunnel not to be read in any case.
func (t *Tunnel) NeverRead() bool { return t.opts.neverRead(t.ask.Target.Origin.Host) }

// Judge judges the tunnel as a whole. The error is [gate.ErrNotUniform] if it must be read.
// The context's [loopback.Client] counts for later judgements too.
func (t *Tunnel) Judge(ctx context.Context) (err error) {
	t.client = loopback.Of(ctx)
	t.Admission, err = t.judge(ctx)
	return err
}

func (t *Tunnel) judge(ctx context.Context) (*gate.Admission, error) {
	switch {
	case !t.NeverRead():
		return t.gate.AdmitIfUniform(ctx, t.ask)
	case t.opts.Mixed == AllowMixed:
		return t.gate.AdmitOpaque(ctx, t.ask, decision.Allowed)
	}
	return t.gate.AdmitOpaque(ctx, t.ask, decision.Disallowed)
}

// Carry carries octets between the client and the origin until both directions have ended,
// nothing has moved for stallLimit (0 is no bound), or the tunnel may no longer pass. Then it
// closes both connections and ends the admission. A panic of a later judgement comes out of
// Carry. concern is what the log line says of a
// tunnel that passes nevertheless; nil for none.
func (t *Tunnel) Carry(client, origin net.Conn, stallLimit time.Duration, concern error) {
	ctx, cancel := context.WithCancelCause(loopback.With(context.Background(), t.client))
	end := func(cause error) {
		cancel(cause)
		client.Close()
		origin.Close()
	}
	down := int64(0)
	defer func() { t.Admission.Done(http.StatusOK, down, concern) }()
	defer end(nil)
	defer t.judgeAgain(ctx, end)()

	client.SetDeadline(time.Time{})
	watchdog := flow.Watchdog{Limit: stallLimit}
	var stalled error
	if down, stalled = watchdog.Join(client, origin); stalled != nil {
		concern = stalled
	}
	if cause := context.Cause(ctx); cause != nil {
		concern = cause
	}
	if p, ok := concern.(panicked); ok {
		panic(string(p)) // in the caller's goroutine, which can recover
	}
}

var errRefusedLater = errors.New("what the origin allows has changed: the tunnel was closed")

// panicked is the value and the stack of a panic in judgeAgain.
type panicked string

func (panicked) Error() string {
	return "judging the tunnel again failed inside the proxy: the tunnel was closed"
}

const (
	// rejudgeEvery is the longest time between two judgements of a tunnel: what its origin
	// allows may change before the policy expires.
	rejudgeEvery = time.Minute
	// rejudgePause is the shortest.
	rejudgePause = 50 * time.Millisecond
)

// judgeAgain judges a tunnel again whenever the policy or override that admitted it expires, and at
// least every rejudgeEvery, until ctx ends. It calls end when the tunnel may no longer pass or
// would have to be read. Callers must call stop.
func (t *Tunnel) judgeAgain(ctx context.Context, end func(cause error)) (stop func() bool) {
	next := func(a *gate.Admission) time.Duration {
		if a.ExpiresAt.IsZero() {
			return rejudgeEvery
		}
		return min(max(time.Until(a.ExpiresAt), rejudgePause), rejudgeEvery)
	}
	var timer *time.Timer
	ready := make(chan struct{})
	timer = time.AfterFunc(next(t.Admission), func() {
		defer func() {
			if cause := recover(); cause != nil {
				end(panicked(fmt.Sprintf("%v\n%s", cause, debug.Stack())))
			}
		}()
		<-ready
		a, err := t.judge(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil || !a.Admits():
			end(errRefusedLater)
		default:
			timer.Reset(next(a))
		}
	})
	close(ready)
	return timer.Stop
}
