package gate

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/pace"
	"robotsproxy/robots"
	"robotsproxy/robots/preference"
)

// Admission is a judged request, until its end. Its verdict may refuse the request. Callers
// must call Wait before they act on it, and in the end either Done or Discard, once.
type Admission struct {
	Verdict
	Bot    *identity.Identity
	Target robots.Target

	gate     *Gate
	settings *Settings // by which it was judged
	client   netip.Addr
	method   string
	asked    time.Time
	waited   time.Duration
	queued   time.Duration // of it, for its turn
	signed   string        // the ID of the key that has signed it; "": none
	edge     decision.Edge // what the origin has done
	price    string        // that it names, if edge is Priced
	late     *pace.Late    // not nil if its turn would come too late
	permit   pace.Permit
	door     decision.Door
	outcome  outcome
}

// outcome is what the pacer is to know of the origin's answer.
type outcome uint8

const (
	unknown outcome = iota // the origin has not been asked, or it is unknown why there is no answer
	good                   // so far; the pacer hears of it at the end
	told                   // the pacer has heard of it
)

// Admit judges a client's request. An error means that it was not judged, because the client
// has left or the proxy is stopping. Then there is no Admission.
func (g *Gate) Admit(ctx context.Context, ask Ask) (*Admission, error) {
	a := g.newAdmission(&ask)
	var err error
	if a.Bot, err = g.decide(ctx, a.settings, &ask, a.asked, &a.Verdict); err != nil {
		return nil, err
	}
	return a, nil
}

// newAdmission returns the admission of an ask that is yet to be judged.
func (g *Gate) newAdmission(ask *Ask) *Admission {
	return &Admission{Target: ask.Target, client: ask.Addr, method: ask.Method, door: ask.Door, settings: g.settings.Load(), gate: g, asked: g.now()}
}

// Wait returns when it is the request's turn, or at once if the request is refused or not
// paced. If its turn would come too late, the request is refused from then on, and
// [Admission.Late] says why. An error means that the client has left.
func (a *Admission) Wait(ctx context.Context) error {
	var err error
	now := a.gate.now()
	if a.gate.pacer != nil && a.paces() {
		a.permit, err = a.gate.pacer.Wait(ctx, a.paceRequest())
		judged := now
		now = a.gate.now()
		if err != nil || a.permit.Waited() != "" { // else it started at once, however long the machine took for that
			a.queued = now.Sub(judged)
		}
		if errors.As(err, &a.late) {
			err = nil
			a.Hold = a.late.Hold
		}
	}
	a.waited = now.Sub(a.asked)
	return err
}

// Admits reports whether the request may go on: its verdict lets it through, and its turn
// does not come too late.
func (a *Admission) Admits() bool { return a.late == nil && a.Verdict.Admits() }

// Late says why the turn of a request would come too late. It is nil if the request is not
// refused for that.
func (a *Admission) Late() *pace.Late { return a.late }

// Sign signs the request, whose header is complete, if its bot signs such requests. It must be
// called last, right before the request is sent. A request that can't be signed, or has a
// signature of its own, is to be sent as it is.
func (a *Admission) Sign(header http.Header) {
	cdn := a.cdn
	if cdn == "" && a.gate.CDN != nil && a.Bot.Signs() {
		cdn = a.gate.CDN(a.Target.Origin)
	}
	signature, err := a.Bot.Sign(header, a.method, a.Target, cdn)
	switch {
	case err != nil: // it is the client's doing, so it must not fill the log
		a.gate.log.Debug().Err(err).Stringer("client", a.client).Str("identity", a.Identity).
			Str("url", printable.Cut(a.URL, decision.MaxText)).Msg("the request is sent without the identity's signature")
	case signature != identity.Signature{}:
		a.signed = signature.KeyID
		a.gate.recorder.Signed(signature.Form)
	}
}

