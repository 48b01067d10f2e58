package sqlitestore

import (
	"context"
)

// Evicted returns how much has been dropped to stay within MaxSize: versions that were no
// longer served, and origins with all that is known of them.
func (s *Store) Evicted() (versions, origins int64) {
	return s.evictedVersions.Load(), s.evictedOrigins.Load()
}

// evictionList is how many things to drop are looked for at once. To find the
// oldest, all are looked at, so each look finds many.
const evictionList = 16_384

// evictionBatch is how many are dropped in one transaction, before the size is looked
// at again: few, as texts may be long. evictionSteps is how many transactions follow
// each other before records are written again: a database that is far too large gets
// smaller with each write.
const evictionBatch, evictionSteps = 32, 128

// A victim is a version that is no longer served or, without a status, an origin.
type victim struct {
	origin         string
	textID, status int64
	age            int64 // as it was found: what has been seen or used since stays
}

// shrink drops what is oldest while the database has nearly reached maxSize: first
// the versions that are no longer served, and when there are none the origins that
// were asked last the longest ago, with all that is known of them. These are fetched
// again when somebody asks for them; a bound that they could pass would be none. What
// is free in the file does not count, and is given back.
func (s *Store) shrink(ctx context.Context, db *database) error {
	if s.maxSize <= 0 {
		return nil
	}
	for range evictionSteps {
		used, err := sizeInUse(ctx, db)
		if err != nil || used <= s.maxSize-s.maxSize/16 { // room for what is written before the next look
			return err
		}
		if len(s.victims) == 0 {
			if s.victims, err = findVictims(ctx, db); err != nil {
				return err
			}
		}
		batch := s.victims[:min(len(s.victims), evictionBatch)]
		s.victims = s.victims[len(batch):]
		if err := s.evict(ctx, db, batch); err != nil {
			return err
		}
		if err := giveBack(ctx, db); err != nil {
			return err
		}
	}
	return nil
}

// evict drops those of the victims that are what they were when they were found.
func (s *Store) evict(ctx context.Context, db *database, victims []victim) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var versions, origins int64
	for _, v := range victims {
		if v.status != 0 {
			n, err := dropVersions(ctx, tx, `origin = ? AND text_id = ? AND status = ? AND last_seen = ?`, v.origin, v.textID, v.status, v.age)
			if err != nil {
				return err
			}
			versions += n
			continue
		}
		gone, err := tx.ExecContext(ctx, `DELETE FROM policies WHERE origin = ? AND `+lastUse+` = ?`, v.origin, v.age)
		if err != nil {
			return err
		}
		if n, _ := gone.RowsAffected(); n > 0 {
			origins += n
			if _, err := dropVersions(ctx, tx, `origin = ?`, v.origin); err != nil {
				return err
			}
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.evictedVersions.Add(versions)
	if s.evictedOrigins.Add(origins) == origins && origins > 0 {
		s.log.Warn().Int64("max_size", s.maxSize).
			Msg("policies.db is full of what origins serve now: those asked longest ago are dropped and will be fetched again; raise cache.max_size to keep them")
	}
	return nil
}

// findVictims returns what to drop first, the oldest in front.
func findVictims(ctx context.Context, db *database) ([]victim, error) {
	victims, err := readVictims(ctx, db, `
SELECT origin, text_id, status, last_seen FROM versions
WHERE `+unserved+` ORDER BY last_seen LIMIT ?`)
	if err != nil || len(victims) > 0 {
		return victims, err
	}
	return readVictims(ctx, db, `SELECT origin, 0, 0, `+lastUse+` AS age FROM policies ORDER BY age LIMIT ?`)
}

func readVictims(ctx context.Context, db *database, query string) ([]victim, error) {
	rows, err := db.QueryContext(ctx, query, evictionList)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var victims []victim
	for rows.Next() {
		var v victim
		if err := rows.Scan(&v.origin, &v.textID, &v.status, &v.age); err != nil {
			return nil, err
		}
		victims = append(victims, v)
	}
	return victims, rows.Err()
}

// sizeInUse is the size of the database without what is free in it.
func sizeInUse(ctx context.Context, db *database) (size int64, err error) {
	const query = `
SELECT (page_count - freelist_count) * page_size
FROM pragma_page_count, pragma_freelist_count, pragma_page_size`
	ask, err := db.prepare(ctx, nil, query)
	if err != nil {
		return 0, err
	}
	err = ask.QueryRowContext(ctx).Scan(&size)
	return size, err
}
