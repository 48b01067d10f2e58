package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"robotsproxy/robots/store"
)

// readOnly keeps in memory what is put. It also finds what is in a database that cannot be
// written.
type readOnly struct {
	*store.Memory
	file *database
}

// OpenReadOnly opens the policies in dataDir, which cannot be written. What is put goes to
// memory, and is lost at the end. If no policies can be read in dataDir, the store is
// memory alone.
func OpenReadOnly(ctx context.Context, dataDir string, memory *store.Memory) store.Store {
	file, err := connectReadOnly(ctx, filepath.Join(dataDir, "policies.db"))
	if err != nil {
		return memory
	}
	return &readOnly{memory, file}
}

func connectReadOnly(ctx context.Context, path string) (*database, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	// SQLite reads a log of writes only by a file that it shares with their writer.
	// Without a log, nobody writes.
	mode := "&immutable=1"
	if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 {
		mode = "&mode=ro"
	}
	db, err := sql.Open("sqlite", dataSource(path)+mode)
	if err != nil {
		return nil, err
	}
	if err := lookReadOnly(ctx, db); err != nil {
		db.Close()
		return nil, err
	}
	return newDatabase(db, path)
}

// lookReadOnly is look for a file that has not been migrated, and cannot be.
func lookReadOnly(ctx context.Context, db *sql.DB) error {
	switch version, err := schemaVersion(ctx, db); {
	case err != nil:
		return err
	case version < len(migrations):
		return fmt.Errorf("its schema is version %d, and this program reads version %d", version, len(migrations))
	}
	return look(ctx, db)
}

func (r *readOnly) Get(ctx context.Context, origin string) (store.Record, bool, error) {
	rec, ok, err := r.Memory.Get(ctx, origin)
	if ok || err != nil {
		return rec, ok, err
	}
	recs, err := readRecords(ctx, r.file, true, `WHERE origin = ?`, origin)
	if err != nil || len(recs) == 0 {
		return store.Record{}, false, err
	}
	return recs[0], true, nil
}

func (r *readOnly) Versions(ctx context.Context, origin string) ([]store.Version, error) {
	now, err := r.Memory.Versions(ctx, origin)
	if err != nil {
		return nil, err
	}
	before, err := readVersions(ctx, r.file, origin)
	return slices.Concat(now, before), err
}

func (r *readOnly) Close() error {
	r.Memory.Close()
	return r.file.Close()
}
