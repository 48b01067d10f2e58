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
	return s.file.Write(ctx, func(w *dbfile.Writer) error {
		if err := s.putRecords(ctx, w, recs); err != nil {
			return err
		}
		for s.unswept += len(recs); s.unswept >= sweepEvery; s.unswept -= sweepEvery {
			if err := s.sweep(ctx, w); err != nil {
				s.log.Debug().Err(err).Msg("old policies could not be swept out") // the next sweep will try again
			}
		}
		if err := s.shrink(ctx, w); err != nil {
			s.log.Debug().Err(err).Msg("the database could not be made smaller") // the next write will try again
		}
		return nil
	})
}

// putRecords keeps all of the records or none.
func (s *Store) putRecords(ctx context.Context, w *dbfile.Writer, recs []store.Record) error {
	// Compressing takes time, so it is done before other processes have to wait.
	packed := make(map[string][]byte) // by SHA-256; nil if it is kept already
	for _, rec := range recs {
		if _, is := packed[rec.SHA256]; is || rec.SHA256 == "" {
			continue
		}
		kept, err := hasText(ctx, w, rec.SHA256)
		if err != nil {
			return err
		}
		packed[rec.SHA256] = nil
		if !kept {
			packed[rec.SHA256] = encoding.Gzip(rec.Body)
		}
	}

	return w.Transact(ctx, func() error {
		ids := make(map[string]int64) // of the texts, by SHA-256
		for _, rec := range recs {
			textID, is := ids[rec.SHA256]
			if !is {
				var err error
				if textID, err = putText(ctx, w, rec, packed[rec.SHA256]); err != nil {
					return err
				}
				ids[rec.SHA256] = textID
			}
			if err := s.putRecord(ctx, w, rec, textID); err != nil {
				return err
			}
		}
		return nil
	})
}

// putText returns the id of the record's text, 0 if it has none. It first keeps the text if
// packed is not nil.
func putText(ctx context.Context, w *dbfile.Writer, rec store.Record, packed []byte) (id int64, err error) {
	if rec.SHA256 == "" {
		return 0, nil
	}
	if packed == nil {
		find := w.QueryRow(ctx, `SELECT id FROM texts WHERE sha256 = ?`, rec.SHA256)
		if err := find.Scan(&id); !errors.Is(err, sql.ErrNoRows) {
			return id, err
		}
		packed = encoding.Gzip(rec.Body) // another process has swept it out since
	}
	const insert = `
INSERT INTO texts (sha256, gzip) VALUES (?, ?)
ON CONFLICT DO UPDATE SET gzip = excluded.gzip RETURNING id`
	err = w.QueryRow(ctx, insert, rec.SHA256, packed).Scan(&id)
	return id, err
}

func (s *Store) putRecord(ctx context.Context, w *dbfile.Writer, rec store.Record, textID int64) error {
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
	err := w.Exec(ctx, upsert, rec.Origin, rec.Status, textID, encoding.Milliseconds(rec.FetchedAt), encoding.Milliseconds(rec.ExpiresAt),
		encoding.Milliseconds(rec.FailedSince), rec.FailedStatus, rec.Failures, encoding.Milliseconds(rec.NextTry), rec.Cause, rec.UserAgent, rec.CDN, encoding.Milliseconds(s.now()))
	if err != nil {
		return err
	}
	return putVersion(ctx, w, rec, textID, s.now())
}

// putVersion notes that the record's last answer has been seen. A record with failures since
// is noted too: the record of the answer itself may have been overtaken.
func putVersion(ctx context.Context, w *dbfile.Writer, rec store.Record, textID int64, now time.Time) error {
	if rec.Status == 0 {
		return nil
	}
	const seen = `
INSERT INTO versions (origin, text_id, status, first_seen, last_seen) VALUES (?1, ?2, ?3, ?4, ?4)
ON CONFLICT DO UPDATE SET
	first_seen = min(first_seen, excluded.first_seen),
	last_seen = max(min(last_seen, ?5), excluded.last_seen)
RETURNING first_seen = last_seen AND (SELECT count(*) FROM versions AS known WHERE known.origin = ?1) > ?6`
	var tooMany bool
	err := w.QueryRow(ctx, seen, rec.Origin, textID, rec.Status, encoding.Milliseconds(rec.FetchedAt), encoding.Milliseconds(now), store.MaxVersions).Scan(&tooMany)
	if err != nil || !tooMany {
		return err
	}
	return dropOldest(ctx, w, rec.Origin)
}

// hasText reports whether a text is kept and can be read.
func hasText(ctx context.Context, w *dbfile.Writer, sha256 string) (bool, error) {
	var packed []byte
	err := w.QueryRow(ctx, `SELECT gzip FROM texts WHERE sha256 = ?`, sha256).Scan(&packed)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = encoding.Gunzip(packed)
	return err == nil, nil
}
