package policy

import (
	"math"
	"time"

	"robotsproxy/robots/fetch"
	"robotsproxy/robots/store"
)

// A Need is the fetch that a policy asks for.
type Need uint8

const (
	NeedNothing Need = iota
	NeedRefresh      // a fetch in the background
	NeedFetch        // a fetch that requests wait for: what is known allows nothing
)

// An Assessment is the policy that follows from a record at one time.
type Assessment struct {
	Policy Policy // without Origin, File and TDMRep
	Need   Need
	Until  time.Time // it holds from Policy.FetchedAt until then; zero: it holds at that one time only
}

// Assess says what the record's origin allows now: RFC 9309 2.3.1 and 2.4. It holds every
// rule on time and failure, and has no side effects. The options must be those for the kind
// of the record (see [Options.For]).
//
//	last answer            failing for       now
//	fresh                  any time          the answer counts; refresh from RefreshAt on
//	none, or expired       not at all        nothing is known: fetch
//	none, or expired       less than below   unreachable; fetch
//	a text, expired        disallow_for      the text still rules; refresh
//	no text                allow_after       everything is allowed; refresh
//
// Between failures nothing is needed until the next try is due. An answer about the request
// or its rate, rather than about robots.txt, lives for min_ttl at most. If a text is known,
// such an answer counts as a failure, and so never becomes the last answer.
func (o Options) Assess(rec store.Record, now time.Time) Assessment {
	now = now.Round(0) // wall time: a suspended machine ages lifetimes too
	passed := func(t time.Time) bool { return !now.Before(t) }
	meaning := o.Meaning(rec.Status)
	outcome, allow := OutcomeOf(meaning)
	if rec.Status == 0 || outcome == Rules && rec.SHA256 == "" {
		outcome = None // there is no answer, or its status had another meaning then and the text was not read
	}
	answered := outcome != None && outcome != Unreachable
	expires := o.expiry(rec, meaning)
	// A record from the future comes from a clock that was wrong, and so does a next
	// try that is further away than the longest wait.
	fresh := answered && passed(rec.FetchedAt) && !passed(expires)
	backingOff := passed(rec.NextTry.Add(-o.RetryMax)) && !passed(rec.NextTry)

	p := Policy{
		Outcome: outcome, AllowAll: allow,
		Status: rec.Status, Cause: rec.Cause, CDN: rec.CDN,
		FetchedAt: rec.FetchedAt, ExpiresAt: expires,
		UnreachableSince: rec.FailedSince, NextTry: rec.NextTry,
	}
	need, until := NeedNothing, time.Time{}
	switch {
	case fresh:
		switch refresh := refreshAt(rec.FetchedAt, expires); {
		case !passed(refresh):
			until = refresh
		case !backingOff:
			need = NeedRefresh
		}
	case rec.FailedSince.IsZero():
		// Either all that is known has expired, or the operator now calls the last
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
		p.Outcome, need = o.unreachableFor(now.Sub(p.UnreachableSince), outcome == Rules)
		p.AllowAll = p.Outcome == UnreachableExpired
		if p.Outcome == Rules {
			p.Status = rec.Status
		}
		if backingOff {
			need = NeedNothing
		}
	}
	if p.Outcome == Rules {
		p.Text, p.SHA256 = rec.Body, rec.SHA256
	}
	return Assessment{Policy: p, Need: need, Until: until}
}

// unreachableFor is the outcome of a robots.txt that has been unreachable for length and
// whose last answer has expired, and the fetch to make once the next try is due.
func (o Options) unreachableFor(length time.Duration, hasText bool) (Outcome, Need) {
	switch {
	case hasText && length >= o.DisallowFor:
		return Rules, NeedRefresh
	case !hasText && length >= o.AllowAfter:
		return UnreachableExpired, NeedRefresh
	}
	return Unreachable, NeedFetch
}

// expiry is the end of the last answer's lifetime. A max_ttl that has been lowered since
// then shortens it.
func (o Options) expiry(rec store.Record, meaning fetch.Meaning) time.Time {
	maxLifetime := o.MaxTTL
	if meaning == fetch.MeansBadRequest {
		maxLifetime = o.MinTTL
	}
	if latest := rec.FetchedAt.Add(maxLifetime); latest.Before(rec.ExpiresAt) {
		return latest
	}
	return rec.ExpiresAt
}

// OutcomeOf is the outcome of a fetch's meaning and, for the outcomes that allow or disallow
// everything, whether it allows.
func OutcomeOf(meaning fetch.Meaning) (outcome Outcome, allow bool) {
	switch meaning {
	case fetch.MeansFile:
		return Rules, false
	case fetch.MeansNoFile, fetch.MeansBadRequest:
		return Unavailable, true
	case fetch.MeansAllow:
		return Status, true
	case fetch.MeansDisallow:
		return Status, false
	}
	return Unreachable, false
}

// Update returns the record after a fetch that ended now. random, in [0,1), spreads the
// next try after a failure.
func (o Options) Update(rec store.Record, got fetch.Result, now time.Time, random float64) store.Record {
	now = now.UTC().Truncate(time.Millisecond) // wall time, as stores keep it
	if got.Meaning != fetch.MeansUnreachable {
		return store.Record{
			Origin: rec.Origin, Status: got.Status, Body: got.Body, SHA256: got.SHA256, UserAgent: got.UserAgent,
			FetchedAt: now, ExpiresAt: now.Add(max(got.Lifetime, time.Millisecond)), Cause: got.Cause, CDN: got.CDN,
		}
	}
	if rec.FailedSince.IsZero() || rec.FailedSince.After(now) {
		rec.FailedSince = now
	}
	if rec.FetchedAt.After(now) {
		rec.ExpiresAt = rec.FetchedAt // by a wrong clock: never fresh again, but still a copy
	}
	rec.Failures++
	rec.FailedStatus, rec.Cause, rec.CDN = got.Status, got.Cause, got.CDN
	rec.NextTry = now.Add(o.backoff(rec.Failures, random)).Truncate(time.Millisecond)
	return rec
}

// backoff is the wait after so many failures in a row. It doubles with each of them, and
// random spreads it, so that sites that failed together are not tried together.
func (o Options) backoff(failures int, random float64) time.Duration {
	upper := math.Ldexp(float64(o.RetryMin), failures-1)
	upper = min(upper, float64(o.RetryMax))
	lower := max(float64(o.RetryMin), upper/2)
	return time.Duration(lower + random*(upper-lower))
}