// Answered tells the pacer how the origin has begun to answer. Further requests of the same bot are
// held if the origin asks for that, by Retry-After in a response with 429 or 503 (RFC 9110
// 10.2.3, RFC 6585 4), or if it fails too often.
func (a *Admission) Answered(status int, header http.Header) {
	if a.gate.pacer == nil || a.mode == identity.Off {
		return
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		if length, ok := pace.RetryAfter(header, a.gate.now()); ok {
			a.gate.pacer.Hold(a.paceRequest(), length)
		}
	}
	switch {
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		a.Failed()
	default:
		a.outcome = good
		a.permit.Answered()
	}
}

// Connected tells the pacer that the origin has taken a connection of which no more is seen.
func (a *Admission) Connected() {
	a.outcome = told
	a.permit.Succeeded()
}

// Failed tells the pacer that the origin could not be reached, did not answer, or broke its answer
// off. It must not be called if that was the client's doing, or this proxy's.
func (a *Admission) Failed() {
	if a.outcome != told { // an error's body may break off too
		a.outcome = told
		a.permit.Failed()
	}
}

// NoteEdge notes, for the log and the metrics, whether the origin turns away with this response
// what its robots.txt allows. Where nobody asked for the robots.txt, it notes nothing.
func (a *Admission) NoteEdge(status int, header http.Header) {
	if a.Judgment != decision.Allowed || a.Reason == decision.Overridden || a.Reason == decision.Exempt {
		return
	}
	a.edge, a.price = decision.EdgeOf(status, header)
	if a.edge != "" {
		a.gate.recorder.TurnedAway(a.Identity, a.edge)
	}
}

// shortKeyID is how many characters of a key's ID tell an operator which of a few keys it is.
const shortKeyID = 8

// Done ends the admission, and counts and logs the request. status and bytes are those of the
// response as the client got it. failure says why the origin gave no response, or only a
// part of it.
func (a *Admission) Done(status int, bytes int64, failure error) {
	if a.outcome == good {
		a.permit.Succeeded()
	}
	a.permit.Release()
	if a.WouldRefuse {
		a.gate.recorder.Spared(a.Identity, a.preferred)
	}
	now := a.gate.now()
	d := decision.Decision{
		Time:         now,
		Client:       a.client,
		Door:         a.door.String(),
		Identity:     a.Identity,
		Agent:        a.Agent,
		Method:       a.method,
		URL:          a.URL,
		Origin:       a.Origin,
		Judgment:     a.Judgment,
		Reason:       a.Reason,
		Refused:      !a.Admits(),
		Rule:         a.Rule,
		Line:         a.Line,
		RobotsSHA256: a.RobotsSHA256,
		Status:       status,
		Bytes:        bytes,
		WaitMS:       decision.Milliseconds(a.waited),
		PacedMS:      a.queued.Milliseconds(),
	}
	if d.PacedMS > 0 {
		d.PacedBy = string(a.permit.Waited())
	}
	d.Preference, d.PreferenceLine = a.Preference, a.PreferenceLine
	d.WouldRefuse = a.Admits() && (a.WouldRefuse || a.Judgment != decision.Allowed)
	d.Edge, d.Price = a.edge, a.price
	d.OverrideReason, d.OverrideBy = a.OverrideReason, a.OverrideBy
	if a.signed != "" {
		d.Signed = a.signed[:shortKeyID]
	}
	if a.Reason == decision.Unreachable || a.preferred == preference.TDMRep && a.PreferenceLine == 0 {
		d.Cause = a.Cause
	}
	if failure == nil && a.late != nil {
		failure = a.late
	}
	if failure != nil {
		d.Error = failure.Error()
	}
	a.gate.recorder.Record(&d, now.Sub(a.asked), a.settings.LogFilter)
}

// Discard ends the admission without counting or logging the request.
func (a *Admission) Discard() { a.permit.Release() }

// paces reports whether the request waits for its turn.
func (v *Verdict) paces() bool { return v.Admits() && v.mode != identity.Off && !v.robotsTxt }

// paceRequest returns the request as the pacer sees it. An override states no delay, but its
// robots_file may.
func (v *Verdict) paceRequest() pace.Request {
	return pace.Request{
		Origin:   v.Origin,
		Identity: v.Identity,
		Group:    cmp.Or(v.Group, "*"), // without a group, everyone's
		Delay:    v.delay,
		Stated:   v.CrawlDelay != nil,
	}
}
