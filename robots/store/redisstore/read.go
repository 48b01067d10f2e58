package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"robotsproxy/robots/store"
	"robotsproxy/robots/store/encoding"
)

var getScript = redis.NewScript(`
local record = redis.call('HMGET', KEYS[1], unpack(ARGV, 2))
if record[3] and record[3] ~= '' then
	record[#record + 1] = redis.call('HGET', ARGV[1] .. record[3], 'gzip')
end
return record`)

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, origin string) (rec store.Record, ok bool, err error) {
	args := []any{s.server.Prefix(origin) + textKey}
	for _, field := range recordFields {
		args = append(args, field)
	}
	err = s.server.Ask(ctx, func(ctx context.Context, rdb redis.Cmdable) error {
		values, err := getScript.Run(ctx, rdb, []string{s.server.Prefix(origin) + policyKey + origin}, args...).Slice()
		if err != nil {
			return err
		}
		if rec, ok = decodeRecord(origin, values); !ok || rec.SHA256 == "" {
			return nil
		}
		packed := ""
		if len(values) > len(recordFields) {
			packed, _ = values[len(recordFields)].(string)
		}
		if rec.Body, err = encoding.Gunzip([]byte(packed)); err != nil {
			// A Redis short of memory may have dropped the text. Then only the failures
			// are known.
			rec.Status, rec.SHA256, rec.Body, rec.UserAgent, rec.ExpiresAt = 0, "", nil, "", time.Time{}
		}
		return nil
	})
	if err != nil {
		return store.Record{}, false, fmt.Errorf("reading what is known of %s: %w", origin, err)
	}
	// To a machine whose clock is a little behind, another's answer is from the future
	// and would be fetched again. It is shifted to now, with the same lifetime.
	if ahead := rec.FetchedAt.Sub(s.now()); ok && ahead > 0 && ahead <= maxClockSkew {
		rec.FetchedAt = rec.FetchedAt.Add(-ahead).Truncate(time.Millisecond)
		rec.ExpiresAt = rec.ExpiresAt.Add(-ahead).Truncate(time.Millisecond)
	}
	return rec, ok, nil
}

// listPage is the least number of origins that one step of List looks at; searchPage is
// that of a step that looks for a part.
const listPage, searchPage = 100, 10_000

// List implements [store.Store].
func (s *Store) List(ctx context.Context, after, part string, limit int) ([]store.Record, error) {
	var recs []store.Record
	page := max(limit, listPage) // as many as are wanted, or more where some have expired
	if part != "" {
		page = max(limit, searchPage)
	}
	for len(recs) < limit {
		var found []store.Record
		looked := 0
		err := s.server.AskAnyway(ctx, longTimeout, func(ctx context.Context, rdb redis.Cmdable) error {
			origins, err := s.listed(ctx, rdb, after, page)
			if looked = len(origins); err != nil || looked == 0 {
				return err
			}
			last := origins[looked-1]
			origins = slices.DeleteFunc(origins, func(o string) bool { return !strings.Contains(o, part) })
			if found, err = s.readRecords(ctx, rdb, origins); err == nil {
				after = last
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("listing what is known: %w", err)
		}
		if looked == 0 {
			break
		}
		recs = append(recs, found...)
	}
	return recs[:min(len(recs), limit)], nil
}

// listed returns some page listed origins that come after the one given, in order. None means that
// there are no more.
func (s *Store) listed(ctx context.Context, rdb redis.Cmdable, after string, page int) ([]string, error) {
	prefixes := s.server.Prefixes()
	replies := make([]*redis.StringSliceCmd, len(prefixes))
	count := (page + len(prefixes) - 1) / len(prefixes)
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, prefix := range prefixes {
			replies[i] = p.ZRangeArgs(ctx, redis.ZRangeArgs{
				Key: prefix + originsKey, ByLex: true, Start: "(" + after, Stop: "+", Count: int64(count),
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// After the last one of a list that goes on, origins may be missing.
	var all []string
	last := ""
	for _, reply := range replies {
		list := reply.Val()
		if len(list) == count && (last == "" || list[count-1] < last) {
			last = list[count-1]
		}
		all = append(all, list...)
	}
	slices.Sort(all)
	if last != "" {
		end, _ := slices.BinarySearch(all, last)
		all = all[:end+1]
	}
	return all, nil
}

// readRecords reads the origins' records, without their texts. It leaves out those
// that are gone.
func (s *Store) readRecords(ctx context.Context, rdb redis.Cmdable, origins []string) ([]store.Record, error) {
	if len(origins) == 0 {
		return nil, nil
	}
	replies := make([]*redis.SliceCmd, len(origins))
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, origin := range origins {
			replies[i] = p.HMGet(ctx, s.server.Prefix(origin)+policyKey+origin, recordFields...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var recs []store.Record
	for i, origin := range origins {
		if rec, ok := decodeRecord(origin, replies[i].Val()); ok {
			recs = append(recs, rec)
		}
	}
	return recs, nil
}
