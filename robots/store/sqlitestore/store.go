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

// Store keeps records in policies.db. Several processes may have it open.
type Store struct {
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
	unswept int      // records written since the last sweep
	victims []victim // of shrink

	evictedVersions, evictedOrigins atomic.Int64

	mending sync.Mutex
	mended  time.Time
}

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

func (s *Store) Close() error { return errors.Join(s.db.Load().Close(), s.leases.Close()) }

func (s *Store) Forget(ctx context.Context, origin string) error {
	return s.write(ctx, func(db *database) error {
		_, err := db.ExecContext(ctx, `DELETE FROM policies WHERE origin = ?`, origin)
		return err
	})
}

// write lets one writer at a time do this.
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

// present returns the database, after it has been opened again if its file is no longer
// there: SQLite would go on writing to one that nobody can open any more.
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

// mend looks whether an error comes of a damaged file, and if it does, goes on
// with another: a new one, or the one that another process has begun. Not more
// than once a minute, as it reads the whole file.
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
