package admin

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"robotsproxy/proxy/report"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/counts"
)

const (
	defaultTop = 10
	maxTop     = 100
)

// A topView lists what was most frequent in a period. Its JSON is that of /api/v1/top.
type topView struct {
	Period     string            `json:"period"`
	Since      time.Time         `json:"since"`
	Rules      []report.Refusal  `json:"rules"` // that refused most; also reasons without a rule
	Origins    []report.Origin   `json:"origins"`
	Identities []report.Identity `json:"identities"`
	Waits      []topWait         `json:"waits"`
}

// A topWait is how long an identity has waited for its turns at an origin.
type topWait struct {
	Identity       string  `json:"identity"`
	Origin         string  `json:"origin"`
	Paced          int64   `json:"paced"`
	PacedSeconds   float64 `json:"paced_seconds"`
	RefusedForPace int64   `json:"refused_for_pace"`
}

// top responds with what was most frequent in the last hour, as far as this proxy knows, or
// today, as far as the store does.
func (a *Admin) top(w http.ResponseWriter, r *http.Request) {
	limit := defaultTop
	if r.URL.Query().Has("limit") {
		var ok bool
		if limit, ok = limitOf(w, r, maxTop); !ok {
			return
		}
	}
	var view topView
	var err error
	switch period := cmp.Or(r.URL.Query().Get("period"), "hour"); period {
	case "hour":
		since, rows := a.setup.LastHour()
		t := newTopper(a.now())
		for _, row := range rows {
			t.add(row)
		}
		view = t.view(period, since, limit)
	case "day":
		view, err = a.topOfDay(r.Context(), limit)
	default:
		writeProblem(w, http.StatusBadRequest, "period: write hour or day")
		return
	}
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, "application/json", view)
}

// topOfDay returns what was most frequent today, one request at a time: it reads all counts of
// the day.
func (a *Admin) topOfDay(ctx context.Context, limit int) (view topView, err error) {
	err = a.oneAtATime(ctx, func() error {
		now := a.now()
		today, t := counts.DayOf(now), newTopper(now)
		if err := a.setup.Counts.Counts(ctx, counts.Period{From: today, Until: today}, t.add); err != nil {
			return err
		}
		view = t.view("day", today.Start(), limit)
		return nil
	})
	return view, err
}

// A topper adds up the counts of a day.
type topper struct {
	report *report.Builder
	waits  map[[2]string]*topWait // by identity and origin
}

func newTopper(now time.Time) *topper {
	today := counts.DayOf(now)
	return &topper{report.New(report.Scope{Period: counts.Period{From: today - 1, Until: today}}), map[[2]string]*topWait{}}
}

// add adds a row. It returns no error.
func (t *topper) add(row counts.Row) error {
	if row.Paced > 0 || row.Outcome == counts.Late {
		key := [2]string{row.Identity, row.Origin}
		wait := t.waits[key]
		if wait == nil {
			wait = &topWait{Identity: row.Identity, Origin: row.Origin}
			t.waits[key] = wait
		}
		wait.Paced += row.Paced
		wait.PacedSeconds += row.Waited.Seconds()
		if row.Outcome == counts.Late {
			wait.RefusedForPace += row.Requests
		}
	}
	return t.report.Add(row)
}

// view returns the first limit of each list.
func (t *topper) view(period string, since time.Time, limit int) topView {
	r := t.report.Report()
	waits := make([]topWait, 0, len(t.waits))
	for _, wait := range t.waits {
		waits = append(waits, *wait)
	}
	slices.SortFunc(waits, func(a, b topWait) int {
		return cmp.Or(cmp.Compare(b.PacedSeconds, a.PacedSeconds), cmp.Compare(b.RefusedForPace, a.RefusedForPace),
			cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.Identity, b.Identity))
	})
	return topView{
		Period: period, Since: since,
		Rules: first(r.Refusals, limit), Origins: first(r.Origins, limit), Identities: first(r.Identities, limit), Waits: first(waits, limit),
	}
}

func first[T any](all []T, limit int) []T { return all[:min(len(all), limit)] }

// changesOf is how far back changes of robots.txt are listed.
const changesOf = 7 * 24 * time.Hour

// changes responds with the changes of robots.txt in the last week, the newest first.
func (a *Admin) changes(w http.ResponseWriter, r *http.Request) {
	limit, ok := limitOf(w, r, maxPolicies)
	if !ok {
		return
	}
	view := struct {
		Since   time.Time       `json:"since"`
		Changes []report.Change `json:"changes"`
		Total   int             `json:"total"`
	}{Since: a.now().Add(-changesOf).UTC(), Changes: []report.Change{}}
	err := a.oneAtATime(r.Context(), func() error {
		return a.setup.Changes(r.Context(), view.Since, a.now().Add(time.Second), func(c store.Change) {
			view.Changes = append(view.Changes, report.Change{Origin: c.Origin, Time: c.At.UTC(), Status: c.Status, SHA256: c.SHA256})
		})
	})
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, err.Error())
		return
	}
	slices.SortFunc(view.Changes, func(a, b report.Change) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Origin, b.Origin))
	})
	view.Total = len(view.Changes)
	view.Changes = first(view.Changes, limit)
	writeJSON(w, http.StatusOK, "application/json", view)
}
