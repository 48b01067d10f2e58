package dbfile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// openFile opens the database at path, and creates it if there is none. A file
// that fails the check is set aside, and a new one begun. A lock lets one process
// at a time do this; otherwise a second one would set aside the file that the
// first has just begun. had is what this process has had open at path until now;
// nil if nothing.
func openFile(ctx context.Context, path string, check func(context.Context, *sql.DB) error, had *Database, log zerolog.Logger) (*Database, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	unlock, err := lock(ctx, lockPath(path))
	if err != nil {
		return nil, err
	}
	defer unlock()

	if had != nil && !had.isThere(path) {
		if err := had.clearAway(path); err != nil {
			return nil, fmt.Errorf("removing what is left of the file that was at %s: %w", path, err)
		}
		log.Warn().Str("file", path).
			Msg("the policies on disk were deleted, replaced or cut to nothing: going on with the file that is there now, or a new one")
	}
	if err := refuseNewer(ctx, path); err != nil {
		return nil, err
	}
	db, err := connect(ctx, path, check)
	if !damaged(err) {
		return db, err
	}
	aside, moveErr := setAside(path)
	if moveErr != nil {
		return nil, fmt.Errorf("%w; setting it aside: %w", err, moveErr)
	}
	log.Error().Err(err).Str("file", path).Str("set_aside_as", aside).
		Msg("the policies on disk are damaged: their file is set aside and a new one begun")
	return connect(ctx, path, check)
}

// connect opens the database at path for several processes at once.
func connect(ctx context.Context, path string, check func(context.Context, *sql.DB) error) (*Database, error) {
	// SQLite would make the file readable by everyone.
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600) // O_RDONLY, since the file may be read-only
	if err != nil {
		return nil, err
	}
	f.Close()

	db, err := sql.Open("sqlite", dataSource(path))
	if err != nil {
		return nil, err
	}
	// Readers do not wait for the writer: more connections would have nothing to do.
	const readers = 4
	db.SetMaxOpenConns(readers + 1)
	db.SetMaxIdleConns(readers)
	if err := migrate(ctx, db); err != nil {
		db.Close()
		return nil, fmt.Errorf("opening %s: %w", path, withErrno(err))
	}
	if err := check(ctx, db); err != nil {
		db.Close()
		return nil, fmt.Errorf("checking %s: %w", path, err)
	}
	writer, err := newWriter(ctx, db)
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	d, err := newDatabase(db, path)
	if err != nil {
		return nil, err
	}
	d.writer = writer
	return d, nil
}

// OpenReadOnly opens the database at path for what cannot write it.
func OpenReadOnly(ctx context.Context, path string) (*Database, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", readOnlySource(path))
	if err != nil {
		return nil, err
	}
	if err := lookReadOnly(ctx, db); err != nil {
		db.Close()
		return nil, err
	}
	return newDatabase(db, path)
}

// refuseNewer returns an error if a newer program has written the database at path, and changes
// nothing. Opened for writing, SQLite would already move into the database what a program that was
// killed has left in the write-ahead log. Of other errors, [connect] tells.
func refuseNewer(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", readOnlySource(path))
	if err != nil {
		return nil
	}
	defer db.Close()
	if version, err := schemaVersion(ctx, db); err == nil && version > len(migrations) {
		return fmt.Errorf("opening %s: %w", path, newerSchema(version))
	}
	return nil
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

// dataSource returns path, which may hold any character, as the driver wants it.
// In WAL mode, synchronous=NORMAL loses nothing if the process is killed, and at
// worst the last few seconds if the machine crashes.
func dataSource(path string) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // C:/…
	}
	settings := url.Values{
		"_busy_timeout": {"5000"},
		"_journal_mode": {"WAL"},
		"_synchronous":  {"NORMAL"},
		"_txlock":       {"immediate"},
		"_error_rc":     {"1"},
		"_pragma":       {"wal_autocheckpoint(4000)"},
	}
	return "file://" + (&url.URL{Path: slashed}).EscapedPath() + "?" + settings.Encode()
}

// readOnlySource is dataSource for what cannot, or may not, write the database or create it.
func readOnlySource(path string) string {
	source := dataSource(path) + "&mode=ro"
	// SQLite needs to write a file beside the database to read its write-ahead log. An empty
	// log has no writer, and the database does not change.
	if log, err := os.Stat(path + "-wal"); err != nil || log.Size() == 0 {
		source += "&immutable=1"
	}
	return source
}

// damaged reports whether err says that the file is not a database, is
// incomplete, or is another program's.
func damaged(err error) bool {
	if errors.Is(err, errDamaged) {
		return true
	}
	failure, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	switch failure.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR:
		return true
	}
	return false
}

// withErrno adds syscall.ENOSPC to an error by which SQLite says that there is no room.
func withErrno(err error) error {
	if failure, ok := errors.AsType[*sqlite.Error](err); ok {
		switch failure.Code() {
		case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE:
			return fmt.Errorf("%w: %w", syscall.ENOSPC, err)
		}
	}
	return err
}

// lockPath is the file beside the database at path that its processes lock.
func lockPath(path string) string { return path + ".lock" }

// parts are the suffixes of a database's files. Whoever renames or removes them must
// begin with the write-ahead log: left behind, it would be replayed into the next
// database.
var parts = []string{"-wal", "-shm", ""}

// setAside renames the database and its other files, and returns its new path.
func setAside(path string) (aside string, err error) {
	aside = path + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000Z")
	for _, part := range parts {
		err := os.Rename(path+part, aside+part)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return aside, nil
}
