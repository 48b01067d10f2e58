package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The keys. A text is kept once, however many origins serve it, until the last of the
// versions that it is has been dropped. A record that has expired, or that a Redis
// short of memory has dropped, leaves its origin in the list until a later Put comes
// across it.
const (
	policyKey   = "robotsproxy:policy:"   // + origin: a hash, the record without its text
	textKey     = "robotsproxy:body:"     // + SHA-256: a hash, the text in gzip and how many versions it is
	versionsKey = "robotsproxy:versions:" // + origin: "STATUS SHA256" by when it was last seen
	firstKey    = "robotsproxy:first:"    // + origin: a hash, when each of those was first seen
	originsKey  = "robotsproxy:origins"   // all by name
)

// The fields of a record. Times are Unix milliseconds, 0 for none.
var recordFields = []string{
	"fetched_at", "status", "sha256", "expires_at",
	"failed_since", "failed_status", "failures", "next_try", "cause", "user_agent",
}

func encodeRecord(rec Record) []any {
	return []any{
		"fetched_at", ms(rec.FetchedAt), "status", rec.Status, "sha256", rec.SHA256, "expires_at", ms(rec.ExpiresAt),
		"failed_since", ms(rec.FailedSince), "failed_status", rec.FailedStatus, "failures", rec.Failures,
		"next_try", ms(rec.NextTry), "cause", rec.Cause, "user_agent", rec.UserAgent,
	}
}

// decodeRecord reads the values of recordFields; false if there are none.
func decodeRecord(origin string, values []any) (Record, bool) {
	text := func(i int) string { s, _ := values[i].(string); return s }
	number := func(i int) int { n, _ := strconv.Atoi(text(i)); return n }
	when := func(i int) time.Time { return fromMS(text(i)) }
	if len(values) < len(recordFields) || text(0) == "" {
		return Record{}, false
	}
	return Record{
		Origin: origin, FetchedAt: when(0), Status: number(1), SHA256: text(2), ExpiresAt: when(3),
		FailedSince: when(4), FailedStatus: number(5), Failures: number(6), NextTry: when(7), Cause: text(8),
		UserAgent: text(9),
	}, true
}

