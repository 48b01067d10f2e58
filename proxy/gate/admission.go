package gate

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/pace"
	"robotsproxy/robots"
)

// Admission is a request that has been judged, from then to its end. Its verdict may well
// refuse it. Callers must call Wait before they act on it, and in the end either Done or
// Discard, once.
type Admission struct {
	Verdict
	Bot    *identity.Identity
	Target robots.Target

	gate     *Gate
	settings *Settings // that held when it was judged
	client   netip.Addr
	method   string
	asked    time.Time
	waited   time.Duration
	late     *pace.Late // set if its turn would come too late
	permit   pace.Permit
}

// Admit judges a client's request. An error means that it was not judged, since the client
// has left or the proxy is stopping; then there is no Admission.
func (g *Gate) Admit(ctx context.Context, ask Ask) (*Admission, error) {
	a := g.newAdmission(&ask)
	var err error
	if a.Bot, err = g.decide(ctx, a.settings, &ask, a.asked, &a.Verdict); err != nil {
		return nil, err
	}
	return a, nil
}

// newAdmission is the admission of an ask that has yet to be judged.
func (g *Gate) newAdmission(ask *Ask) *Admission {
	return &Admission{Target: ask.Target, client: ask.Addr, method: ask.Method, settings: g.settings.Load(), gate: g, asked: g.now()}
}

// Wait returns when it is the request's turn: at once if it is refused or not paced. Where
// its turn would come too late, it is refused from then on, and [Admission.Late] says why.
// An error means that the client has left.
func (a *Admission) Wait(ctx context.Context) error {
	var err error
	if a.gate.pacer != nil && a.Admits() && a.mode != identity.Off && !a.Target.IsRobotsTxt() {
		a.permit, err = a.gate.pacer.Wait(ctx, a.paceRequest())
		if errors.As(err, &a.late) {
			err = nil
		}
	}
	a.waited = a.gate.now().Sub(a.asked)
	return err
}

// Admits reports whether the request may go on: its verdict lets it through, and its turn
// does not come too late.
func (a *Admission) Admits() bool { return a.late == nil && a.Verdict.Admits() }

// Late says why a request is refused that its verdict lets through: its turn would come too
// late. It is nil for all others.
func (a *Admission) Late() *pace.Late { return a.late }

// HonorRetryAfter has further requests of the same bot wait if the origin asks for that: by
// Retry-After in an answer with 429 or 503 (RFC 9110 10.2.3, RFC 6585 4).
func (a *Admission) HonorRetryAfter(status int, header http.Header) {
	if a.gate.pacer == nil || a.mode == identity.Off || status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return
	}
	if length, ok := pace.RetryAfter(header, a.gate.now()); ok {
		a.gate.pacer.Hold(a.paceRequest(), length)
	}
}

// Done ends the admission: the request is counted and logged. status and bytes are those of
// the response as the client got it; failure says why the origin gave no response, or only
// a part of it.
func (a *Admission) Done(status int, bytes int64, failure error) {
	a.permit.Release()
	a.gate.recorder.record(a, status, bytes, failure)
}

// Discard ends an admission that came to nothing: it is neither counted nor logged.
func (a *Admission) Discard() { a.permit.Release() }

// paceRequest is the request as the pacer knows it. An override states no delay, but its
// robots_file may.
func (a *Admission) paceRequest() pace.Request {
	return pace.Request{
		Origin:   a.Origin,
		Identity: a.Identity,
		Group:    cmp.Or(a.Group, "*"), // who has no group is one of everyone's
		Delay:    a.delay,
		Stated:   a.CrawlDelay != nil,
	}
}
