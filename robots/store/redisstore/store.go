// Package redisstore keeps records in a Redis server that the proxies of a fleet share. It
// also lets one of them at a time fetch an origin's robots.txt, by a lease.
package redisstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"robotsproxy/internal/redisclient"
	"robotsproxy/robots/store"
)

// longTimeout bounds each question to Redis that no request waits for.
const longTimeout = 2 * time.Second

// maxClockSkew is how far apart the clocks of a fleet may be.
const maxClockSkew = time.Minute

// endless stands for a history without end: Redis wants a lifetime in milliseconds.
const endless = 100 * 365 * 24 * time.Hour

// A Store keeps records in Redis. It is safe for concurrent use.
type Store struct {
	server  *redisclient.Client
	keep    atomic.Int64 // set by SetKeep, in nanoseconds; 0 means as long as history
	history time.Duration
	now     func() time.Time
}

// New returns a store on a server, which must stay open until the store is closed. Of the
// options it uses History and Now.
func New(server *redisclient.Client, opts store.Options) *Store {
	s := &Store{server: server, history: opts.History, now: opts.Now}
	if s.history <= 0 {
		s.history = endless
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// Close does nothing: the client belongs to the caller of [New].
func (s *Store) Close() error { return nil }

// SetKeep says how long a record is kept after the lifetime of its answer, because its text
// and its failures may still be needed. It applies to records that are put from then on.
// Without it a record is kept as long as the history.
func (s *Store) SetKeep(length time.Duration) { s.keep.Store(int64(length)) }

// Forget implements [store.Store].
func (s *Store) Forget(ctx context.Context, origin string) error {
	err := s.server.AskAnyway(ctx, longTimeout, func(ctx context.Context, rdb redis.Cmdable) error {
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Del(ctx, s.server.Prefix(origin)+policyKey+origin)
			p.ZRem(ctx, s.server.Prefix(origin)+originsKey, origin)
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("forgetting %s: %w", origin, err)
	}
	return nil
}
