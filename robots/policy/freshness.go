package policy

import (
	"math"
	"net/http"
	"time"

	"robotsproxy/robots/store"
)

// A Need is what must be done before, or besides, going by a judgement.
type Need uint8

const (
	NeedNothing Need = iota
	NeedRefresh      // a fetch in the background
	NeedFetch        // a fetch that requests wait for: what is known allows nothing
)

// A Judgement is the policy that follows from a record at a moment.
type Judgement struct {
	Policy Policy // without Origin and File
	Need   Need
	Until  time.Time // from Policy.FetchedAt to then it is the same; zero: only at that moment
}

// Judge says what the record's origin allows now: RFC 9309 2.3.1 and 2.4. It
// is all there is to know about time and failure, and it does nothing.
//
//	last answer            failing for       now
//	fresh                  however long      what it says; from 3/4 of its lifetime on, refresh
//	none, or out of date   not at all        nothing is known: fetch
//	none, or out of date   less than below   unreachable; fetch
//	a text, out of date    disallow_for      the text still rules; refresh
//	no text                allow_after       all is allowed; refresh
//
// Between failures nothing is needed until the next try is due. An answer lives for
// min_ttl at most if it speaks of the request or of haste rather than of the robots.txt;
// where a text is known it counts as a failure, and so is no last answer.
func (o Options) Judge(rec store.Record, now time.Time) Judgement {
	now = now.Round(0) // wall time: a suspended machine ages lifetimes too
	passed := func(t time.Time) bool { return !now.Before(t) }
	outcome, allow := o.meaning(rec.Status)
	if outcome == Rules && rec.SHA256 == "" {
		outcome = None // the status meant something else then, and its text was not read
	}
	answered := outcome != None && outcome != Unreachable
	expires := o.expiry(rec, outcome)
	// A record from the future was written by a clock that was wrong, and so
	// was a next try that is further away than any wait.
	fresh := answered && passed(rec.FetchedAt) && !passed(expires)
	held := passed(rec.NextTry.Add(-o.RetryMax)) && !passed(rec.NextTry)

	p := Policy{
		Outcome: outcome, AllowAll: allow,
		Status: rec.Status, Cause: rec.Cause,
		FetchedAt: rec.FetchedAt, ExpiresAt: expires,
		UnreachableSince: rec.FailedSince, NextTry: rec.NextTry,
	}
	need, until := NeedNothing, time.Time{}
	switch {
	case fresh:
		switch refresh := expires.Add(-expires.Sub(rec.FetchedAt) / 4); {
		case !passed(refresh):
			until = refresh
		case !held:
			need = NeedRefresh
		}
	case rec.FailedSince.IsZero():
		// Either all that is known is over, or the operator now calls the last
		// answer a failure.
		if outcome != Unreachable {
			p.Outcome = None
		}
		p.AllowAll, need = false, NeedFetch
	default:
		p.Status = rec.FailedStatus
		if !passed(rec.FailedSince) {
			p.UnreachableSince = now
		}
		p.Outcome, need = o.failing(now.Sub(p.UnreachableSince), outcome == Rules)
		p.AllowAll = p.Outcome == UnreachableExpired
		if p.Outcome == Rules {
			p.Status = rec.Status
		}
		if held {
			need = NeedNothing
		}
	}
	if p.Outcome == Rules {
		p.Text, p.SHA256 = rec.Body, rec.SHA256
	}
	return Judgement{Policy: p, Need: need, Until: until}
}

// failing is what a robots.txt comes to that has been unreachable for so long
// and whose last answer is over, and the fetch to make once one is due.
func (o Options) failing(so time.Duration, isText bool) (Outcome, Need) {
	switch {
	case isText && so >= o.DisallowFor:
		return Rules, NeedRefresh
	case !isText && so >= o.AllowAfter:
		return UnreachableExpired, NeedRefresh
	}
	return Unreachable, NeedFetch
}

// expiry is the end of the last answer's lifetime, which a max_ttl that was
// lowered since then shortens too.
func (o Options) expiry(rec store.Record, outcome Outcome) time.Time {
	longest := o.MaxTTL
	if outcome == Unavailable && ofRequest(rec.Status) {
		longest = o.MinTTL
	}
	if latest := rec.FetchedAt.Add(longest); latest.Before(rec.ExpiresAt) {
		return latest
	}
	return rec.ExpiresAt
}

// ofRequest reports whether a status speaks of the request or of haste, and so says
// nothing of the robots.txt.
func ofRequest(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestURITooLong,
		http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge:
		return true
	}
	return false
}

// weigh makes an answer that speaks of the request a failure where a text is known:
// that is not given up for it.
func (o Options) weigh(got found, known store.Record) found {
	if got.outcome == Unavailable && ofRequest(got.status) && known.SHA256 != "" {
		return got.failed(statusError(got.status))
	}
	return got
}

// meaning is what an HTTP status that ended a fetch says, and for the outcomes
// that allow or disallow everything, whether they allow it.
func (o Options) meaning(status int) (outcome Outcome, allow bool) {
	switch o.Statuses[status] {
	case MeansAllow:
		return Status, true
	case MeansDisallow:
		return Status, false
	case MeansUnreachable:
		return Unreachable, false
	}
	switch {
	case status == 0:
		return None, false
	case status/100 == 2:
		return Rules, false
	case status/100 == 3, status/100 == 4:
		return Unavailable, true // a redirect that ends a fetch leads nowhere
	case status/100 == 5 && o.Soft5xx:
		return Unavailable, true // the fetch has seen that it is one of those sites
	}
	return Unreachable, false
}

// learn is the record after a fetch that ended now. random, in [0,1), spreads
// the next try of a failed one.
func (o Options) learn(rec store.Record, got found, now time.Time, random float64) store.Record {
	now = now.UTC().Truncate(time.Millisecond) // wall time, as stores keep it
	if got.answered {
		return store.Record{
			Origin: rec.Origin, Status: got.status, Body: got.body, SHA256: got.sha256, UserAgent: got.userAgent,
			FetchedAt: now, ExpiresAt: now.Add(max(got.lifetime, time.Millisecond)), Cause: got.cause,
		}
	}
	if rec.FailedSince.IsZero() || rec.FailedSince.After(now) {
		rec.FailedSince = now
	}
	if rec.FetchedAt.After(now) {
		rec.ExpiresAt = rec.FetchedAt // by a clock that was wrong: never fresh again, but a copy still
	}
	rec.Failures++
	rec.FailedStatus, rec.Cause = got.status, got.cause
	rec.NextTry = now.Add(o.backoff(rec.Failures, random)).Truncate(time.Millisecond)
	return rec
}

// backoff is the wait after so many failures in a row: it doubles with each of
// them, and is spread so that sites that failed together are not tried
// together.
func (o Options) backoff(failures int, random float64) time.Duration {
	longest := math.Ldexp(float64(o.RetryMin), failures-1)
	longest = min(longest, float64(o.RetryMax))
	shortest := max(float64(o.RetryMin), longest/2)
	return time.Duration(shortest + random*(longest-shortest))
}
