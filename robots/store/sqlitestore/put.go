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

// Put implements [store.Store]. The records are kept all or none.
func (s *Store) Put(ctx context.Context, recs ...store.Record) error {
	return s.file.Write(ctx, func(db *dbfile.Database) error {
		if err := s.putRecords(ctx, db, recs); err != nil {
			return err
		}
		for s.unswept += len(recs); s.unswept >= sweepEvery; s.unswept -= sweepEvery {
			if err := s.sweep(ctx, db); err != nil {
				s.log.Debug().Err(err).Msg("old policies could not be swept out") // the next sweep will try again
			}
		}
		if err := s.shrink(ctx, db); err != nil {
			s.log.Debug().Err(err).Msg("the database could not be made smaller") // the next write will try again
		}
		return nil
	})
}

// putRecords keeps all of the records or none.
func (s *Store) putRecords(ctx context.Context, db *dbfile.Database, recs []store.Record) error {
	// Compressing takes time, so it is done before other processes have to wait.
	packed := make(map[string][]byte) // by SHA-256; nil if it is kept already
	for _, rec := range recs {
		if _, is := packed[rec.SHA256]; is || rec.SHA256 == "" {
			continue
		}
		kept, err := hasText(ctx, db, rec.SHA256)
		if err != nil {
			return err
		}
		packed[rec.SHA256] = nil
		if !kept {
			packed[rec.SHA256] = encoding.Gzip(rec.Body)
		}
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	ids := make(map[string]int64) // of the texts, by SHA-256
	for _, rec := range recs {
		textID, is := ids[rec.SHA256]
		if !is {
			if textID, err = s.putText(ctx, db, tx, rec, packed[rec.SHA256]); err != nil {
				return err
			}
			ids[rec.SHA256] = textID
		}
		if err := s.putRecord(ctx, db, tx, rec, textID); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// putText returns the id of the record's text, 0 if it has none. It first keeps the text if
// packed is not nil.
func (s *Store) putText(ctx context.Context, db *dbfile.Database, tx *sql.Tx, rec store.Record, packed []byte) (id int64, err error) {
	if rec.SHA256 == "" {
		return 0, nil
	}
	if packed == nil {
		find, err := db.Prepare(ctx, tx, `SELECT id FROM texts WHERE sha256 = ?`)
		if err != nil {
			return 0, err
		}
		if err := find.QueryRowContext(ctx, rec.SHA256).Scan(&id); !errors.Is(err, sql.ErrNoRows) {
			return id, err
		}
		packed = encoding.Gzip(rec.Body) // another process has swept it out since
	}
	insert, err := db.Prepare(ctx, tx, `
INSERT INTO texts (sha256, gzip) VALUES (?, ?)
ON CONFLICT DO UPDATE SET gzip = excluded.gzip RETURNING id`)
	if err != nil {
		return 0, err
	}
	err = insert.QueryRowContext(ctx, rec.SHA256, packed).Scan(&id)
	return id, err
}

func (s *Store) putRecord(ctx context.Context, db *dbfile.Database, tx *sql.Tx, rec store.Record, textID int64) error {
	// Another process may have got a later answer meanwhile: that is not replaced, unless
	// it is from the future, by a clock that was wrong.
	const upsert = `
INSERT INTO policies (origin, status, text_id, fetched_at, expires_at,
	failed_since, failed_status, failures, next_try, cause, user_agent, cdn)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
	status = excluded.status, text_id = excluded.text_id,
	fetched_at = excluded.fetched_at, expires_at = excluded.expires_at,
	failed_since = excluded.failed_since, failed_status = excluded.failed_status,
	failures = excluded.failures, next_try = excluded.next_try, cause = excluded.cause,
	user_agent = excluded.user_agent, cdn = excluded.cdn
WHERE policies.fetched_at <= excluded.fetched_at OR policies.fetched_at > ?`
	put, err := db.Prepare(ctx, tx, upsert)
	if err != nil {
		return err
	}
	_, err = put.ExecContext(ctx, rec.Origin, rec.Status, textID, encoding.Milliseconds(rec.FetchedAt), encoding.Milliseconds(rec.ExpiresAt),
		encoding.Milliseconds(rec.FailedSince), rec.FailedStatus, rec.Failures, encoding.Milliseconds(rec.NextTry), rec.Cause, rec.UserAgent, rec.CDN, encoding.Milliseconds(s.now()))
	if err != nil {
		return err
	}
	return putVersion(ctx, db, tx, rec, textID, s.now())
}

// putVersion notes that the record's last answer has been seen. A record with failures since
// is noted too: the record of the answer itself may have been overtaken.
func putVersion(ctx context.Context, db *dbfile.Database, tx *sql.Tx, rec store.Record, textID int64, now time.Time) error {
	if rec.Status == 0 {
		return nil
	}
	const seen = `
INSERT INTO versions (origin, text_id, status, first_seen, last_seen) VALUES (?1, ?2, ?3, ?4, ?4)
ON CONFLICT DO UPDATE SET
	first_seen = min(first_seen, excluded.first_seen),
	last_seen = max(min(last_seen, ?5), excluded.last_seen)
RETURNING first_seen = last_seen AND (SELECT count(*) FROM versions AS known WHERE known.origin = ?1) > ?6`
	note, err := db.Prepare(ctx, tx, seen)
	if err != nil {
		return err
	}
	var tooMany bool
	err = note.QueryRowContext(ctx, rec.Origin, textID, rec.Status, encoding.Milliseconds(rec.FetchedAt), encoding.Milliseconds(now), store.MaxVersions).Scan(&tooMany)
	if err != nil || !tooMany {
		return err
	}
	return dropOldest(ctx, db, tx, rec.Origin)
}

// hasText reports whether a text is kept and can be read.
func hasText(ctx context.Context, db *dbfile.Database, sha256 string) (bool, error) {
	find, err := db.Prepare(ctx, nil, `SELECT gzip FROM texts WHERE sha256 = ?`)
	if err != nil {
		return false, err
	}
	var packed []byte
	err = find.QueryRowContext(ctx, sha256).Scan(&packed)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = encoding.Gunzip(packed)
	return err == nil, nil
}
