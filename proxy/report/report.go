// Package report turns counts into a report for people who must show that their bots comply:
// how much was asked, refused and paced in a period, and why. [Read] makes a [Report] of what a
// store has kept, or a [Builder] of any counts. The command report and the admin server show
// it, as text, JSON and HTML.
package report

import (
	"slices"
	"time"

	"robotsproxy/robots/store/counts"
)

// A Report is what was decided in a period. Its JSON is that of `report --json`: the lists are
// whole, and never null. An origin "" stands for the sites that were not told apart on days
// with too many different decisions.
type Report struct {
	From     counts.Day `json:"from"`
	Until    counts.Day `json:"until"` // included
	Origin   string     `json:"origin,omitempty"`
	Identity string     `json:"identity,omitempty"`

	Totals      Totals        `json:"totals"`
	Days        []Day         `json:"days"`       // all of the period, in order
	Identities  []Identity    `json:"identities"` // those with most requests first
	Origins     []Origin      `json:"origins"`    // those with most requests first
	Refusals    []Refusal     `json:"refusals"`   // the most frequent first
	Unreachable []Unreachable `json:"unreachable"`
	Preferences []Preference  `json:"preferences"`
	Overrides   []Override    `json:"overrides"`
	Changes     []Change      `json:"changes"` // in their order

	// Unassigned is how many requests are left out because it was not kept of which origin
	// they are, where the report is about one.
	Unassigned int64 `json:"unassigned"`
}

// Totals are counts of requests. Requests is the sum of Allowed, WouldBeRefused, Refused and
// RefusedForPace.
type Totals struct {
	Requests       int64   `json:"requests"`
	Allowed        int64   `json:"allowed"`
	WouldBeRefused int64   `json:"would_be_refused"` // let through, by mode report or preferences.mode report
	Refused        int64   `json:"refused"`
	RefusedForPace int64   `json:"refused_for_pace"` // their turn would have come too late
	Paced          int64   `json:"paced"`            // that waited for their turn
	PacedSeconds   float64 `json:"paced_seconds"`    // how long they waited, all together

	// Of those let through, how many the sites, or the networks before them, turned away
	// although their robots.txt allow them.
	Challenged int64 `json:"challenged"`  // they wanted to see a browser, or a person
	TurnedAway int64 `json:"turned_away"` // 401, 403 or 429
	Priced     int64 `json:"priced"`      // 402: they wanted to be paid
}

// edge is how many were turned away, in whichever way.
func (t Totals) edge() int64 { return t.Challenged + t.TurnedAway + t.Priced }

// A Day is a day in UTC.
type Day struct {
	Day counts.Day `json:"day"`
	Ran bool       `json:"proxy_ran"` // a proxy ran on that day
	Totals
}

// An Identity is a bot, by its name in the configuration.
type Identity struct {
	Identity string `json:"identity"`
	Totals
}

// An Origin is a site.
type Origin struct {
	Origin string `json:"origin"`
	Totals
}

// A Refusal is why requests to an origin were refused, or would have been.
type Refusal struct {
	Origin         string `json:"origin"`
	Reason         string `json:"reason"` // that of the verdict, or "pace"
	Rule           string `json:"rule,omitempty"`
	Preference     string `json:"preference,omitempty"`
	Refused        int64  `json:"refused"`
	WouldBeRefused int64  `json:"would_be_refused"`
}

// ForPace is the reason of a [Refusal] of requests whose turn would have come too late.
const ForPace = "pace"

// An Unreachable is an origin whose robots.txt could not be had.
type Unreachable struct {
	Origin   string   `json:"origin"`
	Requests int64    `json:"requests"`
	Days     int      `json:"days"`   // on how many
	Causes   []string `json:"causes"` // sorted
}

// A Preference is what a site says that refuses the declared use.
type Preference struct {
	Origin         string `json:"origin"`
	Preference     string `json:"preference"`
	Refused        int64  `json:"refused"`
	WouldBeRefused int64  `json:"would_be_refused"`
}

// An Override is an origin for which the operator's override decided.
type Override struct {
	Origin   string `json:"origin"`
	Verdict  string `json:"verdict"`
	Reason   string `json:"override_reason,omitempty"`
	Requests int64  `json:"requests"`
}

// A Change is an answer to a request for a robots.txt that the origin had not given before.
type Change struct {
	Origin string    `json:"origin"`
	Time   time.Time `json:"time"` // when it was first seen
	Status int       `json:"status"`
	SHA256 string    `json:"robots_sha256,omitempty"`
}

// Empty reports whether no proxy ran in the period, so that there is nothing to report.
func (r *Report) Empty() bool {
	return !slices.ContainsFunc(r.Days, func(d Day) bool { return d.Ran })
}

// DaysWithout returns the days on which no proxy ran, as runs of days that follow each other.
func (r *Report) DaysWithout() (runs []counts.Period) {
	for _, d := range r.Days {
		switch last := len(runs) - 1; {
		case d.Ran:
		case last >= 0 && runs[last].Until == d.Day-1:
			runs[last].Until = d.Day
		default:
			runs = append(runs, counts.Period{From: d.Day, Until: d.Day})
		}
	}
	return runs
}
