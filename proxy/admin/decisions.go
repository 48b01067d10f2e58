package admin

import (
	"encoding/csv"
	"net/http"
	"strconv"
	"strings"
	"time"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/admin/ledger"
	"robotsproxy/proxy/decision"
	"robotsproxy/robots/store/counts"
)

// filterOf returns the filter that a request names. If it is invalid, filterOf answers the
// request and reports false.
func filterOf(w http.ResponseWriter, r *http.Request) (ledger.Filter, bool) {
	f, err := ledger.ParseFilter(r.URL.Query())
	if err != nil {
		writeProblem(w, http.StatusBadRequest, err.Error())
	}
	return f, err == nil
}

// decisions responds with the decisions that are kept and match a filter, the newest first.
func (a *Admin) decisions(w http.ResponseWriter, r *http.Request) {
	limit, ok := limitOf(w, r, ledger.MaxKept)
	if !ok {
		return
	}
	f, ok := filterOf(w, r)
	if !ok {
		return
	}
	format := r.URL.Query().Get("format")
	if format != "" && format != "json" && format != "csv" {
		writeProblem(w, http.StatusBadRequest, "format: write json or csv")
		return
	}
	found, newest := a.ledger.Kept(f, limit)
	if format == "csv" {
		writeCSV(w, found)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", struct {
		Decisions []decision.Decision `json:"decisions"`
		LastID    string              `json:"last_id"`
	}{found, a.eventID(newest)})
}

// columns are those of the CSV of decisions, by the names that their JSON has.
var columns = []struct {
	name  string
	value func(d *decision.Decision) string
}{
	{"time", func(d *decision.Decision) string { return d.Time.UTC().Format(time.RFC3339Nano) }},
	{"client", func(d *decision.Decision) string { return d.Client.String() }},
	{"door", func(d *decision.Decision) string { return d.Door }},
	{"identity", func(d *decision.Decision) string { return d.Identity }},
	{"agent", func(d *decision.Decision) string { return d.Agent }},
	{"method", func(d *decision.Decision) string { return d.Method }},
	{"url", func(d *decision.Decision) string { return d.URL }},
	{"verdict", func(d *decision.Decision) string { return string(d.Judgment) }},
	{"reason", func(d *decision.Decision) string { return string(d.Reason) }},
	{"refused", func(d *decision.Decision) string { return strconv.FormatBool(d.Refused) }},
	{"would_refuse", func(d *decision.Decision) string { return strconv.FormatBool(d.Outcome() == counts.WouldRefuse) }},
	{"rule", func(d *decision.Decision) string { return d.Rule }},
	{"line", func(d *decision.Decision) string { return number(d.Line) }},
	{"preference", func(d *decision.Decision) string { return d.Preference }},
	{"preference_line", func(d *decision.Decision) string { return number(d.PreferenceLine) }},
	{"cause", func(d *decision.Decision) string { return d.Cause }},
	{"override_reason", func(d *decision.Decision) string { return d.OverrideReason }},
	{"override_by", func(d *decision.Decision) string { return d.OverrideBy }},
	{"robots_sha256", func(d *decision.Decision) string { return d.RobotsSHA256 }},
	{"signed", func(d *decision.Decision) string { return d.Signed }},
	{"edge", func(d *decision.Decision) string { return string(d.Edge) }},
	{"price", func(d *decision.Decision) string { return d.Price }},
	{"status", func(d *decision.Decision) string { return number(d.Status) }},
	{"bytes", func(d *decision.Decision) string { return strconv.FormatInt(d.Bytes, 10) }},
	{"duration_ms", func(d *decision.Decision) string { return strconv.FormatFloat(d.DurationMS, 'f', -1, 64) }},
	{"wait_ms", func(d *decision.Decision) string { return strconv.FormatFloat(d.WaitMS, 'f', -1, 64) }},
	{"paced_ms", func(d *decision.Decision) string { return strconv.FormatInt(d.PacedMS, 10) }},
	{"paced_by", func(d *decision.Decision) string { return d.PacedBy }},
	{"error", func(d *decision.Decision) string { return d.Error }},
}

// number returns n, or nothing for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// writeCSV responds with decisions as CSV (RFC 4180), with a line of names first.
func writeCSV(w http.ResponseWriter, decisions []decision.Decision) {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8; header=present")
	w.Header().Set("Cache-Control", "no-store")
	out := csv.NewWriter(w) // an error means that the client has left
	row := make([]string, len(columns))
	for i, c := range columns {
		row[i] = c.name
	}
	out.Write(row)
	for i := range decisions {
		for j, c := range columns {
			row[j] = cell(c.value(&decisions[i]))
		}
		out.Write(row)
	}
	out.Flush()
}

// cell returns a text as a spreadsheet shows it. A spreadsheet would take one that begins as a
// formula for one, and clients and sites wrote the texts.
func cell(text string) string {
	text = printable.Line(strings.ToValidUTF8(text, "\uFFFD"))
	if text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
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
		Started time.Time                         `json:"started"`
		Minutes [ledger.MinutesPerHour]minuteView `json:"minutes"`
	}
	view.Started = a.began.UTC()
	for i, m := range a.ledger.LastHour(a.now()) {
		view.Minutes[i] = minuteView{m.Start().UTC(), m.Allowed, m.Refused, m.Waited}
	}
	writeJSON(w, http.StatusOK, "application/json", view)
}
