package gate

import (
	"cmp"
	"fmt"
	"time"

	"robotsproxy/proxy/decision"
	"robotsproxy/robots"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/preference"
)

// Why explains the verdict in one line with its details, such as the rule. The line does not
// have the URL.
func (v *Verdict) Why() string {
	switch v.Reason {
	case decision.ByRule:
		return fmt.Sprintf("%q on line %d of %s, in the group of %s%s", v.Rule, v.Line, v.RobotsURL, v.Group, v.servedForm())
	case decision.NoRule:
		if v.Line > 0 {
			return fmt.Sprintf("no rule of the group of %s in %s matches; its %q on line %d stands for none", v.Group, v.RobotsURL, v.Rule, v.Line)
		}
		return fmt.Sprintf("no rule of the group of %s in %s matches", v.Group, v.RobotsURL)
	case decision.NoGroup:
		return fmt.Sprintf("%s has no group for %s", v.RobotsURL, v.Agent)
	case decision.TooCostly:
		return fmt.Sprintf("to match this URL with the many wildcards of %s, in the group of %s, would take too long, so it is disallowed; a shorter URL takes less", cmp.Or(v.RobotsURL, v.ownFile()), v.Group)
	case decision.RobotsTxt:
		return "robots.txt itself may always be fetched"
	case decision.Unavailable:
		return fmt.Sprintf("%s answers %d: there are no rules", v.RobotsURL, v.RobotsStatus)
	case decision.Unreachable:
		cause := ""
		if v.Cause != "" {
			cause = fmt.Sprintf(" (%s)", v.Cause)
		}
		return fmt.Sprintf("%s cannot be had%s, so everything is disallowed until it can", v.RobotsURL, cause)
	case decision.UnreachableExpired:
		return fmt.Sprintf("%s has not been reachable for so long that nothing is disallowed any more", v.RobotsURL)
	case decision.Status:
		return fmt.Sprintf("%s answers %d, for which the configuration says so", v.RobotsURL, v.RobotsStatus)
	case decision.OpaqueTunnel:
		if v.preferred == preference.Response {
			return "what is in this tunnel is not read, so what responses say about their use cannot be heeded"
		}
		file := cmp.Or(v.RobotsURL, v.ownFile())
		if v.extentOfTDMRep() == robots.Part {
			file += ", or the site's " + policy.TDMRep.Path() + ","
		}
		return fmt.Sprintf("%s allows only a part of the site to %s, and what is in this tunnel is not read", file, v.Agent)
	case decision.ByPreference:
		why := v.WhyPreference() + v.servedForm()
		if v.ownFile() != "" {
			why += fmt.Sprintf(", the operator's own robots.txt for %s%s", v.Origin, v.override.Grounds())
		}
		return why
	case decision.Overridden:
		if v.Rule != "" {
			return fmt.Sprintf("%q on line %d of %s, the operator's own robots.txt for %s%s%s", v.Rule, v.Line, v.ownFile(), v.Origin, v.servedForm(), v.override.Grounds())
		}
		return fmt.Sprintf("the operator's own word on %s%s", v.Origin, v.override.Grounds())
	case decision.Exempt:
		return fmt.Sprintf("the mode of identity %s is off", v.Identity)
	}
	return "it was not judged"
}

// RetryAt returns when a refusal may end, because the file is fetched again that could not be
// had; zero if it is not refused for that.
func (v *Verdict) RetryAt() time.Time {
	switch {
	case v.Reason == decision.Unreachable:
		return v.NextTry
	case v.Reason == decision.ByPreference && v.preferred == preference.TDMRep && v.tdmrep != nil && v.tdmrep.Outcome != policy.Rules:
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
