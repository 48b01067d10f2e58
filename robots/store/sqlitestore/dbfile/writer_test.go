package dbfile

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
)

// What a transaction writes is kept as a whole or not at all, however it ends, and the next
// one can begin.
func TestTransactions(t *testing.T) {
	f, err := Open(t.Context(), filepath.Join(t.TempDir(), "policies.db"), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write := func(ctx context.Context, do func(*Writer) error) error {
		return f.Write(ctx, func(w *Writer) (err error) {
			defer func() {
				if recover() != nil {
					err = errors.New("a panic")
				}
			}()
			return w.Transact(ctx, func() error {
				if err := w.Exec(ctx, `INSERT INTO texts (sha256, gzip) VALUES ('some', x'')`); err != nil {
					return err
				}
				return do(w)
			})
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	for name, do := range map[string]func(*Writer) error{
		"an error":          func(*Writer) error { return errors.New("some error") },
		"a panic":           func(*Writer) error { panic("some panic") },
		"a statement fails": func(w *Writer) error { return w.Exec(ctx, `INSERT INTO texts (sha256) VALUES (NULL)`) },
		"SQLite rolls back": func(w *Writer) error { return w.Exec(ctx, `INSERT OR ROLLBACK INTO texts (sha256) VALUES (NULL)`) },
		"no such row":       func(w *Writer) error { return w.QueryRow(ctx, `SELECT 1 WHERE false`).Scan(new(int)) },
		"its context ends":  func(*Writer) error { cancel(); return nil },
	} {
		if err := write(ctx, do); err == nil {
			t.Errorf("%s: no error", name)
		}
		ctx, cancel = context.WithCancel(t.Context())
		var texts int
		f.Read(t.Context(), func(db *Database) error { return db.QueryRow(`SELECT count(*) FROM texts`).Scan(&texts) })
		if texts != 0 {
			t.Fatalf("%s: %d texts are kept", name, texts)
		}
	}
	defer cancel()
	if err := write(ctx, func(*Writer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	var kept int64
	f.Write(ctx, func(w *Writer) (err error) {
		kept, err = w.Change(ctx, `UPDATE texts SET gzip = x'00'`)
		return err
	})
	if kept != 1 {
		t.Errorf("%d texts are kept, want 1", kept)
	}
}
