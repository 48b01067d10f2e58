package sqlitestore

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

// openFile opens the database at path, and makes it if there is none. One that
// does not pass the check is set aside and a new one begun; a lock lets one
// process at a time do this, or a second one would set aside what the first
// has just begun. had is what this process has had open there until now; nil: nothing.
func openFile(ctx context.Context, path string, check func(context.Context, *sql.DB) error, had *database, log zerolog.Logger) (*database, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	unlock, err := lock(ctx, lockPath(path))
	if err != nil {
		return nil, err
	}
	defer unlock()

	if had != nil && !had.isThere(path) {
		if err := had.clearAway(path); err != nil {
			return nil, fmt.Errorf("taking away what is left of the file that was at %s: %w", path, err)
		}
		log.Warn().Str("file", path).
			Msg("the policies on disk were deleted, replaced or cut to nothing: going on with the file that is there now, or a new one")
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
func connect(ctx context.Context, path string, check func(context.Context, *sql.DB) error) (*database, error) {
	// SQLite would make the file readable by everyone.
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600) // which may be one that is read-only
	if err != nil {
		return nil, err
	}
	f.Close()

	db, err := sql.Open("sqlite", dataSource(path))
	if err != nil {
		return nil, err
	}
	// Readers do not wait for a writer; writers of one process take turns in
	// Store.Put, so that more connections would have nothing to do.
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	if err := migrate(ctx, db); err != nil {
		db.Close()
		return nil, fmt.Errorf("opening %s: %w", path, withErrno(err))
	}
	if err := check(ctx, db); err != nil {
		db.Close()
		return nil, fmt.Errorf("checking %s: %w", path, err)
	}
	return newDatabase(db, path)
}

// dataSource is path as the driver wants it, any character in it allowed. In
// WAL mode synchronous=NORMAL loses nothing when the process is killed, and at
// worst the last few seconds when the machine is.
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
	}
	return "file://" + (&url.URL{Path: slashed}).EscapedPath() + "?" + settings.Encode()
}

// damaged reports whether the error says that the file is no database, no
// whole one, or not one of ours.
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

// parts are what a database's files have behind its name. The write-ahead log goes
// first where they are renamed or removed: left behind, it would be replayed into the
// next database.
var parts = []string{"-wal", "-shm", ""}

// setAside renames the database and what belongs to it.
func setAside(path string) (string, error) {
	aside := path + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000Z")
	for _, part := range parts {
		err := os.Rename(path+part, aside+part)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return aside, nil
}
