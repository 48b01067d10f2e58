package sqlitestore

import (
	"context"

	"robotsproxy/robots/store/counts"
	"robotsproxy/robots/store/sqlitestore/counttable"
	"robotsproxy/robots/store/sqlitestore/dbfile"
)

// AddCounts implements [counts.Store]. A batch is added as a whole or not at all.
func (s *Store) AddCounts(ctx context.Context, b counts.Batch) error {
	var oldest counts.Day
	if s.history > 0 {
		oldest = counts.DayOf(s.now().Add(-s.history))
	}
	return s.file.Write(ctx, func(w *dbfile.Writer) error {
		if err := counttable.Add(ctx, w, b, oldest); err != nil {
			return err
		}
		if err := s.shrink(ctx, w); err != nil {
			s.log.Debug().Err(err).Msg("the database could not be made smaller") // the next write will try again
		}
		return nil
	})
}

// dropOldestDay drops the counts of the oldest day, unless that is the last one. It reports
// whether there was one to drop.
func (s *Store) dropOldestDay(ctx context.Context, w *dbfile.Writer) (bool, error) {
	dropped, err := counttable.DropOldestDay(ctx, w)
	if dropped {
		s.warnOfDroppedDays.Do(func() {
			s.log.Warn().Int64("max_size", s.maxSize).
				Msg("policies.db is full: the counts of its oldest days are dropped, and are missing in reports; raise cache.max_size to keep them")
		})
	}
	return dropped, err
}

// Counts implements [counts.Store].
func (s *Store) Counts(ctx context.Context, p counts.Period, do func(counts.Row) error) error {
	return s.file.Read(ctx, func(db *dbfile.Database) error { return counttable.Read(ctx, db, p, do) })
}

// DaysRun implements [counts.Store].
func (s *Store) DaysRun(ctx context.Context, p counts.Period) (days []counts.Day, err error) {
	err = s.file.Read(ctx, func(db *dbfile.Database) (err error) {
		days, err = counttable.DaysRun(ctx, db, p)
		return err
	})
	return days, err
}
