package sqlitestore

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"robotsproxy/robots/store"
	"robotsproxy/robots/store/counts"
	"robotsproxy/robots/store/sqlitestore/counttable"
	"robotsproxy/robots/store/sqlitestore/dbfile"
)

// readOnly keeps in memory what is put. It also finds what is in a database that cannot be
// written.
type readOnly struct {
	*store.Memory
	counted counts.Memory
	file    *dbfile.Database
}

// OpenReadOnly opens the policies in dataDir, which cannot be written. What is put goes to
// memory, and is lost at the end. If no policies can be read in dataDir, the store is
// memory alone.
func OpenReadOnly(ctx context.Context, dataDir string, memory *store.Memory) store.Store {
	file, err := dbfile.OpenReadOnly(ctx, filepath.Join(dataDir, fileName))
	if err != nil {
		return memory
	}
	return &readOnly{Memory: memory, file: file}
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

// Text implements [store.Store].
func (r *readOnly) Text(ctx context.Context, origin, sha256 string) ([]byte, bool, error) {
	if text, ok, err := r.Memory.Text(ctx, origin, sha256); ok || err != nil {
		return text, ok, err
	}
	return readText(ctx, r.file, sha256)
}

// AddCounts implements [counts.Store].
func (r *readOnly) AddCounts(ctx context.Context, b counts.Batch) error {
	return r.counted.AddCounts(ctx, b)
}

// Counts implements [counts.Store].
func (r *readOnly) Counts(ctx context.Context, p counts.Period, do func(counts.Row) error) error {
	if err := counttable.Read(ctx, r.file, p, do); err != nil {
		return err
	}
	return r.counted.Counts(ctx, p, do)
}

// DaysRun implements [counts.Store].
func (r *readOnly) DaysRun(ctx context.Context, p counts.Period) ([]counts.Day, error) {
	before, err := counttable.DaysRun(ctx, r.file, p)
	if err != nil {
		return nil, err
	}
	now, err := r.counted.DaysRun(ctx, p)
	days := append(before, now...)
	slices.Sort(days)
	return slices.Compact(days), err
}

// Changes is [Store.Changes] of the file.
func (r *readOnly) Changes(ctx context.Context, from, until time.Time, do func(store.Change)) error {
	return readChanges(ctx, r.file, from, until, do)
}

func (r *readOnly) Close() error {
	r.Memory.Close()
	return r.file.Close()
}
