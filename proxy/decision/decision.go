// Package decision defines how the gate's decisions are named, counted and logged. A
// [Decision] describes a request that has ended: its [Judgment], the [Reason] for it and what
// became of the request. The [Recorder] counts it, logs it and passes it to watchers.
package decision

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"robotsproxy/internal/printable"
	"robotsproxy/robots/store/counts"
)

// MaxText bounds, in octets, each text of a Decision that a client or a site wrote. RFC 9110
// 4.1 recommends that servers accept URLs of 8,000 octets.
const MaxText = 8 << 10

// Decision is a request that has ended, as the log, the API and watchers get it. Texts longer
// than 8 KiB are cut and end in "…".
type Decision struct {
	Time         time.Time  `json:"time"` // when it ended
	Client       netip.Addr `json:"client"`
	Door         string     `json:"door,omitempty"` // see [Door.String]
	Identity     string     `json:"identity"`
	Agent        string     `json:"agent"`
	Method       string     `json:"method"`
	URL          string     `json:"url"` // without credentials
	Origin       string     `json:"origin"`
	Judgment     Judgment   `json:"verdict"`
	Reason       Reason     `json:"reason"`
	Refused      bool       `json:"refused"` // also if its turn would have come too late; not in mode report
	Rule         string     `json:"rule,omitempty"`
	Line         int        `json:"line,omitempty"`
	Cause        string     `json:"cause,omitempty"` // of the reason Unreachable
	RobotsSHA256 string     `json:"robots_sha256,omitempty"`
	Signed       string     `json:"signed,omitempty"` // the first 8 characters of the key's ID; "": the proxy did not sign it
	Status       int        `json:"status"`           // as the client got it, or would have got it by CONNECT; 0: the client left before
	Bytes        int64      `json:"bytes"`
	DurationMS   float64    `json:"duration_ms"`
	WaitMS       float64    `json:"wait_ms"`
	PacedMS      int64      `json:"paced_ms,omitempty"` // of WaitMS, whole milliseconds for its turn
	PacedBy      string     `json:"paced_by,omitempty"` // what it waited for then, as the pacer names it
	Error        string     `json:"error,omitempty"`    // why the origin gave no response, or only a part of it

	OverrideReason string `json:"override_reason,omitempty"` // of the override that decided
	OverrideBy     string `json:"override_by,omitempty"`

	Preference     string `json:"preference,omitempty"`      // what the site says that refuses the declared use; "": nothing
	PreferenceLine int    `json:"preference_line,omitempty"` // in robots.txt or, if Preference begins with tdmrep, in tdmrep.json

	// WouldRefuse says that the request was let through for no other reason than a mode report: that
	// of its identity, if Judgment is Disallowed, else that of preferences.
	WouldRefuse bool `json:"would_refuse,omitempty"`

	Edge  Edge   `json:"edge,omitempty"`  // what the origin did although its robots.txt allows the request
	Price string `json:"price,omitempty"` // that it named, if Edge is Priced
}

// Outcome says what became of the request.
func (d *Decision) Outcome() counts.Outcome {
	switch {
	case d.Refused && (d.Judgment == Allowed || d.Status == http.StatusTooManyRequests): // the latter in mode report
		return counts.Late
	case d.Refused:
		return counts.Refused
	case d.WouldRefuse:
		return counts.WouldRefuse
	}
	return counts.Passed
}

// Why says in a few words on what the decision is based: a rule, or a reason.
func (d *Decision) Why() string {
	switch {
	case d.Refused && d.Judgment == Allowed:
		return "its turn would have come after pace.max_wait"
	case d.WouldRefuse && d.Judgment == Allowed && d.PreferenceLine > 0:
		return fmt.Sprintf("%s (line %d)", d.Preference, d.PreferenceLine)
	case d.WouldRefuse && d.Judgment == Allowed:
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

// cut bounds the texts that clients and sites wrote.
func (d *Decision) cut() {
	for _, text := range []*string{&d.Method, &d.URL, &d.Rule, &d.Preference, &d.Error} {
		*text = printable.Cut(*text, MaxText)
	}
}
