package admin

import (
	"fmt"
	"testing"
	"time"

	"robotsproxy/robots/store/counts"
)

func TestTop(t *testing.T) {
	a := newAdmin(t)
	now := time.Now().UTC()
	row := func(identity, origin, rule string, outcome counts.Outcome, requests, paced int64) counts.Row {
		r := counts.Row{Day: counts.DayOf(now), Decision: counts.Decision{Identity: identity, Origin: origin, Outcome: outcome, Verdict: "allowed"}}
		if rule != "" {
			r.Verdict, r.Reason, r.Rule = "disallowed", "rule", rule
		}
		r.Requests, r.Paced, r.Waited = requests, paced, time.Duration(paced)*time.Second
		return r
	}
	rows := []counts.Row{
		row("images", "https://a.example", "Disallow: /cart", counts.Refused, 3, 0),
		row("images", "https://a.example", "Disallow: /cart", counts.Refused, 4, 0), // in another slot
		row("texts", "https://a.example", "Disallow: /", counts.WouldRefuse, 9, 0),
		row("texts", "https://b.example", "", counts.Passed, 20, 5),
		row("images", "https://b.example", "", counts.Passed, 1, 1),
		row("texts", "https://c.example", "", counts.Late, 2, 0),
	}
	a.setup.LastHour = func() (time.Time, []counts.Row) { return now.Add(-time.Hour), rows }
	store := &counts.Memory{}
	store.AddCounts(t.Context(), counts.Batch{Rows: rows[2:]})
	a.setup.Counts = store

	top := func(query string) string {
		var view topView
		a.get(t, "top?"+query, &view)
		text := view.Period + ":"
		for _, r := range view.Rules {
			text += fmt.Sprintf(" %s%s %d+%d", r.Rule, r.Reason, r.Refused, r.WouldBeRefused)
		}
		text += ";"
		for _, o := range view.Origins {
			text += fmt.Sprintf(" %c %d", o.Origin[8], o.Requests)
		}
		text += ";"
		for _, i := range view.Identities {
			text += fmt.Sprintf(" %s %d", i.Identity, i.Requests)
		}
		text += ";"
		for _, w := range view.Waits {
			text += fmt.Sprintf(" %s %c %g s, %d late", w.Identity, w.Origin[8], w.PacedSeconds, w.RefusedForPace)
		}
		return text
	}
	for query, want := range map[string]string{
		"":           "hour: Disallow: /rule 0+9 Disallow: /cartrule 7+0 pace 2+0; b 21 a 16 c 2; texts 31 images 8; texts b 5 s, 0 late images b 1 s, 0 late texts c 0 s, 2 late",
		"limit=1":    "hour: Disallow: /rule 0+9; b 21; texts 31; texts b 5 s, 0 late",
		"period=day": "day: Disallow: /rule 0+9 pace 2+0; b 21 a 9 c 2; texts 31 images 1; texts b 5 s, 0 late images b 1 s, 0 late texts c 0 s, 2 late",
	} {
		if got := top(query); got != want {
			t.Errorf("%s:\n%s, want\n%s", query, got, want)
		}
	}
}
