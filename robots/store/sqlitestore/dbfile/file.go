// Package dbfile is policies.db as a file that several processes of one machine have open: its
// schema, who may change it when, and what happens when it is damaged, deleted or replaced
// while it is in use. What is in its tables is for package sqlitestore to say.
//
// [Open] opens it. [File.Read] and [File.Write] then lend out the [Database] that is there, and the
// [Writer] that may change it.
package dbfile

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// A File is safe for concurrent use.
type File struct {
	path string
	log  zerolog.Logger
	db   atomic.Pointer[Database]

	// writing lets one goroutine write at a time: between connections SQLite
	// would have them sleep and try again.
	writing sync.Mutex

	mending sync.Mutex
	mended  time.Time
}

// Open opens the database at path, an absolute one, and makes it if there is none. A file that
// is damaged is set aside and a new one begun. Callers must call Close.
func Open(ctx context.Context, path string, log zerolog.Logger) (*File, error) {
	db, err := openFile(ctx, path, look, nil, log)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, log: log}
	f.db.Store(db)
	return f, nil
}

// Close closes the database. Nobody may read or write any more.
func (f *File) Close() error { return f.db.Load().Close() }

// LockPath is the file beside the database that its processes lock as a whole, by flock. They
// may use other kinds of locks on it too.
func (f *File) LockPath() string { return lockPath(f.path) }

// Read calls do with the database. If do fails because the file is damaged, the next call gets
// another one.
func (f *File) Read(ctx context.Context, do func(*Database) error) error {
	db := f.db.Load()
	if err := do(db); err != nil {
		f.mend(ctx, db, err)
		return fmt.Errorf("reading from %s: %w", f.path, err)
	}
	return nil
}

// Write is [File.Read] for one writer of this process at a time. If the file is no longer
// there, do gets the one that is there now, or a new one.
func (f *File) Write(ctx context.Context, do func(*Writer) error) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	db, err := f.present(ctx)
	if err != nil {
		return err
	}
	if err := do(db.writer); err != nil {
		f.mend(ctx, db, err)
		return fmt.Errorf("writing to %s: %w", f.path, err)
	}
	return nil
}

// present returns the database. If its file is no longer there, it first opens it again:
// SQLite would go on writing to a file that nobody else can open.
func (f *File) present(ctx context.Context) (*Database, error) {
	if db := f.db.Load(); db.isThere(f.path) {
		return db, nil
	}
	f.mending.Lock()
	defer f.mending.Unlock()
	gone := f.db.Load()
	db, err := openFile(ctx, f.path, look, gone, f.log)
	if err != nil {
		return nil, fmt.Errorf("opening the store of policies again: %w", err)
	}
	f.db.Store(db)
	gone.Close()
	return db, nil
}

// mend checks whether an error comes from a damaged file. If it does, f goes on with another:
// a new one, or one that another process has begun. The check reads the whole file, so it is
// made at most once every mendPause.
func (f *File) mend(ctx context.Context, broken *Database, err error) {
	if !damaged(err) || !f.mending.TryLock() {
		return
	}
	defer f.mending.Unlock()
	if f.db.Load() != broken || time.Since(f.mended) < mendPause {
		return
	}
	f.mended = time.Now()
	db, err := openFile(ctx, f.path, examine, broken, f.log)
	if err != nil {
		f.log.Error().Err(err).Msg("the policies on disk are damaged and no new file could be begun")
		return
	}
	f.db.Store(db)
	broken.Close()
}

// mendPause is the shortest time between two checks of the whole file.
const mendPause = time.Minute
