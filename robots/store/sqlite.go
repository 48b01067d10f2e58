package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// sqliteStore keeps records in policies.db. Several processes may have it open.
type sqliteStore struct {
	path string
	log  zerolog.Logger
	db   atomic.Pointer[sql.DB]

	// writing lets one goroutine write at a time: between connections SQLite
	// would have them sleep and try again.
	writing sync.Mutex

	mending sync.Mutex
	mended  time.Time
}

func openSQLite(ctx context.Context, dataDir string, log zerolog.Logger) (Store, error) {
	dataDir, err := filepath.Abs(dataDir)
	if err != nil {
		return nil, fmt.Errorf("finding the data directory: %w", err)
	}
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	s := &sqliteStore{path: filepath.Join(dataDir, "policies.db"), log: log}
	db, err := openFile(ctx, s.path, look, log)
	if err != nil {
		return nil, fmt.Errorf("opening the store of policies: %w", err)
	}
	s.db.Store(db)
	return s, nil
}

func (s *sqliteStore) Close() error { return s.db.Load().Close() }

const selectRecords = `
SELECT origin, status, coalesce(sha256, ''), gzip, fetched_at, expires_at,
	failed_since, failed_status, failures, next_try, cause
FROM policies LEFT JOIN texts ON texts.id = text_id `

func (s *sqliteStore) Get(ctx context.Context, origin string) (Record, bool, error) {
	recs, err := s.query(ctx, selectRecords+`WHERE origin = ?`, origin)
	if err != nil || len(recs) == 0 {
		return Record{}, false, err
	}
	return recs[0], true, nil
}

func (s *sqliteStore) List(ctx context.Context, after string, limit int) ([]Record, error) {
	return s.query(ctx, selectRecords+`WHERE origin > ? ORDER BY origin LIMIT ?`, after, limit)
}

func (s *sqliteStore) query(ctx context.Context, query string, args ...any) ([]Record, error) {
	db := s.db.Load()
	recs, err := readRecords(ctx, db, query, args...)
	if err != nil {
		s.mend(ctx, db, err)
		return nil, fmt.Errorf("reading from %s: %w", s.path, err)
	}
	return recs, nil
}

func readRecords(ctx context.Context, db *sql.DB, query string, args ...any) ([]Record, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var recs []Record
	for rows.Next() {
		var r Record
		var packed sql.RawBytes
		err := rows.Scan(&r.Origin, &r.Status, &r.SHA256, &packed, at{&r.FetchedAt}, at{&r.ExpiresAt},
			at{&r.FailedSince}, &r.FailedStatus, &r.Failures, at{&r.NextTry}, &r.Cause)
		if err != nil {
			return nil, err
		}
		if packed != nil {
			if r.Body, err = unpack(packed); err != nil {
				return nil, fmt.Errorf("unpacking the robots.txt of %s: %w", r.Origin, err)
			}
		}
		recs = append(recs, r)
	}
	return recs, rows.Err()
}

func (s *sqliteStore) Put(ctx context.Context, rec Record) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	db := s.db.Load()
	if err := write(ctx, db, rec); err != nil {
		s.mend(ctx, db, err)
		return fmt.Errorf("writing to %s: %w", s.path, err)
	}
	return nil
}

func write(ctx context.Context, db *sql.DB, rec Record) error {
	// Packing takes its time, so it is done before other processes have to wait.
	textID, err := findText(ctx, db, rec.SHA256)
	if err != nil {
		return err
	}
	var packed []byte
	if rec.SHA256 != "" && textID == 0 {
		packed = pack(rec.Body)
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if packed != nil {
		const insert = `INSERT INTO texts (sha256, gzip) VALUES (?, ?) ON CONFLICT DO NOTHING`
		if _, err := tx.ExecContext(ctx, insert, rec.SHA256, packed); err != nil {
			return err
		}
		if textID, err = findText(ctx, tx, rec.SHA256); err != nil {
			return err
		}
	}
	// The condition is for a failure that began before another process got an
	// answer. An answer from later than the failure's next try is from a clock
	// that was wrong.
	const upsert = `
INSERT INTO policies (origin, status, text_id, fetched_at, expires_at,
	failed_since, failed_status, failures, next_try, cause)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
	status = excluded.status, text_id = excluded.text_id,
	fetched_at = excluded.fetched_at, expires_at = excluded.expires_at,
	failed_since = excluded.failed_since, failed_status = excluded.failed_status,
	failures = excluded.failures, next_try = excluded.next_try, cause = excluded.cause
WHERE excluded.failures = 0 OR policies.fetched_at <= excluded.fetched_at OR policies.fetched_at > excluded.next_try`
	_, err = tx.ExecContext(ctx, upsert, rec.Origin, rec.Status, textID, ms(rec.FetchedAt), ms(rec.ExpiresAt),
		ms(rec.FailedSince), rec.FailedStatus, rec.Failures, ms(rec.NextTry), rec.Cause)
	if err != nil {
		return err
	}
	if rec.Failures == 0 {
		const seen = `
INSERT INTO versions (origin, text_id, status, first_seen, last_seen) VALUES (?, ?, ?, ?4, ?4)
ON CONFLICT DO UPDATE SET last_seen = max(last_seen, excluded.last_seen)`
		if _, err := tx.ExecContext(ctx, seen, rec.Origin, textID, rec.Status, ms(rec.FetchedAt)); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// findText returns the id of a text; 0 if there is none, or no sum to go by.
func findText(ctx context.Context, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, sha256 string) (id int64, err error) {
	if sha256 == "" {
		return 0, nil
	}
	err = db.QueryRowContext(ctx, `SELECT id FROM texts WHERE sha256 = ?`, sha256).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return id, err
}

// mend looks whether an error comes of a damaged file, and if it does, goes on
// with another: a new one, or the one that another process has begun. Not more
// than once a minute, as it reads the whole file.
func (s *sqliteStore) mend(ctx context.Context, broken *sql.DB, err error) {
	if !damaged(err) || !s.mending.TryLock() {
		return
	}
	defer s.mending.Unlock()
	if s.db.Load() != broken || time.Since(s.mended) < time.Minute {
		return
	}
	s.mended = time.Now()
	db, err := openFile(ctx, s.path, examine, s.log)
	if err != nil {
		s.log.Error().Err(err).Msg("the policies on disk are damaged and no new file could be begun")
		return
	}
	s.db.Store(db)
	broken.Close()
}

func pack(text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(text) // a bytes.Buffer takes everything
	w.Close()
	return b.Bytes()
}

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r)
	return bytes.Clone(text), err // without what ReadAll holds in reserve
}

// ms is how a time is kept: Unix milliseconds, 0 for the zero time.
func ms(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// at scans what ms has written.
type at struct{ time *time.Time }

func (a at) Scan(value any) error {
	n, ok := value.(int64)
	if !ok {
		return fmt.Errorf("%v is no time", value)
	}
	*a.time = time.Time{}
	if n != 0 {
		*a.time = time.UnixMilli(n).UTC()
	}
	return nil
}