// fromMS reads what ms has written.
func fromMS(text string) time.Time {
	n, _ := strconv.ParseInt(text, 10, 64)
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

var getScript = redis.NewScript(`
local record = redis.call('HMGET', KEYS[1], unpack(ARGV, 2))
if record[3] and record[3] ~= '' then
	record[#record + 1] = redis.call('HGET', ARGV[1] .. record[3], 'gzip')
end
return record`)

func (s *redisStore) Get(ctx context.Context, origin string) (rec Record, ok bool, err error) {
	args := []any{textKey}
	for _, field := range recordFields {
		args = append(args, field)
	}
	err = s.server.Ask(ctx, func(ctx context.Context, rdb *redis.Client) error {
		values, err := getScript.Run(ctx, rdb, []string{policyKey + origin}, args...).Slice()
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
		if rec.Body, err = unpack([]byte(packed)); err != nil {
			// A Redis that is short of memory may have dropped the text. Then only
			// the failures are known.
			rec.Status, rec.SHA256, rec.Body, rec.UserAgent, rec.ExpiresAt = 0, "", nil, "", time.Time{}
		}
		return nil
	})
	if err != nil {
		return Record{}, false, fmt.Errorf("reading what is known of %s: %w", origin, err)
	}
	// To a machine whose clock is a little behind, another's answer is one of
	// the future, and would be fetched again. Its lifetime stays the same.
	if ahead := rec.FetchedAt.Sub(s.now()); ok && ahead > 0 && ahead <= maxClockSkew {
		rec.FetchedAt = rec.FetchedAt.Add(-ahead).Truncate(time.Millisecond)
		rec.ExpiresAt = rec.ExpiresAt.Add(-ahead).Truncate(time.Millisecond)
	}
	return rec, ok, nil
}

// putScript is Put as one step. The condition is for what comes late: another
// machine may have got an answer meanwhile. One from the future is from a clock
// that was wrong.
//
// Of the origins that are listed, each Put looks at a few at random for those whose
// record is gone. So these are at most about one of sixteen.
var putScript = redis.NewScript(`
local policy, text, versions, first, origins = unpack(KEYS)
local policies, texts, origin, now, keep, packed, version, oldest, history, most, fetched = unpack(ARGV, 1, 11)
if packed ~= '' then
	redis.call('HSET', text, 'gzip', packed)
	redis.call('PEXPIRE', text, math.max(redis.call('PTTL', text), keep, history))
end
if version ~= '' then
	if redis.call('HSETNX', first, version, fetched) == 1 and packed ~= '' then
		redis.call('HINCRBY', text, 'versions', 1)
	end
	redis.call('ZADD', versions, 'GT', fetched, version)
	local gone = redis.call('ZRANGEBYSCORE', versions, '-inf', '(' .. oldest)
	for _, excess in ipairs(redis.call('ZRANGE', versions, 0, -1 - most)) do
		gone[#gone + 1] = excess
	end
	for _, v in ipairs(gone) do
		if v ~= version and redis.call('ZREM', versions, v) == 1 then
			redis.call('HDEL', first, v)
			local sum = string.match(v, ' (.+)')
			if sum and redis.call('HINCRBY', texts .. sum, 'versions', -1) <= 0 then
				redis.call('DEL', texts .. sum)
			end
		end
	end
	redis.call('PEXPIRE', versions, history)
	redis.call('PEXPIRE', first, history)
end

for _, o in ipairs(redis.call('ZRANDMEMBER', origins, 16)) do
	if redis.call('EXISTS', policies .. o) == 0 then
		redis.call('ZREM', origins, o)
	end
end
local had = tonumber(redis.call('HGET', policy, 'fetched_at') or 0)
if had > tonumber(fetched) and had <= tonumber(now) then
	return 0
end
redis.call('HSET', policy, unpack(ARGV, 12))
redis.call('PEXPIRE', policy, keep)
redis.call('ZADD', origins, 0, origin)
return 1`)

// Put sends all of the records at once, and each is kept by itself.
func (s *redisStore) Put(ctx context.Context, recs ...Record) error {
	type call struct {
		keys []string
		args []any
	}
	calls := make([]call, len(recs))
	for i, rec := range recs {
		calls[i].keys, calls[i].args = s.putCall(rec)
	}
	err := s.server.AskAnyway(ctx, 2*s.server.Timeout, func(ctx context.Context, rdb *redis.Client) error {
		send := func() error {
			_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
				for _, c := range calls {
					putScript.EvalSha(ctx, p, c.keys, c.args...)
				}
				return nil
			})
			return err
		}
		err := send()
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			if err := putScript.Load(ctx, rdb).Err(); err != nil {
				return err
			}
			err = send()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("keeping what is known of %d origins: %w", len(recs), err)
	}
	return nil
}

// putCall is what putScript is called with to keep a record.
func (s *redisStore) putCall(rec Record) (keys []string, args []any) {
	now := s.now()
	packed, version := "", ""
	if rec.SHA256 != "" {
		packed = string(s.packer.pack(rec.Body))
	}
	if v, ok := rec.answer(); ok {
		version = versionName(v)
	}
	keys = []string{
		policyKey + rec.Origin, textKey + rec.SHA256,
		versionsKey + rec.Origin, firstKey + rec.Origin, originsKey,
	}
	return keys, append([]any{
		policyKey, textKey, rec.Origin, ms(now), s.lifetime(rec, now).Milliseconds(), packed,
		version, ms(now.Add(-s.history)), s.history.Milliseconds(), maxVersions, ms(rec.FetchedAt),
	}, encodeRecord(rec)...)
}

// lifetime is how long a record is kept: while it holds, and then for as long
// as SetKeep says, but not longer than history.
func (s *redisStore) lifetime(rec Record, now time.Time) time.Duration {
	left := max(rec.ExpiresAt.Sub(now), 0)
	if rec.ExpiresAt.IsZero() {
		left = 0
	}
	keep := time.Duration(s.keep.Load())
	if keep == 0 {
		keep = s.history
	}
	return max(left, min(left+keep, s.history), time.Minute)
}

