package gate

import (
	"time"

	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/override"
	"robotsproxy/proxy/pace"
	"robotsproxy/robots"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/preference"
	"robotsproxy/robots/urlpath"
)

// Verdict says whether a bot may have a URL, and why. `check --json`, the API and refused
// clients get the same JSON of it. The zero value refuses.
type Verdict struct {
	URL      string            `json:"url"` // without credentials
	Origin   string            `json:"origin"`
	Agent    string            `json:"agent"`              // the token that chose the group, else the first
	Identity string            `json:"identity,omitempty"` // by its name in the configuration
	Judgment decision.Judgment `json:"verdict"`
	Reason   decision.Reason   `json:"reason"`

	// Rule is the rule or the preference that decided or, if none did, the group's empty rule.
	Rule  string `json:"rule,omitempty"`
	Line  int    `json:"line,omitempty"` // of the rule, from 1
	Group string `json:"group,omitempty"`

	// Preference is what the site says that refuses the declared use, as in "content-signal:
	// ai-train=no"; "" if nothing does, or nobody asked. WouldRefuse means that the request is
	// not refused for it, because preferences.mode is report.
	Preference     string `json:"preference,omitempty"`
	PreferenceURL  string `json:"preference_url,omitempty"`  // of the file that says it: robots.txt or tdmrep.json
	PreferenceLine int    `json:"preference_line,omitempty"` // in that file, from 1
	WouldRefuse    bool   `json:"would_refuse,omitempty"`

	RobotsURL    string    `json:"robots_url,omitempty"`
	RobotsStatus int       `json:"robots_status,omitempty"`
	RobotsSHA256 string    `json:"robots_sha256,omitempty"`
	FetchedAt    time.Time `json:"fetched_at,omitzero"`
	ExpiresAt    time.Time `json:"expires_at,omitzero"`
	CrawlDelay   *float64  `json:"crawl_delay,omitempty"` // in seconds
	Sitemaps     []string  `json:"sitemaps,omitempty"`

	// OverrideReason and OverrideBy are those of the override that decided. ExpiresAt is then
	// when the override ends.
	OverrideReason string `json:"override_reason,omitempty"`
	OverrideBy     string `json:"override_by,omitempty"`

	// Hold is what keeps allowed requests from the origin for now; nil if nothing does, or it
	// is not known. Its members are the verdict's in JSON.
	*pace.Hold

	// Cause says why the robots.txt is unreachable, NextTry when it will be fetched again.
	Cause   string    `json:"-"`
	NextTry time.Time `json:"-"`

	mode   identity.Mode
	at     time.Duration // since midnight UTC, when it was judged
	delay  time.Duration // stated by the group
	group  *robots.Group // nil if none applies
	file   *robots.File  // whose rules were read; nil for none
	served string        // the path as servers read it, if that decided
	cdn    string        // the network that serves the origin; "": none, or it was not asked about

	override *override.Override // that decided; nil if none did

	declared  *declaration      // nil if the bot declares no purposes: then nobody asks for preferences
	preferred preference.Source // whose Preference is
	tdmrep    *policy.Policy    // the origin's tdmrep.json, if it was asked for

	robotsTxt bool               // the URL is /robots.txt itself
	strict    bool               // Settings.StrictPaths
	lenient   bool               // preferences.mode is report
	heeded    preference.Sources // whose preferences count
}

// Admits reports whether the request may go on: it is allowed, or its identity is in mode
// report.
func (v *Verdict) Admits() bool {
	return v.Judgment == decision.Allowed || v.Judgment == decision.Disallowed && v.mode == identity.Report
}

// apply judges a path by a policy.
func (v *Verdict) apply(p *policy.Policy, tokens []string, path string) {
	v.RobotsStatus = p.Status
	v.RobotsSHA256 = p.SHA256
	v.FetchedAt, v.ExpiresAt = p.FetchedAt, p.ExpiresAt
	v.Cause, v.NextTry = p.Cause, p.NextTry
	v.cdn = p.CDN

	switch p.Outcome {
	case policy.Rules:
		v.match(p.File, tokens, path)
	case policy.None:
		v.Reason = decision.Unreachable
	default:
		v.Reason = decision.Reason(p.Outcome)
		if p.AllowAll {
			v.Judgment = decision.Allowed
		}
	}
}

// applyOverride judges by an override. Its robots_file is matched like any robots.txt.
func (v *Verdict) applyOverride(o *override.Override, tokens []string, path string) {
	v.override = o
	v.OverrideReason, v.OverrideBy, v.ExpiresAt = o.Reason, o.By, o.Expires.Time()
	file := o.File()
	v.heeded &= ofRobotsTxt // the site is not asked, but the operator's own file is
	if file == nil {
		v.heeded = 0
	}
	switch {
	case o.Verdict == override.Allow, file != nil && v.robotsTxt:
		v.Judgment = decision.Allowed
	case file != nil:
		v.match(file, tokens, path)
	}
	if v.Reason != decision.TooCostly && v.Reason != decision.ByPreference {
		v.Reason = decision.Overridden
	}
	v.RobotsURL = ""
}

// ownFile returns the path of the operator's own robots.txt that replaces the site's; "" if none
// does.
func (v *Verdict) ownFile() string {
	if v.override == nil {
		return ""
	}
	return v.override.RobotsFile
}

// match judges a path by the rules of a file.
func (v *Verdict) match(file *robots.File, tokens []string, path string) {
	v.file = file
	v.Sitemaps = file.Sitemaps()
	group, token := file.Group(tokens)
	if group == nil {
		v.Judgment, v.Reason = decision.Allowed, decision.NoGroup
	} else {
		v.matchGroup(group, token, path)
	}
	if v.Judgment == decision.Allowed && v.declared != nil {
		v.heed(path)
	}
}

// matchGroup judges a path by the rules of the group that token has chosen.
func (v *Verdict) matchGroup(group *robots.Group, token, path string) {
	v.Group = group.Name()
	if token != "*" {
		v.Agent = token
	}
	v.group = group
	if delay, stated := group.Delay(v.at); stated {
		seconds := delay.Seconds()
		v.delay = delay
		v.CrawlDelay = &seconds
	}
	rule, matches := group.Match(path)
	if v.strict && (!matches || rule.Allow) {
		served := urlpath.AsServed(path)
		if stricter, found := group.Match(served); found && !stricter.Allow {
			rule, matches, v.served = stricter, true, served
		}
	}
	switch {
	case !matches:
		v.Judgment, v.Reason = decision.Allowed, decision.NoRule
		rule, _ = group.Blank()
	case rule.Allow:
		v.Judgment, v.Reason = decision.Allowed, decision.ByRule
	case rule.Line == 0:
		v.Reason = decision.TooCostly
	default:
		v.Reason = decision.ByRule
	}
	if rule.Line > 0 {
		v.Rule, v.Line = rule.String(), rule.Line
	}
}
