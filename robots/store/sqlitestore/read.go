package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"robotsproxy/robots/store"
	"robotsproxy/robots/store/encoding"
	"robotsproxy/robots/store/sqlitestore/dbfile"
)

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, origin string) (store.Record, bool, error) {
	recs, err := s.query(context.WithoutCancel(ctx), true, `WHERE origin = ?`, origin)
	if err != nil || len(recs) == 0 {
		return store.Record{}, false, err
	}
	return recs[0], true, nil
}

// List implements [store.Store].
func (s *Store) List(ctx context.Context, after, part string, limit int) ([]store.Record, error) {
	return s.query(ctx, false, `WHERE origin > ? AND instr(origin, ?) AND origin NOT GLOB '*://*/*' ORDER BY origin LIMIT ?`, after, part, limit)
}

func (s *Store) query(ctx context.Context, texts bool, where string, args ...any) ([]store.Record, error) {
	var recs []store.Record
	err := s.file.Read(ctx, func(db *dbfile.Database) (err error) {
		recs, err = readRecords(ctx, db, texts, where, args...)
		return err
	})
	return recs, err
}

// readRecords reads the records that meet a condition, with or without their texts.
func readRecords(ctx context.Context, db *dbfile.Database, texts bool, where string, args ...any) ([]store.Record, error) {
	text := "NULL"
	if texts {
		text = "gzip"
	}
	query, err := db.Prepare(ctx, `
SELECT origin, status, coalesce(sha256, ''), `+text+`, fetched_at, expires_at,
	failed_since, failed_status, failures, next_try, cause, user_agent, cdn
FROM policies LEFT JOIN texts ON texts.id = text_id `+where)
	if err != nil {
		return nil, err
	}
	rows, err := query.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var recs []store.Record
	for rows.Next() {
		var r store.Record
		var packed sql.RawBytes
		err := rows.Scan(&r.Origin, &r.Status, &r.SHA256, &packed, at{&r.FetchedAt}, at{&r.ExpiresAt},
			at{&r.FailedSince}, &r.FailedStatus, &r.Failures, at{&r.NextTry}, &r.Cause, &r.UserAgent, &r.CDN)
		if err != nil {
			return nil, err
		}
		if texts && r.SHA256 != "" {
			if r.Body, err = encoding.Gunzip(packed); err != nil {
				return nil, fmt.Errorf("unpacking the text of %s: %w", r.Origin, err)
			}
		}
		recs = append(recs, r)
	}
	return recs, rows.Err()
}

// Versions implements [store.Store].
func (s *Store) Versions(ctx context.Context, origin string) ([]store.Version, error) {
	var versions []store.Version
	err := s.file.Read(ctx, func(db *dbfile.Database) (err error) {
		versions, err = readVersions(ctx, db, origin)
		return err
	})
	return versions, err
}

func readVersions(ctx context.Context, db *dbfile.Database, origin string) ([]store.Version, error) {
	rows, err := db.QueryContext(ctx, `
SELECT coalesce(sha256, ''), status, first_seen, last_seen
FROM versions LEFT JOIN texts ON texts.id = text_id
WHERE origin = ? ORDER BY last_seen DESC, first_seen DESC`, origin)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var versions []store.Version
	for rows.Next() {
		var v store.Version
		if err := rows.Scan(&v.SHA256, &v.Status, at{&v.FirstSeen}, at{&v.LastSeen}); err != nil {
			return nil, err
		}
		versions = append(versions, v)
	}
	return versions, rows.Err()
}

// Text implements [store.Store].
func (s *Store) Text(ctx context.Context, _, sha256 string) (text []byte, ok bool, err error) {
	err = s.file.Read(ctx, func(db *dbfile.Database) (err error) {
		text, ok, err = readText(ctx, db, sha256)
		return err
	})
	return text, ok, err
}

func readText(ctx context.Context, db *dbfile.Database, sha256 string) (text []byte, ok bool, err error) {
	var packed []byte
	switch err := db.QueryRowContext(ctx, `SELECT gzip FROM texts WHERE sha256 = ?`, sha256).Scan(&packed); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	if text, err = encoding.Gunzip(packed); err != nil {
		return nil, false, fmt.Errorf("unpacking the text %s: %w", sha256, err)
	}
	return text, true, nil
}

// Changes calls do with the changes of robots.txt from a time until another, in no order. The
// first answer that is kept of an origin is no change.
func (s *Store) Changes(ctx context.Context, from, until time.Time, do func(store.Change)) error {
	return s.file.Read(ctx, func(db *dbfile.Database) error { return readChanges(ctx, db, from, until, do) })
}

func readChanges(ctx context.Context, db *dbfile.Database, from, until time.Time, do func(store.Change)) error {
	rows, err := db.QueryContext(ctx, `
SELECT origin, first_seen, status, coalesce(sha256, '')
FROM versions AS v LEFT JOIN texts ON texts.id = text_id
WHERE first_seen >= ? AND first_seen < ? AND origin NOT GLOB '*://*/*'
	AND EXISTS (SELECT 1 FROM versions AS earlier WHERE earlier.origin = v.origin AND earlier.first_seen < v.first_seen)`,
		encoding.Milliseconds(from), encoding.Milliseconds(until))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var c store.Change
		if err := rows.Scan(&c.Origin, at{&c.At}, &c.Status, &c.SHA256); err != nil {
			return err
		}
		do(c)
	}
	return rows.Err()
}

// at scans a time that encoding.Milliseconds has written.
type at struct{ time *time.Time }

func (a at) Scan(value any) error {
	n, ok := value.(int64)
	if !ok {
		return fmt.Errorf("%v is not a time in milliseconds", value)
	}
	*a.time = encoding.Time(n)
	return nil
}