// listPage is how many origins at least are looked at in one step of List, and
// searchPage in one that looks for a part.
const listPage, searchPage = 100, 10_000

func (s *redisStore) List(ctx context.Context, after, part string, limit int) ([]Record, error) {
	var recs []Record
	page := max(limit, listPage) // as many as are wanted, or more where some have expired
	if part != "" {
		page = max(limit, searchPage)
	}
	for len(recs) < limit {
		var found []Record
		looked := 0
		err := s.server.AskAnyway(ctx, longTimeout, func(ctx context.Context, rdb *redis.Client) error {
			origins, err := rdb.ZRangeArgs(ctx, redis.ZRangeArgs{
				Key: originsKey, ByLex: true, Start: "(" + after, Stop: "+", Count: int64(page),
			}).Result()
			if looked = len(origins); err != nil || looked == 0 {
				return err
			}
			last := origins[looked-1]
			origins = slices.DeleteFunc(origins, func(o string) bool { return !strings.Contains(o, part) })
			if found, err = readRedisRecords(ctx, rdb, origins); err == nil {
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

// readRedisRecords reads those of the origins' records that there still are, without
// their texts.
func readRedisRecords(ctx context.Context, rdb *redis.Client, origins []string) ([]Record, error) {
	if len(origins) == 0 {
		return nil, nil
	}
	replies := make([]*redis.SliceCmd, len(origins))
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, origin := range origins {
			replies[i] = p.HMGet(ctx, policyKey+origin, recordFields...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var recs []Record
	for i, origin := range origins {
		if rec, ok := decodeRecord(origin, replies[i].Val()); ok {
			recs = append(recs, rec)
		}
	}
	return recs, nil
}

func (s *redisStore) Forget(ctx context.Context, origin string) error {
	err := s.server.AskAnyway(ctx, longTimeout, func(ctx context.Context, rdb *redis.Client) error {
		_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Del(ctx, policyKey+origin)
			p.ZRem(ctx, originsKey, origin)
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("forgetting %s: %w", origin, err)
	}
	return nil
}

func (s *redisStore) Versions(ctx context.Context, origin string) ([]Version, error) {
	var versions []Version
	var first map[string]string
	err := s.server.AskAnyway(ctx, longTimeout, func(ctx context.Context, rdb *redis.Client) error {
		seen, err := rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
			Key: versionsKey + origin, Rev: true, Start: 0, Stop: -1,
		}).Result()
		if err != nil {
			return err
		}
		versions = make([]Version, len(seen))
		if first, err = rdb.HGetAll(ctx, firstKey+origin).Result(); err != nil {
			return err
		}
		for i, v := range seen {
			name, _ := v.Member.(string)
			status, sum, _ := strings.Cut(name, " ")
			versions[i].Status, _ = strconv.Atoi(status)
			versions[i].SHA256 = sum
			versions[i].FirstSeen, versions[i].LastSeen = fromMS(first[name]), time.UnixMilli(int64(v.Score)).UTC()
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the history of %s: %w", origin, err)
	}
	return s.withTexts(ctx, versions)
}

// withTexts reads the texts of versions, as many as maxHistory allows.
func (s *redisStore) withTexts(ctx context.Context, versions []Version) ([]Version, error) {
	var known []Version
	read := 0
	for _, v := range versions {
		if v.SHA256 != "" {
			var packed []byte
			err := s.server.AskAnyway(ctx, longTimeout, func(ctx context.Context, rdb *redis.Client) (err error) {
				packed, err = rdb.HGet(ctx, textKey+v.SHA256, "gzip").Bytes()
				return err
			})
			if err != nil && !errors.Is(err, redis.Nil) {
				return nil, fmt.Errorf("reading an old robots.txt: %w", err)
			}
			if v.Body, err = unpack(packed); err != nil {
				continue // dropped by a Redis that is short of memory
			}
		}
		if read += len(v.Body); read > maxHistory && len(known) > 0 {
			break
		}
		known = append(known, v)
	}
	return known, nil
}

// versionName is the member of the versions that v is.
func versionName(v Version) string { return strconv.Itoa(v.Status) + " " + v.SHA256 }
