package dbfile

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"sync"
)

// A Database is an open file, for reading. It prepares frequent statements once: preparing
// takes longer than running most of them.
type Database struct {
	*sql.DB
	writer   *Writer                // nil: the file cannot be written
	files    map[string]os.FileInfo // as they were when opened, by part
	prepared sync.Map               // *sql.Stmt by its text
}

// newDatabase returns db, which has been opened at path, and notes which files those are.
func newDatabase(db *sql.DB, path string) (*Database, error) {
	d := &Database{DB: db, files: make(map[string]os.FileInfo)}
	for _, part := range parts {
		file, err := os.Stat(path + part)
		if err == nil {
			d.files[part] = file
		} else if part == "" {
			db.Close()
			return nil, err
		}
	}
	return d, nil
}

// Close closes the database. Nobody may use it any more.
func (d *Database) Close() error {
	if d.writer != nil {
		d.writer.close()
	}
	return d.DB.Close()
}

// Prepare makes a statement ready to run. There must be few texts: each is kept for as long as
// the database is open.
func (d *Database) Prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	kept, is := d.prepared.Load(text)
	if !is {
		stmt, err := d.PrepareContext(ctx, text)
		if err != nil {
			return nil, err
		}
		if kept, is = d.prepared.LoadOrStore(text, stmt); is {
			stmt.Close() // another goroutine was first
		}
	}
	return kept.(*sql.Stmt), nil
}

// isThere reports whether the file at path is still the one that is open, and not cut
// to nothing. It also reports true if the system can't tell.
func (d *Database) isThere(path string) bool {
	now, err := os.Stat(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return os.SameFile(now, d.files[""]) && now.Size() > 0
}

// clearAway removes the files that a deleted or replaced database has left at path.
// SQLite would share them between that database and the next. Files that another
// process has begun there stay.
func (d *Database) clearAway(path string) error {
	for _, part := range parts {
		now, err := os.Stat(path + part)
		if err != nil || d.files[part] == nil || !os.SameFile(now, d.files[part]) {
			continue
		}
		if err := os.Remove(path + part); err != nil {
			return err
		}
	}
	return nil
}
