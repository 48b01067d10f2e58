package dbfile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// applicationID marks a file as ours: "robo".
const applicationID = 0x726f626f

// migrations lead from one version of the schema to the next: migrations[n]
// from n to n+1, and the last one to the version of this program. A released
// migration never changes.
//
// An origin stands for its robots.txt; another file has its URL in the place of
// the origin.
// Times are Unix milliseconds; 0 means none. Each text is stored once, gzipped,
// however many origins serve it. A version is an answer that an origin gave: a
// text, or a status without one (text_id 0). Versions outlive policies, and
// every answer in policies has its row in versions. The one row of sweep is the
// origin after which the next sweep begins.
//
// A day is a day in UTC on which a proxy has run, as in 2026-01-02, with how many rows it has
// in counts. These have how many requests came to the same decision, and of them, how many
// waited for their turns, and how many the site turned away although its robots.txt allows them.
// Those without an origin stand for the rest of a day that has too many different decisions.
var migrations = []string{`
CREATE TABLE texts (
	id     INTEGER PRIMARY KEY,
	sha256 TEXT    NOT NULL UNIQUE,
	gzip   BLOB    NOT NULL
) STRICT;

CREATE TABLE policies (
	origin        TEXT    PRIMARY KEY,
	status        INTEGER NOT NULL,
	text_id       INTEGER NOT NULL,
	fetched_at    INTEGER NOT NULL,
	expires_at    INTEGER NOT NULL,
	failed_since  INTEGER NOT NULL,
	failed_status INTEGER NOT NULL,
	failures      INTEGER NOT NULL,
	next_try      INTEGER NOT NULL,
	cause         TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE versions (
	origin     TEXT    NOT NULL,
	text_id    INTEGER NOT NULL,
	status     INTEGER NOT NULL,
	first_seen INTEGER NOT NULL,
	last_seen  INTEGER NOT NULL,
	PRIMARY KEY (origin, text_id, status)
) STRICT, WITHOUT ROWID;
`, `
CREATE INDEX versions_of_text ON versions (text_id) WHERE text_id != 0;

INSERT OR IGNORE INTO versions (origin, text_id, status, first_seen, last_seen)
SELECT origin, text_id, status, fetched_at, fetched_at FROM policies WHERE status != 0;

CREATE TABLE sweep (
	origin TEXT NOT NULL
) STRICT;

INSERT INTO sweep (origin) VALUES ('');
`, `
ALTER TABLE policies ADD COLUMN user_agent TEXT NOT NULL DEFAULT '';
`, `
ALTER TABLE policies ADD COLUMN cdn TEXT NOT NULL DEFAULT '';
`, `
CREATE TABLE days (
	day       TEXT    PRIMARY KEY,
	decisions INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE counts (
	day             TEXT    NOT NULL,
	origin          TEXT    NOT NULL,
	identity        TEXT    NOT NULL,
	outcome         TEXT    NOT NULL,
	verdict         TEXT    NOT NULL,
	reason          TEXT    NOT NULL,
	rule            TEXT    NOT NULL,
	preference      TEXT    NOT NULL,
	cause           TEXT    NOT NULL,
	override_reason TEXT    NOT NULL,
	requests        INTEGER NOT NULL,
	paced           INTEGER NOT NULL,
	waited_ms       INTEGER NOT NULL,
	PRIMARY KEY (day, origin, identity, outcome, verdict, reason, rule, preference, cause, override_reason)
) STRICT, WITHOUT ROWID;
`, `
ALTER TABLE counts ADD COLUMN challenged  INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counts ADD COLUMN turned_away INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counts ADD COLUMN priced      INTEGER NOT NULL DEFAULT 0;
`}

// migrate brings the schema to the version of this program. The caller must hold
// the lock, so that no other process does the same.
func migrate(ctx context.Context, db *sql.DB) error {
	version, err := schemaVersion(ctx, db)
	switch {
	case err != nil:
		return err
	case version == len(migrations):
		return nil // before a transaction begins, which a read-only file would refuse
	case version > len(migrations):
		return newerSchema(version)
	}
	if version == 0 {
		// This lets the store give free space back in small pieces. A file that
		// was created without it can only reuse its free space; to change that,
		// SQLite would have to rewrite the whole file.
		if _, err := db.ExecContext(ctx, `PRAGMA auto_vacuum = INCREMENTAL; VACUUM`); err != nil {
			return err
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, m := range migrations[version:] {
		if _, err := tx.ExecContext(ctx, m); err != nil {
			return fmt.Errorf("bringing its schema from version %d to %d: %w", version, len(migrations), err)
		}
	}
	mark := fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d`, applicationID, len(migrations))
	if _, err := tx.ExecContext(ctx, mark); err != nil {
		return err
	}
	return tx.Commit()
}

// schemaVersion returns the version of the schema in one of our files; 0 for a new file. The
// first programs did not mark their files: those have version 1 and its tables.
func schemaVersion(ctx context.Context, db *sql.DB) (int, error) {
	var id, version int
	var tables string
	const query = `
SELECT application_id, user_version, (SELECT coalesce(group_concat(name, ' ' ORDER BY name), '') FROM sqlite_schema WHERE sql != '')
FROM pragma_application_id, pragma_user_version`
	if err := db.QueryRowContext(ctx, query).Scan(&id, &version, &tables); err != nil {
		return 0, err
	}
	isNew := id == 0 && version == 0 && tables == ""
	isUnmarked := id == 0 && version == 1 && tables == "policies texts versions"
	if !isNew && !isUnmarked && (id != applicationID || version <= 0) {
		return 0, errDamaged
	}
	return version, nil
}

// newerSchema is the error about a file that a newer program has written.
func newerSchema(version int) error {
	return fmt.Errorf("its schema is version %d, and this program knows versions up to %d: "+
		"start the newer robotsproxy that wrote it, or move the file away to begin a new one", version, len(migrations))
}

// errDamaged is about files that SQLite itself opens without complaint.
var errDamaged = errors.New("the file is damaged, or another program's")

// look reads one row of each table. That shows that the file is ours and not cut
// off, and takes no longer with a million origins than with ten.
func look(ctx context.Context, db *sql.DB) error {
	for _, query := range []string{
		`SELECT min(origin) || max(next_try) FROM (SELECT * FROM policies LIMIT 1)`,
		`SELECT min(origin) || max(last_seen) FROM (SELECT * FROM versions LIMIT 1)`,
		`SELECT max(id) || max(sha256) FROM (SELECT * FROM texts LIMIT 1)`,
		`SELECT max(day) || max(decisions) FROM (SELECT * FROM days LIMIT 1)`,
		`SELECT max(day) || max(requests) FROM (SELECT * FROM counts LIMIT 1)`,
	} {
		var row sql.NullString
		if err := db.QueryRowContext(ctx, query).Scan(&row); err != nil {
			return err
		}
	}
	return nil
}

// examine checks the whole file, which it has to read for that.
func examine(ctx context.Context, db *sql.DB) error {
	var verdict string
	if err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: %s", errDamaged, verdict)
	}
	return nil
}
