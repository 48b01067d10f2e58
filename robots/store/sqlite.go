package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// sqliteStore keeps records in policies.db. Several processes may have it open.
type sqliteStore struct {
	path    string
	history time.Duration
	maxSize int64 // 0: no bound
	log     zerolog.Logger
	now     func() time.Time
	db      atomic.Pointer[database]
	leases  leases

	// writing lets one goroutine write at a time: between connections SQLite
	// would have them sleep and try again.
	writing sync.Mutex
	unswept int // records written since the last sweep
	packer  packer
	victims []victim // of shrink
	evicted Evicted

	mending sync.Mutex
	mended  time.Time
}

func openSQLite(ctx context.Context, opts Options, dataDir string, log zerolog.Logger) (Store, error) {
	dataDir, err := filepath.Abs(dataDir)
	if err != nil {
		return nil, fmt.Errorf("finding the data directory: %w", err)
	}
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	s := &sqliteStore{
		path: filepath.Join(dataDir, "policies.db"), history: opts.History, maxSize: opts.MaxSize, log: log, now: opts.Now,
	}
	s.unswept = sweepEvery // with the first write: not every process lives to see many
	if s.now == nil {
		s.now = time.Now
	}
	db, err := openFile(ctx, s.path, look, nil, log)
	if err != nil {
		return nil, fmt.Errorf("opening the store of policies: %w", err)
	}
	s.db.Store(db)
	if s.leases, err = openLeases(lockPath(s.path)); err != nil {
		db.Close()
		return nil, fmt.Errorf("opening the store of policies: %w", err)
	}
	return s, nil
}

// Evicted counts what has been dropped to stay within MaxSize.
func (s *sqliteStore) Evicted() *Evicted { return &s.evicted }

func (s *sqliteStore) Close() error { return errors.Join(s.db.Load().Close(), s.leases.Close()) }

func (s *sqliteStore) Get(ctx context.Context, origin string) (Record, bool, error) {
	recs, err := s.query(ctx, true, `WHERE origin = ?`, origin)
	if err != nil || len(recs) == 0 {
		return Record{}, false, err
	}
	return recs[0], true, nil
}

func (s *sqliteStore) List(ctx context.Context, after, part string, limit int) ([]Record, error) {
	return s.query(ctx, false, `WHERE origin > ? AND instr(origin, ?) ORDER BY origin LIMIT ?`, after, part, limit)
}

func (s *sqliteStore) query(ctx context.Context, texts bool, where string, args ...any) ([]Record, error) {
	db := s.db.Load()
	recs, err := readRecords(ctx, db, texts, where, args...)
	if err != nil {
		s.mend(ctx, db, err)
		return nil, fmt.Errorf("reading from %s: %w", s.path, err)
	}
	return recs, nil
}

// readRecords reads the records of a condition, with or without their texts.
func readRecords(ctx context.Context, db *database, texts bool, where string, args ...any) ([]Record, error) {
	text := "NULL"
	if texts {
		text = "gzip"
	}
	query, err := db.prepare(ctx, nil, `
SELECT origin, status, coalesce(sha256, ''), `+text+`, fetched_at, expires_at,
	failed_since, failed_status, failures, next_try, cause, user_agent
FROM policies LEFT JOIN texts ON texts.id = text_id `+where)
	if err != nil {
		return nil, err
	}
	rows, err := query.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var recs []Record
	for rows.Next() {
		var r Record
		var packed sql.RawBytes
		err := rows.Scan(&r.Origin, &r.Status, &r.SHA256, &packed, at{&r.FetchedAt}, at{&r.ExpiresAt},
			at{&r.FailedSince}, &r.FailedStatus, &r.Failures, at{&r.NextTry}, &r.Cause, &r.UserAgent)
		if err != nil {
			return nil, err
		}
		if texts && r.SHA256 != "" {
			if r.Body, err = unpack(packed); err != nil {
				return nil, fmt.Errorf("unpacking the robots.txt of %s: %w", r.Origin, err)
			}
		}
		recs = append(recs, r)
	}
	return recs, rows.Err()
}

