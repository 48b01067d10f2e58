// Package counttable keeps counts of decisions in policies.db: in the table of days on which a
// proxy ran, and in that of their counts. [Add] writes, [Read] and [DaysRun] read. It is for
// package sqlitestore, which lends out the [dbfile.Database] and its [dbfile.Writer].
package counttable

import (
	"context"
	"time"

	"robotsproxy/robots/store/counts"
	"robotsproxy/robots/store/sqlitestore/dbfile"
)

// Add adds a batch as a whole or not at all. If the batch names days, it also deletes a few of the
// days before oldest; 0 keeps all.
func Add(ctx context.Context, w *dbfile.Writer, b counts.Batch, oldest counts.Day) error {
	return w.Transact(ctx, func() error { return add(ctx, w, b, oldest) })
}

func add(ctx context.Context, w *dbfile.Writer, b counts.Batch, oldest counts.Day) (err error) {
	decisions := map[counts.Day]int{} // that the days of this batch have
	for _, day := range b.Days {
		if _, err := beginDay(ctx, w, day); err != nil {
			return err
		}
	}
	for _, row := range b.Rows {
		if _, known := decisions[row.Day]; !known {
			if decisions[row.Day], err = beginDay(ctx, w, row.Day); err != nil {
				return err
			}
		}
		added, err := addRow(ctx, w, row, decisions[row.Day] >= counts.MaxDecisions)
		if err != nil {
			return err
		}
		if added {
			decisions[row.Day]++
		}
	}
	for day, n := range decisions {
		if err := w.Exec(ctx, `UPDATE days SET decisions = ? WHERE day = ?`, n, day.String()); err != nil {
			return err
		}
	}
	if len(b.Days) > 0 && oldest > 0 {
		return sweep(ctx, w, oldest)
	}
	return nil
}

// beginDay returns how many decisions a day has. It makes the day if there is none.
func beginDay(ctx context.Context, w *dbfile.Writer, day counts.Day) (decisions int, err error) {
	const begin = `
INSERT INTO days (day, decisions) VALUES (?, 0)
ON CONFLICT DO UPDATE SET day = excluded.day RETURNING decisions`
	err = w.QueryRow(ctx, begin, day.String()).Scan(&decisions)
	return decisions, err
}

// addRow adds to the count of a decision, or of its rest if the day is full and does not have
// the decision. added is true if there was no count of it before.
func addRow(ctx context.Context, w *dbfile.Writer, row counts.Row, full bool) (added bool, err error) {
	const update = `
UPDATE counts SET requests = requests + ?11, paced = paced + ?12, waited_ms = waited_ms + ?13,
	challenged = challenged + ?14, turned_away = turned_away + ?15, priced = priced + ?16
WHERE day = ?1 AND origin = ?2 AND identity = ?3 AND outcome = ?4 AND verdict = ?5 AND reason = ?6
	AND rule = ?7 AND preference = ?8 AND cause = ?9 AND override_reason = ?10`
	if known, err := w.Change(ctx, update, columns(row)...); err != nil || known > 0 {
		return false, err
	}
	if rest := row.Decision.Rest(); full && row.Decision != rest {
		row.Decision = rest
		return addRow(ctx, w, row, full)
	}
	const insert = `
INSERT INTO counts (day, origin, identity, outcome, verdict, reason, rule, preference, cause, override_reason,
	requests, paced, waited_ms, challenged, turned_away, priced)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)`
	return true, w.Exec(ctx, insert, columns(row)...)
}

// columns are the values of the table's columns, in their order.
func columns(r counts.Row) []any {
	return []any{
		r.Day.String(), r.Origin, r.Identity, string(r.Outcome), r.Verdict, r.Reason, r.Rule, r.Preference, r.Cause, r.OverrideReason,
		r.Requests, r.Paced, r.Waited.Milliseconds(), r.Challenged, r.TurnedAway, r.Priced,
	}
}

// maxSweptDays is how many days go at once: each may have MaxDecisions rows, and other
// writers wait meanwhile.
const maxSweptDays = 4

// sweep deletes the earliest of the days before oldest.
func sweep(ctx context.Context, w *dbfile.Writer, oldest counts.Day) error {
	const expired = `SELECT day FROM days WHERE day < ?1 ORDER BY day LIMIT ?2`
	if err := w.Exec(ctx, `DELETE FROM counts WHERE day IN (`+expired+`)`, oldest.String(), maxSweptDays); err != nil {
		return err
	}
	return w.Exec(ctx, `DELETE FROM days WHERE day IN (`+expired+`)`, oldest.String(), maxSweptDays)
}

// DropOldestDay deletes the counts of the oldest day that has any, unless that is the last day. It
// reports whether there was one to delete.
func DropOldestDay(ctx context.Context, w *dbfile.Writer) (dropped bool, err error) {
	err = w.Transact(ctx, func() error {
		const oldest = `SELECT min(day) FROM days WHERE decisions > 0 AND day < (SELECT max(day) FROM days)`
		gone, err := w.Change(ctx, `DELETE FROM counts WHERE day = (`+oldest+`)`)
		if err != nil || gone == 0 {
			return err
		}
		dropped = true
		return w.Exec(ctx, `DELETE FROM days WHERE day = (`+oldest+`)`)
	})
	return dropped && err == nil, err
}

// Read calls do with every count of a period, in no order. It ends when do returns an error, and
// returns it.
func Read(ctx context.Context, db *dbfile.Database, p counts.Period, do func(counts.Row) error) error {
	rows, err := db.QueryContext(ctx, `
SELECT day, origin, identity, outcome, verdict, reason, rule, preference, cause, override_reason,
	requests, paced, waited_ms, challenged, turned_away, priced
FROM counts WHERE day BETWEEN ? AND ?`, p.From.String(), p.Until.String())
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r counts.Row
		var day string
		var waited int64
		err := rows.Scan(&day, &r.Origin, &r.Identity, &r.Outcome, &r.Verdict, &r.Reason, &r.Rule, &r.Preference, &r.Cause, &r.OverrideReason,
			&r.Requests, &r.Paced, &waited, &r.Challenged, &r.TurnedAway, &r.Priced)
		if err != nil {
			return err
		}
		if r.Day, err = counts.ParseDay(day); err != nil {
			return err
		}
		r.Waited = time.Duration(waited) * time.Millisecond
		if err := do(r); err != nil {
			return err
		}
	}
	return rows.Err()
}

// DaysRun returns the days of a period in which a proxy ran, in order.
func DaysRun(ctx context.Context, db *dbfile.Database, p counts.Period) (days []counts.Day, err error) {
	rows, err := db.QueryContext(ctx, `SELECT day FROM days WHERE day BETWEEN ? AND ? ORDER BY day`, p.From.String(), p.Until.String())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		day, err := counts.ParseDay(text)
		if err != nil {
			return nil, err
		}
		days = append(days, day)
	}
	return days, rows.Err()
}
