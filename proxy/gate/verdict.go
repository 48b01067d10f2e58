package gate

import (
	"cmp"
	"fmt"
	"time"

	"robotsproxy/proxy/identity"
	"robotsproxy/robots"
)

// Verdict says whether a bot may have a URL and why. Its JSON is the one form
// in which `check --json`, the API and a refused client see it. The zero value
// refuses.
type Verdict struct {
	URL      string `json:"url"` // without credentials
	Origin   string `json:"origin"`
	Agent    string `json:"agent"`              // the token that chose the group, else the first
	Identity string `json:"identity,omitempty"` // by its name in the configuration
	Judgment `json:"verdict"`
	Reason   `json:"reason"`

	// The rule that decided or, where none did, the group's empty one.
	Rule  string `json:"rule,omitempty"`
	Line  int    `json:"line,omitempty"` // of the rule, from 1
	Group string `json:"group,omitempty"`

	RobotsURL    string    `json:"robots_url,omitempty"`
	RobotsStatus int       `json:"robots_status,omitempty"`
	RobotsSHA256 string    `json:"robots_sha256,omitempty"`
	FetchedAt    time.Time `json:"fetched_at,omitzero"`
	ExpiresAt    time.Time `json:"expires_at,omitzero"`
	CrawlDelay   *float64  `json:"crawl_delay,omitempty"` // in seconds
	Sitemaps     []string  `json:"sitemaps,omitempty"`

	// Cause says why the robots.txt is unreachable, NextTry when it is asked
	// for again.
	Cause   string    `json:"-"`
	NextTry time.Time `json:"-"`

	mode   identity.Mode
	at     time.Duration // the time of the day in UTC when it was judged
	delay  time.Duration // that the group states
	group  *robots.Group // nil if none rules
	file   *robots.File  // whose rules decided; nil if none had a part in it
	strict bool          // the path is judged also as servers read it
	served string        // the path as servers read it, where that decided
	source string        // the operator's file that was read instead of the live one
}

// Judgment is the verdict in one word.
type Judgment string

// The two judgments. Anything else refuses.
const (
	Allowed    Judgment = "allowed"
	Disallowed Judgment = "disallowed"
)

// Reason says what a verdict rests on.
type Reason string

// The reasons that there are.
const (
	ByRule             Reason = "rule"                // a rule decided
	NoRule             Reason = "no_rule"             // a group rules the agent, none of its rules matches
	NoGroup            Reason = "no_group"            // no group for the agent, nor for everyone
	TooCostly          Reason = "too_costly"          // to find the rule that decides would take too long
	RobotsTxt          Reason = "robots_txt"          // the URL is /robots.txt itself
	Unavailable        Reason = "unavailable"         // there is no robots.txt
	Unreachable        Reason = "unreachable"         // the robots.txt cannot be had now
	UnreachableExpired Reason = "unreachable_expired" // nor could it for so long that nothing is refused any more
	Status             Reason = "status"              // the operator's own word on that HTTP status
	OpaqueTunnel       Reason = "tunnel"              // what is in the tunnel cannot be read, and only a part of the site is allowed
	Overridden         Reason = "override"            // the operator's own word on the origin
	Exempt             Reason = "exempt"              // the identity's mode is off
)

// judgments are those that each reason may be given for.
var judgments = map[Reason][]Judgment{
	ByRule:             {Allowed, Disallowed},
	NoRule:             {Allowed},
	NoGroup:            {Allowed},
	TooCostly:          {Disallowed},
	RobotsTxt:          {Allowed},
	Unavailable:        {Allowed},
	Unreachable:        {Disallowed},
	UnreachableExpired: {Allowed},
	Status:             {Allowed, Disallowed},
	OpaqueTunnel:       {Allowed, Disallowed},
	Overridden:         {Allowed, Disallowed},
	Exempt:             {Allowed},
}

// Admits reports whether a request so judged is let through: it is allowed, or
// its identity only reports what would be refused.
func (v *Verdict) Admits() bool {
	return v.Judgment == Allowed || v.Judgment == Disallowed && v.mode == identity.Report
}

// Why explains the verdict in one line for people, without the URL.
func (v *Verdict) Why() string {
	switch v.Reason {
	case ByRule:
		return fmt.Sprintf("%q on line %d of %s, in the group of %s%s", v.Rule, v.Line, v.RobotsURL, v.Group, v.whySo())
	case NoRule:
		if v.Line > 0 {
			return fmt.Sprintf("no rule of the group of %s in %s matches; its %q on line %d stands for none", v.Group, v.RobotsURL, v.Rule, v.Line)
		}
		return fmt.Sprintf("no rule of the group of %s in %s matches", v.Group, v.RobotsURL)
	case NoGroup:
		return fmt.Sprintf("%s has no group for %s", v.RobotsURL, v.Agent)
	case TooCostly:
		return fmt.Sprintf("to match this URL with the many wildcards of %s, in the group of %s, would take too long, so it is disallowed; a shorter URL takes less", cmp.Or(v.RobotsURL, v.source), v.Group)
	case RobotsTxt:
		return "robots.txt itself may always be fetched"
	case Unavailable:
		return fmt.Sprintf("%s answers %d: there are no rules", v.RobotsURL, v.RobotsStatus)
	case Unreachable:
		cause := ""
		if v.Cause != "" {
			cause = fmt.Sprintf(" (%s)", v.Cause)
		}
		return fmt.Sprintf("%s cannot be had%s, so everything is disallowed until it can", v.RobotsURL, cause)
	case UnreachableExpired:
		return fmt.Sprintf("%s has not been reachable for so long that nothing is disallowed any more", v.RobotsURL)
	case Status:
		return fmt.Sprintf("%s answers %d, for which the configuration says so", v.RobotsURL, v.RobotsStatus)
	case OpaqueTunnel:
		return fmt.Sprintf("%s allows only a part of the site to %s, and what is in this tunnel is not read", v.RobotsURL, v.Agent)
	case Overridden:
		if v.Rule != "" {
			return fmt.Sprintf("%q on line %d of %s, the operator's own robots.txt for %s%s", v.Rule, v.Line, v.source, v.Origin, v.whySo())
		}
		return fmt.Sprintf("the operator's own word on %s", v.Origin)
	case Exempt:
		return fmt.Sprintf("the mode of identity %s is off", v.Identity)
	}
	return "it was not judged"
}

// whySo says which form of the path the rule matches, where that is not the one that
// RFC 9309 compares.
func (v *Verdict) whySo() string {
	if v.served == "" {
		return ""
	}
	return fmt.Sprintf(", for the path as servers read it, %s", v.served)
}