func (s *sqliteStore) Versions(ctx context.Context, origin string) ([]Version, error) {
	db := s.db.Load()
	versions, err := readVersions(ctx, db, origin)
	if err != nil {
		s.mend(ctx, db, err)
		return nil, fmt.Errorf("reading from %s: %w", s.path, err)
	}
	return versions, nil
}

func readVersions(ctx context.Context, db *database, origin string) ([]Version, error) {
	rows, err := db.QueryContext(ctx, `
SELECT coalesce(sha256, ''), gzip, status, first_seen, last_seen
FROM versions LEFT JOIN texts ON texts.id = text_id
WHERE origin = ? ORDER BY last_seen DESC, first_seen DESC`, origin)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var versions []Version
	for read := 0; rows.Next(); {
		var v Version
		var packed sql.RawBytes
		if err := rows.Scan(&v.SHA256, &packed, &v.Status, at{&v.FirstSeen}, at{&v.LastSeen}); err != nil {
			return nil, err
		}
		if v.SHA256 != "" {
			if v.Body, err = unpack(packed); err != nil {
				return nil, fmt.Errorf("unpacking an old robots.txt of %s: %w", origin, err)
			}
		}
		if read += len(v.Body); read > maxHistory && len(versions) > 0 {
			break
		}
		versions = append(versions, v)
	}
	return versions, rows.Err()
}

func (s *sqliteStore) Forget(ctx context.Context, origin string) error {
	return s.write(ctx, func(db *database) error {
		_, err := db.ExecContext(ctx, `DELETE FROM policies WHERE origin = ?`, origin)
		return err
	})
}

