package evidence

import (
	"bytes"
	"context"
	"slices"

	"robotsproxy/internal/printable"
	"robotsproxy/robots/store/counts"
)

// Counts are what the store keeps of decisions where there is no log.
type Counts struct{ Store counts.Store }

func (Counts) file() string { return "counts.jsonl.gz" }

// A countLine is a count in the archive. Its members are named as in logs and reports.
type countLine struct {
	Day            counts.Day     `json:"day"`
	Identity       string         `json:"identity"`
	Origin         string         `json:"origin,omitempty"`
	Outcome        counts.Outcome `json:"outcome"`
	Verdict        string         `json:"verdict"`
	Reason         string         `json:"reason"`
	Rule           string         `json:"rule,omitempty"`
	Preference     string         `json:"preference,omitempty"`
	Cause          string         `json:"cause,omitempty"`
	OverrideReason string         `json:"override_reason,omitempty"`
	Requests       int64          `json:"requests"`
	Paced          int64          `json:"paced,omitempty"`
	PacedMS        int64          `json:"paced_ms,omitempty"`
	Challenged     int64          `json:"challenged,omitempty"`
	TurnedAway     int64          `json:"turned_away,omitempty"`
	Priced         int64          `json:"priced,omitempty"`
}

// read takes the counts of one day at a time, since those of a day are bounded.
func (c Counts) read(ctx context.Context, scope *Scope, found *Found, take func(entry) error) error {
	ran, err := c.Store.DaysRun(ctx, scope.Period)
	if err != nil {
		return err
	}
	if len(ran) == 0 {
		return ErrNothing
	}
	for _, day := range ran {
		var entries []entry
		err := c.Store.Counts(ctx, counts.Period{From: day, Until: day}, func(row counts.Row) error {
			if row.Origin == "" && len(scope.Origins) > 0 {
				found.Unassigned += row.Requests
			}
			if !scope.has(row.Origin) {
				return nil
			}
			line, err := printable.Marshal(countLine{
				row.Day, row.Identity, row.Origin, row.Outcome, row.Verdict, row.Reason, row.Rule, row.Preference, row.Cause,
				row.OverrideReason, row.Requests, row.Paced, row.Waited.Milliseconds(), row.Challenged, row.TurnedAway, row.Priced,
			})
			entries = append(entries, entry{line: bytes.TrimSuffix(line, []byte{'\n'}), origin: row.Origin})
			return err
		})
		if err != nil {
			return err
		}
		slices.SortFunc(entries, func(a, b entry) int { return bytes.Compare(a.line, b.line) })
		for _, e := range entries {
			if err := take(e); err != nil {
				return err
			}
		}
	}
	return nil
}
