// Package sqlitestore keeps records in policies.db, a SQLite database in the data directory.
// Several processes of one machine may have it open. A [Store] says what is in the tables:
// what is put, read, swept out when it is old, and dropped when the database reaches its size.
// Package counttable does that for counts of decisions; package dbfile looks after the file.
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
	"robotsproxy/robots/store/sqlitestore/dbfile"
)

// A Store keeps records in policies.db. It is safe for concurrent use.
type Store struct {
	file    *dbfile.File
	history time.Duration
	maxSize int64 // 0 means no bound
	log     zerolog.Logger
	now     func() time.Time
	leases  leases

	// These two are for the one writer.
	unswept int      // records written since the last sweep
	victims []victim // of shrink

	evictedVersions, evictedOrigins atomic.Int64
	warnOfDroppedDays               sync.Once
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
	file, err := dbfile.Open(ctx, filepath.Join(dataDir, fileName), log)
	if err != nil {
		return nil, fmt.Errorf("opening the store of policies: %w", err)
	}
	leases, err := openLeases(file.LockPath())
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("opening the store of policies: %w", err)
	}
	s := &Store{file: file, history: opts.History, maxSize: opts.MaxSize, log: log, now: opts.Now, leases: leases}
	s.unswept = sweepEvery // the first write sweeps: not every process lives to see many
	if s.now == nil {
		s.now = time.Now
	}
	return s, nil
}

// fileName is that of the database in the data directory.
const fileName = "policies.db"

// Close implements [store.Store].
func (s *Store) Close() error { return errors.Join(s.file.Close(), s.leases.Close()) }

// Forget implements [store.Store].
func (s *Store) Forget(ctx context.Context, origin string) error {
	return s.file.Write(ctx, func(w *dbfile.Writer) error {
		return w.Exec(ctx, `DELETE FROM policies WHERE origin = ?`, origin)
	})
}
