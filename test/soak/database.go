package main

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite"
)

// checkDatabase has SQLite check a copy of a database that no process has open. The database
// itself stays as a crash left it: it is the proxy's part to recover it.
func checkDatabase(file string) (err error) {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil // the policies are elsewhere
	}
	folder, err := os.MkdirTemp("", "soak-database-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	copied := filepath.Join(folder, "policies.db")
	for _, suffix := range []string{"", "-wal"} {
		if err := copyFile(file+suffix, copied+suffix); err != nil && !(suffix != "" && errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	db, err := sql.Open("sqlite", copied)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, check := range []string{"integrity_check", "foreign_key_check"} {
		rows, err := db.Query("PRAGMA " + check)
		if err != nil {
			return fmt.Errorf("%s of %s: %w", check, file, err)
		}
		var found []string
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				text = err.Error() // a violation has more columns
			}
			found = append(found, text)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return fmt.Errorf("%s of %s: %w", check, file, err)
		}
		if text := strings.Join(found, "; "); text != "" && text != "ok" {
			return fmt.Errorf("%s of %s: %s", check, file, text)
		}
	}
	return nil
}
