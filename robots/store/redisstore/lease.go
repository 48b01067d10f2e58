package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

const leaseKey = "lease:" // + origin: the token of its holder

// leaseScript takes the lease. It also succeeds for its holder, whose first answer may have
// been lost.
var leaseScript = redis.NewScript(`
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) or redis.call('GET', KEYS[1]) == ARGV[1] then
	return 1
end
return 0`)

// releaseScript ends a lease, unless it has run out and another has taken it since.
var releaseScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then
	redis.call('DEL', KEYS[1])
end
return 1`)

// Lease lets one caller at a time, on whatever machine, ask an origin: until it calls
// release, or for length if it never does. held is false while another has the lease.
func (s *Store) Lease(ctx context.Context, origin string, length time.Duration) (release func(), held bool, err error) {
	key, token := []string{s.server.Prefix(origin) + leaseKey + origin}, rand.Text()
	// If this were broken off, the lease could be taken although nobody has it.
	err = s.server.Ask(context.WithoutCancel(ctx), func(ctx context.Context, rdb redis.Cmdable) (err error) {
		held, err = leaseScript.Run(ctx, rdb, key, token, length.Milliseconds()).Bool()
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("taking the lease of %s: %w", origin, err)
	}
	return func() {
		// If this fails, the lease runs out.
		_ = s.server.AskAnyway(context.Background(), longTimeout, func(ctx context.Context, rdb redis.Cmdable) error {
			return releaseScript.Run(ctx, rdb, key, token).Err()
		})
	}, held, nil
}