func (s *sqliteStore) Put(ctx context.Context, recs ...Record) error {
	return s.write(ctx, func(db *database) error {
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

// write lets one writer at a time do this.
func (s *sqliteStore) write(ctx context.Context, do func(*database) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	db, err := s.present(ctx)
	if err != nil {
		return err
	}
	if err := do(db); err != nil {
		s.mend(ctx, db, err)
		return fmt.Errorf("writing to %s: %w", s.path, err)
	}
	return nil
}

// present returns the database, after it has been opened again if its file is no longer
// there: SQLite would go on writing to one that nobody can open any more.
func (s *sqliteStore) present(ctx context.Context) (*database, error) {
	if db := s.db.Load(); db.isThere(s.path) {
		return db, nil
	}
	s.mending.Lock()
	defer s.mending.Unlock()
	gone := s.db.Load()
	db, err := openFile(ctx, s.path, look, gone, s.log)
	if err != nil {
		return nil, fmt.Errorf("opening the store of policies again: %w", err)
	}
	s.db.Store(db)
	gone.Close()
	return db, nil
}

// putRecords keeps all of the records or none.
func (s *sqliteStore) putRecords(ctx context.Context, db *database, recs []Record) error {
	// Packing takes its time, so it is done before other processes have to wait.
	packed := make(map[string][]byte) // by sum; nil: it is there
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
			packed[rec.SHA256] = s.packer.pack(rec.Body)
		}
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, rec := range recs {
		textID, err := s.putText(ctx, db, tx, rec, packed[rec.SHA256])
		if err != nil {
			return err
		}
		packed[rec.SHA256] = nil
		if err := s.putRecord(ctx, db, tx, rec, textID); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// putText returns the id of the record's text; 0 if it has none. packed is the text
// where it must be kept first; nil: it is there already.
func (s *sqliteStore) putText(ctx context.Context, db *database, tx *sql.Tx, rec Record, packed []byte) (id int64, err error) {
	if rec.SHA256 == "" {
		return 0, nil
	}
	if packed == nil {
		find, err := db.prepare(ctx, tx, `SELECT id FROM texts WHERE sha256 = ?`)
		if err != nil {
			return 0, err
		}
		if err := find.QueryRowContext(ctx, rec.SHA256).Scan(&id); !errors.Is(err, sql.ErrNoRows) {
			return id, err
		}
		packed = s.packer.pack(rec.Body) // another process has swept it out since
	}
	insert, err := db.prepare(ctx, tx, `
INSERT INTO texts (sha256, gzip) VALUES (?, ?)
ON CONFLICT DO UPDATE SET gzip = excluded.gzip RETURNING id`)
	if err != nil {
		return 0, err
	}
	err = insert.QueryRowContext(ctx, rec.SHA256, packed).Scan(&id)
	return id, err
}

func (s *sqliteStore) putRecord(ctx context.Context, db *database, tx *sql.Tx, rec Record, textID int64) error {
	// The condition is for what comes late: another process may have got an
	// answer meanwhile. One from the future is from a clock that was wrong.
	const upsert = `
INSERT INTO policies (origin, status, text_id, fetched_at, expires_at,
	failed_since, failed_status, failures, next_try, cause, user_agent)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
	status = excluded.status, text_id = excluded.text_id,
	fetched_at = excluded.fetched_at, expires_at = excluded.expires_at,
	failed_since = excluded.failed_since, failed_status = excluded.failed_status,
	failures = excluded.failures, next_try = excluded.next_try, cause = excluded.cause,
	user_agent = excluded.user_agent
WHERE policies.fetched_at <= excluded.fetched_at OR policies.fetched_at > ?`
	put, err := db.prepare(ctx, tx, upsert)
	if err != nil {
		return err
	}
	_, err = put.ExecContext(ctx, rec.Origin, rec.Status, textID, ms(rec.FetchedAt), ms(rec.ExpiresAt),
		ms(rec.FailedSince), rec.FailedStatus, rec.Failures, ms(rec.NextTry), rec.Cause, rec.UserAgent, ms(s.now()))
	if err != nil {
		return err
	}
	return putVersion(ctx, db, tx, rec, textID, s.now())
}

// putVersion notes that the record's last answer has been seen. With failures
// since then it is noted too: its own record may have been overtaken.
func putVersion(ctx context.Context, db *database, tx *sql.Tx, rec Record, textID int64, now time.Time) error {
	if rec.Status == 0 {
		return nil
	}
	const seen = `
INSERT INTO versions (origin, text_id, status, first_seen, last_seen) VALUES (?1, ?2, ?3, ?4, ?4)
ON CONFLICT DO UPDATE SET
	first_seen = min(first_seen, excluded.first_seen),
	last_seen = max(min(last_seen, ?5), excluded.last_seen)
RETURNING first_seen = last_seen`
	note, err := db.prepare(ctx, tx, seen)
	if err != nil {
		return err
	}
	var first bool
	err = note.QueryRowContext(ctx, rec.Origin, textID, rec.Status, ms(rec.FetchedAt), ms(now)).Scan(&first)
	if err != nil || !first {
		return err
	}
	return dropOldest(ctx, db, tx, rec.Origin)
}

// hasText reports whether there is a text that can be read.
func hasText(ctx context.Context, db *database, sha256 string) (bool, error) {
	find, err := db.prepare(ctx, nil, `SELECT gzip FROM texts WHERE sha256 = ?`)
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
	_, err = unpack(packed)
	return err == nil, nil
}

// mend looks whether an error comes of a damaged file, and if it does, goes on
// with another: a new one, or the one that another process has begun. Not more
// than once a minute, as it reads the whole file.
func (s *sqliteStore) mend(ctx context.Context, broken *database, err error) {
	if !damaged(err) || !s.mending.TryLock() {
		return
	}
	defer s.mending.Unlock()
	if s.db.Load() != broken || time.Since(s.mended) < time.Minute {
		return
	}
	s.mended = time.Now()
	db, err := openFile(ctx, s.path, examine, broken, s.log)
	if err != nil {
		s.log.Error().Err(err).Msg("the policies on disk are damaged and no new file could be begun")
		return
	}
	s.db.Store(db)
	broken.Close()
}
