package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"robotsproxy/internal/redisclient"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/encoding"
)

// putScript keeps one record, in one step. Another machine may have got a later answer
// meanwhile: that is not replaced, unless it is from the future, by a clock that was wrong.
//
// Only origins are listed, no URLs of other files: proxies of an older version list whatever
// is there, and know nothing of files.
//
// Each run also looks at 16 listed origins at random, and takes out those whose record is
// gone. So at most about one in sixteen is.
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
if not string.find(origin, '://.*/') then
	redis.call('ZADD', origins, 0, origin)
end
return 1`)

// Put implements [store.Store]. It sends all records at once; each is kept by itself.
func (s *Store) Put(ctx context.Context, recs ...store.Record) error {
	calls := make([]redisclient.Call, len(recs))
	for i, rec := range recs {
		calls[i] = s.putCall(rec)
	}
	err := s.server.AskAnyway(ctx, longTimeout, func(ctx context.Context, rdb redis.Cmdable) error {
		_, err := redisclient.RunAll(ctx, rdb, putScript, calls)
		return err
	})
	if err != nil {
		return fmt.Errorf("keeping what is known of %d origins: %w", len(recs), err)
	}
	return nil
}

// putCall returns the run of putScript that keeps a record.
func (s *Store) putCall(rec store.Record) redisclient.Call {
	now := s.now()
	packed, version := "", ""
	if rec.SHA256 != "" {
		packed = string(encoding.Gzip(rec.Body))
	}
	if v, ok := rec.Answer(); ok {
		version = versionName(v)
	}
	prefix := s.server.Prefix(rec.Origin)
	keys := []string{
		prefix + policyKey + rec.Origin, prefix + textKey + rec.SHA256,
		prefix + versionsKey + rec.Origin, prefix + firstKey + rec.Origin, prefix + originsKey,
	}
	return redisclient.Call{Keys: keys, Args: append([]any{
		prefix + policyKey, prefix + textKey, rec.Origin, encoding.Milliseconds(now), s.lifetime(rec, now).Milliseconds(), packed,
		version, encoding.Milliseconds(now.Add(-s.history)), s.history.Milliseconds(), store.MaxVersions, encoding.Milliseconds(rec.FetchedAt),
	}, encodeRecord(rec)...)}
}

// lifetime is how long a record is kept: while its answer holds, and then for as long as
// SetKeep says, but no longer than the history.
func (s *Store) lifetime(rec store.Record, now time.Time) time.Duration {
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
