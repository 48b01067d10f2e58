package dbfile

import (
	"context"
	"database/sql"
)

// A Writer is the one connection of this process that changes the database. SQLite empties a
// connection's cache of pages when another connection has written. It prepares each statement
// once, so there must be few texts. One goroutine at a time may use it.
//
// A statement does not begin once its context has ended, but is not interrupted: to watch for
// that takes a goroutine or two, which cost as much as the statement.
type Writer struct {
	conn     *sql.Conn
	prepared map[string]*sql.Stmt // by their texts
}

// newWriter takes a connection of db for a Writer.
func newWriter(ctx context.Context, db *sql.DB) (*Writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &Writer{conn: conn, prepared: make(map[string]*sql.Stmt)}, nil
}

// close gives the connection back, which ends with its database.
func (w *Writer) close() {
	for _, stmt := range w.prepared {
		stmt.Close() // or SQLite would not close the connection
	}
	w.conn.Close()
}

// Transact runs do in a transaction. What do writes is kept if it returns nil, and else undone.
func (w *Writer) Transact(ctx context.Context, do func() error) error {
	if err := w.Exec(ctx, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	kept := false
	defer func() { // after a panic too
		if !kept {
			w.Exec(context.WithoutCancel(ctx), `ROLLBACK`) // it fails where SQLite has rolled back by itself
		}
	}()
	if err := do(); err != nil {
		return err
	}
	err := w.Exec(ctx, `COMMIT`)
	kept = err == nil
	return err
}

// Exec runs a statement that has no rows.
func (w *Writer) Exec(ctx context.Context, text string, args ...any) error {
	_, err := w.Change(ctx, text, args...)
	return err
}

// Change runs a statement that changes rows, and returns how many.
func (w *Writer) Change(ctx context.Context, text string, args ...any) (rows int64, err error) {
	stmt, err := w.prepare(ctx, text)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Query runs a statement. Callers must close the rows before they run another.
func (w *Writer) Query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	stmt, err := w.prepare(ctx, text)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(context.Background(), args...)
}

// QueryRow runs a statement that has one row. The error is [sql.ErrNoRows] if it has none.
func (w *Writer) QueryRow(ctx context.Context, text string, args ...any) Row {
	stmt, err := w.prepare(ctx, text)
	if err != nil {
		return Row{err: err}
	}
	return Row{row: stmt.QueryRowContext(context.Background(), args...)}
}

// A Row is what [Writer.QueryRow] has found.
type Row struct {
	row *sql.Row
	err error // there is no row
}

// Scan is [sql.Row.Scan].
func (r Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	return r.row.Scan(dest...)
}

// prepare returns a statement that is ready to run, unless ctx has ended.
func (w *Writer) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if stmt := w.prepared[text]; stmt != nil {
		return stmt, nil
	}
	stmt, err := w.conn.PrepareContext(context.Background(), text)
	if err == nil {
		w.prepared[text] = stmt
	}
	return stmt, err
}
