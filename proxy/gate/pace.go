package gate

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/pace"
)

// paced reports whether what may be asked for in a tunnel has to be spaced or counted,
// now or at another time of the day: for the bot of the admission, if it is certain, else
// for any bot.
func (p *Admission) paced(certain bool) bool {
	if p.gate.pacer == nil || p.mode == identity.Off {
		return false
	}
	stated := p.group != nil && p.group.StatesDelay()
	if !certain {
		stated = p.file != nil && p.file.StatesDelay()
	}
	return p.gate.pacer.Paces(stated)
}

// Wait keeps an admission that is admitted until its turn. One whose turn would come too
// late is admitted no more. An error means that the client left before.
func (p *Admission) Wait(ctx context.Context) error {
	var err error
	if p.gate.pacer != nil && p.Admits() && p.mode != identity.Off && !p.Target.IsRobotsTxt() {
		p.permit, err = p.gate.pacer.Wait(ctx, p.request())
		if errors.As(err, &p.late) {
			err = nil
		}
	}
	p.waited = p.gate.now().Sub(p.asked)
	return err
}

// request is the admission as the pacer knows it. An operator's word on an origin is
// one on its paths: it states no delay, but a robots_file may.
func (p *Admission) request() pace.Request {
	return pace.Request{
		Origin:   p.Origin,
		Identity: p.Identity,
		Group:    cmp.Or(p.Group, "*"), // without a group it is one of everyone's
		Delay:    p.delay,
		Stated:   p.CrawlDelay != nil,
	}
}

// Admits reports whether the request is let through: its verdict admits it, and its
// turn does not come too late.
func (p *Admission) Admits() bool { return p.late == nil && p.Verdict.Admits() }

// Late says why the request is refused although its verdict admits it: its turn would
// come too late. nil if that is not so.
func (p *Admission) Late() *pace.Late { return p.late }

// HonorRetryAfter takes up what the origin answered: with 429 and 503 it may ask
// for a pause (RFC 9110 10.2.3, RFC 6585 4), which its bot's further requests keep.
func (p *Admission) HonorRetryAfter(status int, header http.Header) {
	if p.gate.pacer == nil || p.mode == identity.Off || status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return
	}
	if length, ok := pace.RetryAfter(header, p.gate.now()); ok {
		p.gate.pacer.Hold(p.request(), length)
	}
}
