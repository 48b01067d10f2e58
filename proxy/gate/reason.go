package gate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"robotsproxy/robots"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/preference"
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
// a phrase where there is little room, and a sentence. See also [Verdict.Why]. Every page
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

// Why explains the verdict in one line with its details, such as the rule. The line does not
// have the URL.
func (v *Verdict) Why() string {
	switch v.Reason {
	case ByRule:
		return fmt.Sprintf("%q on line %d of %s, in the group of %s%s", v.Rule, v.Line, v.RobotsURL, v.Group, v.servedForm())
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
		if v.preferred == preference.Response {
			return "what is in this tunnel is not read, so what responses say about their use cannot be heeded"
		}
		file := cmp.Or(v.RobotsURL, v.source)
		if v.extentOfTDMRep() == robots.Part {
			file += ", or the site's " + policy.TDMRep.Path() + ","
		}
		return fmt.Sprintf("%s allows only a part of the site to %s, and what is in this tunnel is not read", file, v.Agent)
	case ByPreference:
		why := v.WhyPreference() + v.servedForm()
		if v.source != "" {
			why += fmt.Sprintf(", the operator's own robots.txt for %s%s", v.Origin, v.overrideGrounds())
		}
		return why
	case Overridden:
		if v.Rule != "" {
			return fmt.Sprintf("%q on line %d of %s, the operator's own robots.txt for %s%s%s", v.Rule, v.Line, v.source, v.Origin, v.servedForm(), v.overrideGrounds())
		}
		return fmt.Sprintf("the operator's own word on %s%s", v.Origin, v.overrideGrounds())
	case Exempt:
		return fmt.Sprintf("the mode of identity %s is off", v.Identity)
	}
	return "it was not judged"
}

// RetryAt returns when a refusal may end, because the file is fetched again that could not be
// had; zero if it is not refused for that.
func (v *Verdict) RetryAt() time.Time {
	switch {
	case v.Reason == Unreachable:
		return v.NextTry
	case v.Reason == ByPreference && v.preferred == preference.TDMRep && v.tdmrep != nil && v.tdmrep.Outcome != policy.Rules:
		return v.tdmrep.NextTry
	}
	return time.Time{}
}

// WhyPreference says in one line where the site says its preference; "" if there is none.
func (v *Verdict) WhyPreference() string {
	switch {
	case v.Preference == "":
		return ""
	case v.preferred == preference.Response:
		return v.Preference + " of " + v.URL
	case v.PreferenceLine > 0:
		return fmt.Sprintf("%s on line %d of %s", v.Preference, v.PreferenceLine, v.PreferenceURL)
	case v.preferred == preference.TDMRep && v.tdmrep != nil && v.tdmrep.Outcome != policy.Rules:
		cause := ""
		if v.Cause != "" {
			cause = fmt.Sprintf(" (%s)", v.Cause)
		}
		return fmt.Sprintf("%s cannot be had%s, so the right to mine the site is taken for reserved until it can", v.PreferenceURL, cause)
	}
	return fmt.Sprintf("to match this URL with the many wildcards of the %s lines of %s would take too long, so they count as %s; a shorter URL takes less",
		v.preferred, v.PreferenceURL, v.Preference)
}

// HeldWhy says in a few words what holds allowed requests to the origin, and until when; "" if
// nothing is known to.
func (v *Verdict) HeldWhy() string {
	if v.Hold == nil {
		return ""
	}
	return fmt.Sprintf("until %s (%s)", v.Hold.Until.UTC().Format(time.RFC3339), v.Hold.By.Phrase())
}

// servedForm names the form of the path that the rule matches, if that is not the one that
// RFC 9309 compares.
func (v *Verdict) servedForm() string {
	if v.served == "" {
		return ""
	}
	return fmt.Sprintf(", for the path as servers read it, %s", v.served)
}

// Why says in a few words on what the decision is based: a rule, or a reason.
func (d *Decision) Why() string {
	switch {
	case d.Refused && d.Judgment == Allowed:
		return "its turn would have come after pace.max_wait"
	case d.WouldRefuse && d.PreferenceLine > 0:
		return fmt.Sprintf("%s (line %d)", d.Preference, d.PreferenceLine)
	case d.WouldRefuse:
		return cmp.Or(d.Preference, ByPreference.Phrase())
	case d.Rule != "":
		return fmt.Sprintf("%s (line %d)", d.Rule, d.Line)
	case d.Reason == ByPreference && d.Cause == "":
		return d.Preference
	case cmp.Or(d.Cause, d.OverrideReason) != "":
		return fmt.Sprintf("%s (%s)", d.Reason.Phrase(), cmp.Or(d.Cause, d.OverrideReason))
	}
	return d.Reason.Phrase()
}
