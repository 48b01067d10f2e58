package admin

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"robotsproxy/proxy/admin/ledger"
	"robotsproxy/proxy/decision"
)

// A filter selects decisions. A zero field selects all of them.
type filter struct {
	identity string
	verdict  decision.Judgment
	host     string // a part of host:port
}

// filterOf returns the filter that a request names. If it is invalid, filterOf answers the
// request and reports false.
func filterOf(w http.ResponseWriter, r *http.Request) (filter, bool) {
	query := r.URL.Query()
	f := filter{query.Get("identity"), decision.Judgment(query.Get("verdict")), strings.ToLower(query.Get("host"))}
	switch f.verdict {
	case "", decision.Allowed, decision.Disallowed:
		return f, true
	}
	writeProblem(w, http.StatusBadRequest, "verdict: write "+string(decision.Allowed)+" or "+string(decision.Disallowed))
	return f, false
}

func (f *filter) matches(d *decision.Decision) bool {
	_, host, _ := strings.Cut(d.Origin, "://")
	return (f.identity == "" || f.identity == d.Identity) &&
		(f.verdict == "" || f.verdict == d.Judgment) &&
		strings.Contains(host, f.host)
}

// decisions responds with the last decisions that match a filter, the newest first.
func (a *Admin) decisions(w http.ResponseWriter, r *http.Request) {
	limit, ok := limitOf(w, r, ledger.Size)
	if !ok {
		return
	}
	f, ok := filterOf(w, r)
	if !ok {
		return
	}
	newest := a.ledger.Newest()
	buf := make([]decision.Decision, ledger.Size)
	n, _ := a.ledger.After(newest-min(newest, ledger.Size), buf)
	found := slices.DeleteFunc(buf[:n], func(d decision.Decision) bool { return !f.matches(&d) })
	slices.Reverse(found)
	writeJSON(w, http.StatusOK, "application/json", struct {
		Decisions []decision.Decision `json:"decisions"`
		LastID    string              `json:"last_id"`
	}{found[:min(len(found), limit)], a.eventID(newest)})
}

// activity responds with how many requests ended in each minute of the last hour.
func (a *Admin) activity(w http.ResponseWriter, _ *http.Request) {
	type minuteView struct {
		Time    time.Time `json:"time"`
		Allowed uint64    `json:"allowed"`
		Refused uint64    `json:"refused"`
		Waited  uint64    `json:"waited"`
	}
	var view struct {
		Minutes [ledger.MinutesPerHour]minuteView `json:"minutes"`
	}
	for i, m := range a.ledger.LastHour(a.now()) {
		view.Minutes[i] = minuteView{m.Start().UTC(), m.Allowed, m.Refused, m.Waited}
	}
	writeJSON(w, http.StatusOK, "application/json", view)
}
