package main

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	_ "modernc.org/sqlite"
)

// checkDatabase has SQLite check a database, which a proxy may have open.
func checkDatabase(file string) (err error) {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil // it has not come to that, or its policies are elsewhere
	}
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
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
