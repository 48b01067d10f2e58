package admin

import (
	"net/http"
	"time"

	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/distrust"
	"robotsproxy/proxy/identity"
)

// maxDistrusting is how many of the clients that do not trust the CA are named.
const maxDistrusting = 100

// status responds with what may be wrong: what was refused or failed in the last hour, what is
// held, who does not trust the CA, and what of the configuration lets requests through that
// robots.txt disallows.
func (a *Admin) status(w http.ResponseWriter, _ *http.Request) {
	type leniency struct {
		Identity string        `json:"identity"`
		Mode     identity.Mode `json:"mode"`
	}
	type lastHour struct {
		Requests       uint64 `json:"requests"`
		Refused        uint64 `json:"refused"` // without those whose turn would have come too late
		WouldBeRefused uint64 `json:"would_be_refused"`
		RefusedForPace uint64 `json:"refused_for_pace"`
		Failed         uint64 `json:"failed"`
		Unreachable    int    `json:"unreachable_origins"` // that requests were refused for
	}
	view := struct {
		Started         time.Time         `json:"started"`
		LastHour        lastHour          `json:"last_hour"`
		Held            int               `json:"held"`    // origins, by identity
		Waiting         int               `json:"waiting"` // requests, for their turns
		Distrusting     []distrust.Client `json:"distrusting"`
		DistrustingAll  int               `json:"distrusting_total"`
		OverrideWarning []string          `json:"override_warnings"`
		Lenient         []leniency        `json:"lenient"`
	}{Started: a.began.UTC(), OverrideWarning: []string{}, Lenient: []leniency{}}
	now := a.now()
	for _, m := range a.ledger.LastHour(now) {
		view.LastHour.Requests += m.Allowed + m.Refused
		view.LastHour.Refused += m.Refused - m.Late
		view.LastHour.WouldBeRefused += m.WouldRefuse
		view.LastHour.RefusedForPace += m.Late
		view.LastHour.Failed += m.Failed
	}
	unreachable := map[string]bool{}
	_, rows := a.setup.LastHour()
	for _, row := range rows {
		if row.Reason == string(decision.Unreachable) {
			unreachable[row.Origin] = true
		}
	}
	view.LastHour.Unreachable = len(unreachable)
	view.Held, view.Waiting = a.setup.Pacer.Waiting()
	view.Distrusting, view.DistrustingAll = a.setup.Distrust(maxDistrusting)
	for _, o := range a.setup.Gate.Overrides() {
		if warning := o.Warning(now); warning != "" {
			view.OverrideWarning = append(view.OverrideWarning, warning)
		}
	}
	for name, id := range a.setup.Gate.Identities() {
		if id.Mode == identity.Report || id.Mode == identity.Off {
			view.Lenient = append(view.Lenient, leniency{name, id.Mode})
		}
	}
	writeJSON(w, http.StatusOK, "application/json", view)
}
