package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"robotsproxy/robots/store"
	"robotsproxy/robots/store/encoding"
)

// Versions implements [store.Store].
func (s *Store) Versions(ctx context.Context, origin string) ([]store.Version, error) {
	var versions []store.Version
	var first map[string]string
	err := s.server.AskAnyway(ctx, longTimeout, func(ctx context.Context, rdb redis.Cmdable) error {
		seen, err := rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
			Key: s.server.Prefix(origin) + versionsKey + origin, Rev: true, Start: 0, Stop: -1,
		}).Result()
		if err != nil {
			return err
		}
		versions = make([]store.Version, len(seen))
		if first, err = rdb.HGetAll(ctx, s.server.Prefix(origin)+firstKey+origin).Result(); err != nil {
			return err
		}
		for i, v := range seen {
			name, _ := v.Member.(string)
			versions[i].Status, versions[i].SHA256 = parseVersion(name)
			versions[i].FirstSeen, versions[i].LastSeen = parseTime(first[name]), time.UnixMilli(int64(v.Score)).UTC()
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the history of %s: %w", origin, err)
	}
	return versions, nil
}

// Text implements [store.Store].
func (s *Store) Text(ctx context.Context, origin, sha256 string) (text []byte, ok bool, err error) {
	var packed []byte
	err = s.server.AskAnyway(ctx, longTimeout, func(ctx context.Context, rdb redis.Cmdable) (err error) {
		packed, err = rdb.HGet(ctx, s.server.Prefix(origin)+textKey+sha256, "gzip").Bytes()
		return err
	})
	switch {
	case errors.Is(err, redis.Nil): // a Redis short of memory has dropped it
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("reading an old robots.txt: %w", err)
	}
	text, err = encoding.Gunzip(packed)
	return text, err == nil, nil
}

// versionName is v's member in its origin's versions.
func versionName(v store.Version) string { return strconv.Itoa(v.Status) + " " + v.SHA256 }

// parseVersion reads what versionName has written.
func parseVersion(name string) (status int, sum string) {
	number, sum, _ := strings.Cut(name, " ")
	status, _ = strconv.Atoi(number)
	return status, sum
}
