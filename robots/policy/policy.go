// Package policy says what an origin allows: a [Policy] follows from the record of the last
// fetches, the operator's [Options] and the time, and from nothing else. [Options.Assess] has
// the whole table of RFC 9309 2.3.1 and 2.4, and [Options.Update] makes the next record after
// a fetch. The package does no I/O and reads no clock.
package policy

import (
	"time"

	"robotsproxy/robots"
	"robotsproxy/robots/tdmrep"
)

// An Outcome is the result of looking for an origin's robots.txt. Each but Rules and None
// is also the reason of the verdicts that follow from it.
type Outcome string

const (
	None               Outcome = ""                    // nothing is known: disallowed
	Rules              Outcome = "rules"               // its rules decide
	Unavailable        Outcome = "unavailable"         // there is none: allowed
	Unreachable        Outcome = "unreachable"         // it cannot be fetched: disallowed
	UnreachableExpired Outcome = "unreachable_expired" // it has been unreachable for too long: allowed
	Status             Outcome = "status"              // the operator has given its HTTP status a meaning
)

// A Policy is what an origin allows. It is never changed. The zero Policy allows nothing.
//
// There is one for each [Kind] of file. That of a tdmrep.json is about mining alone, and what
// it allows is what is not reserved; read "tdmrep.json" for "robots.txt" below.
type Policy struct {
	Origin  robots.Origin
	Outcome Outcome
	// AllowAll says, for every outcome but Rules, whether everything is allowed or
	// nothing is. With Rules it is false, and File or TDMRep decides.
	AllowAll bool
	File     *robots.File // nil unless the outcome is Rules
	TDMRep   *tdmrep.File // of the policy of a tdmrep.json, in place of File
	Text     []byte       // the text that File or TDMRep was parsed from
	SHA256   string       // of Text, in hex

	// Status is the HTTP status of the last answer or, while robots.txt is
	// unreachable, of the last failure; 0: no response.
	Status int
	Cause  string // why the last fetch brought no text, for people; may be empty

	CDN string // the network by which the origin last answered, whatever the outcome: fetch.Cloudflare; "": none that is known

	FetchedAt        time.Time // of the last answer; zero: there has been none
	ExpiresAt        time.Time
	UnreachableSince time.Time // the first failed fetch since the last answer; zero: none has failed
	NextTry          time.Time // when a fetch is tried again after a failure
}

// RefreshAt is when three quarters of the answer's lifetime have passed. From then on, a
// request starts a fetch in the background, so that a fault that ends before ExpiresAt never
// shows.
func (p *Policy) RefreshAt() time.Time { return refreshAt(p.FetchedAt, p.ExpiresAt) }

func refreshAt(fetched, expires time.Time) time.Time {
	return expires.Add(-expires.Sub(fetched) / 4)
}
