// Package sqlitestore keeps records in policies.db, a SQLite database in the data directory.
// Several processes of one machine may have it open. A file that is damaged is set aside
// and a new one begun, and one that reaches its size gives up what is oldest.
package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/robots/store"
)

// A Store keeps records in policies.db. It is safe for concurrent use.
type Store struct {
	path    string
	history time.Duration
	maxSize int64 // 0 means no bound
	log     zerolog.Logger
	now     func() time.Time
	db      atomic.Pointer[database]
	leases  leases

	// writing lets one goroutine write at a time: between connections SQLite
	// would have them sleep and try again.
	writing sync.Mutex
	unswept int      // records written since the last sweep
	victims []victim // of shrink

	evictedVersions, evictedOrigins atomic.Int64

	mending sync.Mutex
	mended  time.Time
}

// Open opens policies.db in dataDir, and makes both if they are missing. Of the options it
// uses MaxSize, History and Now. Callers must call Close.
func Open(ctx context.Context, opts store.Options, dataDir string, log zerolog.Logger) (*Store, error) {
	dataDir, err := filepath.Abs(dataDir)
	if err != nil {
		return nil, fmt.Errorf("finding the data directory: %w", err)
	}
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	s := &Store{
		path: filepath.Join(dataDir, "policies.db"), history: opts.History, maxSize: opts.MaxSize, log: log, now: opts.Now,
	}
	s.unswept = sweepEvery // the first write sweeps: not every process lives to see many
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

// Close implements [store.Store].
func (s *Store) Close() error { return errors.Join(s.db.Load().Close(), s.leases.Close()) }

// Forget implements [store.Store].
func (s *Store) Forget(ctx context.Context, origin string) error {
	return s.write(ctx, func(db *database) error {
		_, err := db.ExecContext(ctx, `DELETE FROM policies WHERE origin = ?`, origin)
		return err
	})
}

// write calls do with the database, for one writer at a time.
func (s *Store) write(ctx context.Context, do func(*database) error) error {
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

// present returns the database. If its file is no longer there, it first opens it again:
// SQLite would go on writing to a file that nobody else can open.
func (s *Store) present(ctx context.Context) (*database, error) {
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

// mend checks whether an error comes from a damaged file. If it does, the store goes on with
// another: a new one, or one that another process has begun. The check reads the whole file,
// so it is made at most once a minute.
func (s *Store) mend(ctx context.Context, broken *database, err error) {
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
