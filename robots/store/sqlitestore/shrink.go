package sqlitestore

import (
	"context"

	"robotsproxy/robots/store/sqlitestore/dbfile"
)

// Evicted returns how much has been dropped to stay within MaxSize: versions that were no
// longer served, and origins with all that is known of them.
func (s *Store) Evicted() (versions, origins int64) {
	return s.evictedVersions.Load(), s.evictedOrigins.Load()
}

const (
	// maxVictims is how many victims one search returns. A search reads a whole table to
	// find the oldest, so it pays to find many at once.
	maxVictims = 16_384
	// evictionBatch is how many victims one transaction drops before the size is checked
	// again. It is small because texts may be long.
	evictionBatch = 32
	// maxEvictions bounds the transactions between two writes of records. A database that
	// is far too large shrinks a little with each write.
	maxEvictions = 128
)

// A victim is a version that is no longer served or, without a status, an origin.
type victim struct {
	origin         string
	textID, status int64
	age            int64 // when it was found: what has been seen or used since then stays
}

// shrink drops the oldest records while the database has nearly reached maxSize. The
// versions that are no longer served go first, then the counts of past days, then the
// origins that have gone longest without being asked for, with all that is known of them.
// Even those must go, or the bound would not be one; they are fetched again when somebody
// asks for them. Free space in the file does not count, and is given back.
func (s *Store) shrink(ctx context.Context, w *dbfile.Writer) error {
	if s.maxSize <= 0 {
		return nil
	}
	for range maxEvictions {
		used, err := sizeInUse(ctx, w)
		if err != nil || used <= s.maxSize-s.maxSize/16 { // room for what is written before the next look
			return err
		}
		if len(s.victims) == 0 {
			if s.victims, err = s.findVictims(ctx, w); err != nil {
				return err
			}
		}
		batch := s.victims[:min(len(s.victims), evictionBatch)]
		s.victims = s.victims[len(batch):]
		if err := s.evict(ctx, w, batch); err != nil {
			return err
		}
		if err := giveBack(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// evict drops the victims that have not changed since they were found.
func (s *Store) evict(ctx context.Context, w *dbfile.Writer, victims []victim) error {
	var versions, origins int64
	err := w.Transact(ctx, func() error {
		for _, v := range victims {
			if v.status != 0 {
				n, err := dropVersions(ctx, w, `origin = ? AND text_id = ? AND status = ? AND last_seen = ?`, v.origin, v.textID, v.status, v.age)
				if err != nil {
					return err
				}
				versions += n
				continue
			}
			gone, err := w.Change(ctx, `DELETE FROM policies WHERE origin = ? AND `+lastUse+` = ?`, v.origin, v.age)
			if err != nil {
				return err
			}
			if gone > 0 {
				origins += gone
				if _, err := dropVersions(ctx, w, `origin = ?`, v.origin); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.evictedVersions.Add(versions)
	if s.evictedOrigins.Add(origins) == origins && origins > 0 {
		s.log.Warn().Int64("max_size", s.maxSize).
			Msg("policies.db is full of current policies: the origins that nobody has asked for longest are dropped and will be fetched again; raise cache.max_size to keep them")
	}
	return nil
}

// findVictims returns what to drop next, oldest first. If that is a day, it drops it, and
// returns nothing.
func (s *Store) findVictims(ctx context.Context, w *dbfile.Writer) ([]victim, error) {
	victims, err := readVictims(ctx, w, `
SELECT origin, text_id, status, last_seen FROM versions
WHERE `+unserved+` ORDER BY last_seen LIMIT ?`)
	if err != nil || len(victims) > 0 {
		return victims, err
	}
	if dropped, err := s.dropOldestDay(ctx, w); err != nil || dropped {
		return nil, err
	}
	return readVictims(ctx, w, `SELECT origin, 0, 0, `+lastUse+` AS age FROM policies ORDER BY age LIMIT ?`)
}

func readVictims(ctx context.Context, w *dbfile.Writer, query string) ([]victim, error) {
	rows, err := w.Query(ctx, query, maxVictims)
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

// sizeInUse returns the size of the database in bytes, without its free space.
func sizeInUse(ctx context.Context, w *dbfile.Writer) (size int64, err error) {
	const query = `
SELECT (page_count - freelist_count) * page_size
FROM pragma_page_count, pragma_freelist_count, pragma_page_size`
	err = w.QueryRow(ctx, query).Scan(&size)
	return size, err
}
