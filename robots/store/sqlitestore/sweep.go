package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"robotsproxy/robots/store"
	"robotsproxy/robots/store/encoding"
	"robotsproxy/robots/store/sqlitestore/dbfile"
)

// After every sweepEvery records written, a sweep looks through the next sweepLength
// origins: few at a time, as other writers wait meanwhile, but more than can have come since,
// so that the sweep gets round.
const sweepEvery, sweepLength = 128, 512

// lastUse is about when a record's origin was last fetched or tried. After the lifetime of
// its answer, only a request makes the proxy do either. A try is always before the next one.
const lastUse = `max(fetched_at, next_try)`

// unserved is the condition that a version is not its origin's last answer.
const unserved = `NOT EXISTS (
	SELECT 1 FROM policies AS p
	WHERE p.origin = versions.origin AND p.text_id = versions.text_id AND p.status = versions.status)`

// sweep deletes from the next origins what has been of no use for all of the history:
// records that nobody asked for, and versions that are no longer served. Then it gives some
// free space back.
func (s *Store) sweep(ctx context.Context, w *dbfile.Writer) error {
	if s.history <= 0 {
		return nil
	}
	before := s.now().Add(-s.history)
	if err := w.Transact(ctx, func() error { return sweepNext(ctx, w, before) }); err != nil {
		return err
	}
	return giveBack(ctx, w)
}

// sweepNext deletes from the next origins what has been of no use since a time.
func sweepNext(ctx context.Context, w *dbfile.Writer, before time.Time) error {
	// The table with more origins says how far the sweep goes, which bounds the work. After
	// the last origin it begins again.
	var from string
	var to sql.NullString
	const next = `
SELECT origin, (SELECT min(origin) FROM (
	SELECT * FROM (SELECT origin FROM policies WHERE origin > sweep.origin ORDER BY origin LIMIT 1 OFFSET ?1)
	UNION ALL
	SELECT * FROM (SELECT origin FROM versions WHERE origin > sweep.origin ORDER BY origin LIMIT 1 OFFSET ?1)))
FROM sweep`
	if err := w.QueryRow(ctx, next, sweepLength-1).Scan(&from, &to); err != nil {
		return err
	}
	// Beyond the last origin is a blob, which follows every text: "?2 IS NULL OR ..."
	// would have SQLite look at all of them.
	const unused = `
DELETE FROM policies WHERE origin > ?1 AND origin <= coalesce(?2, x'') AND ` + lastUse + ` < ?3`
	if err := w.Exec(ctx, unused, from, to, encoding.Milliseconds(before)); err != nil {
		return err
	}
	if _, err := dropVersions(ctx, w, `origin > ?1 AND origin <= coalesce(?2, x'') AND last_seen < ?3`, from, to, encoding.Milliseconds(before)); err != nil {
		return err
	}
	return w.Exec(ctx, `UPDATE sweep SET origin = coalesce(?, '')`, to)
}

// giveBack takes some of what is free from the end of the file.
func giveBack(ctx context.Context, w *dbfile.Writer) error {
	return w.Exec(ctx, `PRAGMA incremental_vacuum(2048)`)
}

// dropOldest deletes an origin's oldest versions beyond store.MaxVersions.
func dropOldest(ctx context.Context, w *dbfile.Writer, origin string) error {
	var oldest int64
	const find = `SELECT last_seen FROM versions WHERE origin = ? ORDER BY last_seen DESC LIMIT 1 OFFSET ?`
	err := w.QueryRow(ctx, find, origin, store.MaxVersions-1).Scan(&oldest)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = dropVersions(ctx, w, `origin = ? AND last_seen < ?`, origin, oldest)
	return err
}

// dropVersions deletes the versions that meet a condition, except those still served, and
// the texts that no other version has. It returns how many versions it deleted.
func dropVersions(ctx context.Context, w *dbfile.Writer, where string, args ...any) (dropped int64, err error) {
	rows, err := w.Query(ctx, `DELETE FROM versions WHERE `+where+` AND `+unserved+` RETURNING text_id`, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var texts []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return 0, err
		}
		texts = append(texts, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return 0, err
	}
	const unserved = `
DELETE FROM texts WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM versions WHERE text_id = ?1 AND text_id != 0)`
	for _, id := range texts {
		if err := w.Exec(ctx, unserved, id); err != nil {
			return 0, err
		}
	}
	return int64(len(texts)), nil
}
