package decision

import (
	"cmp"
	"maps"
	"slices"
)

// Judgment is a verdict in one word.
type Judgment string

// The two judgments. Any other value refuses.
const (
	Allowed    Judgment = "allowed"
	Disallowed Judgment = "disallowed"
)

// Reason says on what a verdict is based.
type Reason string

// All reasons.
const (
	ByRule             Reason = "rule"                // a rule decided
	NoRule             Reason = "no_rule"             // the agent has a group, and no rule of it matches
	NoGroup            Reason = "no_group"            // there is no group for the agent, nor for everyone
	TooCostly          Reason = "too_costly"          // finding the rule that decides would take too long
	RobotsTxt          Reason = "robots_txt"          // the URL is /robots.txt itself
	Unavailable        Reason = "unavailable"         // there is no robots.txt
	Unreachable        Reason = "unreachable"         // the robots.txt cannot be fetched now
	UnreachableExpired Reason = "unreachable_expired" // it has been unreachable for so long that nothing is refused any more
	Status             Reason = "status"              // the configuration says what this HTTP status means
	OpaqueTunnel       Reason = "tunnel"              // the tunnel is not read, and only a part of the site is allowed
	ByPreference       Reason = "preference"          // the site refuses the declared use
	Overridden         Reason = "override"            // the configuration says what holds for the origin
	Exempt             Reason = "exempt"              // the identity's mode is off
)

// reasons has, for each reason, the judgments that it may be given for, and the words for it:
// a phrase where there is little room, and a sentence. Every page
// and command takes its words from here.
var reasons = map[Reason]struct {
	judgments        []Judgment
	phrase, sentence string
}{
	ByRule: {[]Judgment{Allowed, Disallowed}, "a rule decides",
		"The longest rule of its group that matches the path decides; of two as long, Allow."},
	NoRule: {[]Judgment{Allowed}, "no rule matches",
		"The group for this bot has no rule that matches, so the URL is allowed."},
	NoGroup: {[]Judgment{Allowed}, "no group for this bot",
		"The robots.txt has a group neither for this bot nor for everyone (*), so the URL is allowed."},
	TooCostly: {[]Judgment{Disallowed}, "too long to match",
		"Matching this URL with the many wildcards of the robots.txt would take too long, so it is disallowed."},
	RobotsTxt: {[]Judgment{Allowed}, "robots.txt itself",
		"A robots.txt may always be fetched."},
	Unavailable: {[]Judgment{Allowed}, "no robots.txt there",
		"The site has no robots.txt (a 4xx answer or too many redirects), so there are no rules."},
	Unreachable: {[]Judgment{Disallowed}, "its robots.txt cannot be had",
		"The robots.txt cannot be had, so everything is disallowed until it can."},
	UnreachableExpired: {[]Judgment{Allowed}, "unreachable for too long to refuse",
		"The robots.txt could not be had for so long that nothing is disallowed any more."},
	Status: {[]Judgment{Allowed, Disallowed}, "configured for that status of its robots.txt",
		"The configuration says what this status of the robots.txt means (robots.statuses)."},
	OpaqueTunnel: {[]Judgment{Allowed, Disallowed}, "a tunnel that is not read, to a site allowed only in part",
		"What is in the tunnel is not read, and only a part of the site is allowed."},
	ByPreference: {[]Judgment{Disallowed}, "the site refuses what the bot does with pages",
		"The rules allow the URL, but the site refuses a purpose that the identity declares (purposes)."},
	Overridden: {[]Judgment{Allowed, Disallowed}, "the configuration's override",
		"The configuration says what holds for this origin (overrides), and comes before the site."},
	Exempt: {[]Judgment{Allowed}, "the identity's mode is off",
		"The identity's mode is off, so robots.txt is not asked."},
}

// Reasons returns all reasons, sorted.
func Reasons() []Reason { return slices.Sorted(maps.Keys(reasons)) }

// Phrase returns the reason in a few words, to stand after what it explains.
func (r Reason) Phrase() string { return cmp.Or(reasons[r].phrase, "not judged") }

// Sentence explains the reason in one sentence.
func (r Reason) Sentence() string { return cmp.Or(reasons[r].sentence, "It was not judged.") }
