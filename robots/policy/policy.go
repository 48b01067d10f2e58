// Package policy knows what an origin allows now: it fetches robots.txt, holds
// what it says for its lifetime, and says what counts while it cannot be had.
package policy

import (
	"time"

	"robotsproxy/robots"
)

// An Outcome is what came of looking for an origin's robots.txt. All but Rules
// and None are also the reason of the verdicts that follow from them.
type Outcome string

const (
	None               Outcome = ""                    // nothing is known: disallowed
	Rules              Outcome = "rules"               // its rules decide
	Unavailable        Outcome = "unavailable"         // there is none: allowed
	Unreachable        Outcome = "unreachable"         // it cannot be had: disallowed
	UnreachableExpired Outcome = "unreachable_expired" // it could not be had for too long: allowed
	Status             Outcome = "status"              // the operator's own word on its status
)

// A Policy is what an origin allows. It is never changed. The zero Policy
// allows nothing.
type Policy struct {
	Origin  robots.Origin
	Outcome Outcome
	// AllowAll says what all outcomes but Rules come to: everything is allowed,
	// or nothing is. Under Rules it is false and File decides.
	AllowAll bool
	File     *robots.File // nil unless the outcome is Rules
	Text     []byte       // what File was read from
	SHA256   string       // of Text in hex

	// Status is the HTTP status of the last answer or, while the robots.txt is
	// unreachable, of the last failure; 0: no response.
	Status int
	Cause  string // why the last fetch brought no text, for people; may be empty

	FetchedAt        time.Time // of the last answer; zero: there has been none
	ExpiresAt        time.Time
	UnreachableSince time.Time // the first failed fetch since the last answer; zero: none has failed
	NextTry          time.Time // when a fetch is tried again after a failure
}
