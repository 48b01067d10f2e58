package pace

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"robotsproxy/internal/outage"
	"robotsproxy/internal/redisclient"
)

// The keys. All expire by themselves. What turns and holds are for is hashed, as it
// may be long.
const (
	turnsKey   = "robotsproxy:turns:"  // + origin, identity and group: a sorted set, who has a turn by when it is
	holdKey    = "robotsproxy:hold:"   // + origin and identity: until when requests are held
	membersKey = "robotsproxy:proxies" // a sorted set: who shares the turns by until when it counts without a heartbeat
)

// A proxy says every heartbeatEvery that it shares the turns. Without a heartbeat it
// counts for as long as memberFor.
const (
	heartbeatEvery = 2 * time.Second
	memberFor      = 5 * heartbeatEvery
)

// fleet is the turns that several proxies share by a Redis server. Times are by that
// server's clock.
type fleet struct {
	server *redisclient.Client
	outage *outage.Reporter

	member  string       // this proxy's name among the members
	members atomic.Int64 // proxies that share the turns, as last seen; at least 1
	joined  atomic.Bool  // Redis has had a heartbeat
	size    prometheus.Gauge
	stop    context.CancelFunc // ends the heartbeats
	stopped sync.WaitGroup     // for which close waits
}

// newFleet begins to leave heartbeats, but doesn't wait for the first one: a proxy starts,
// and goes on, without its Redis. Callers must call close.
func newFleet(server *redisclient.Client, log zerolog.Logger, metrics prometheus.Registerer) *fleet {
	f := &fleet{
		server: server,
		member: rand.Text(),
		size: promauto.With(metrics).NewGauge(prometheus.GaugeOpts{
			Name: "robotsproxy_paced_proxies",
			Help: "Proxies that share their turns by Redis, this one included, as last seen there.",
		}),
	}
	f.outage = outage.New(
		func(err error) {
			log.Warn().Err(err).Int64("proxies", f.members.Load()).
				Msg("turns cannot be shared: until Redis answers again this proxy paces requests alone, by the delay times the proxies that it last saw there")
		},
		func() { log.Info().Msg("Redis is back: turns are shared again") },
	)
	f.setMembers(1)
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background())
	f.stopped.Go(func() { f.beat(ctx) })
	return f
}

// close ends the heartbeats, and has the other proxies no longer count this one.
func (f *fleet) close() {
	f.stop()
	f.stopped.Wait()
	f.outage.Close()
	// Should this fail, the member expires without heartbeats.
	_ = f.server.Ask(context.Background(), func(ctx context.Context, rdb *redis.Client) error {
		return rdb.ZRem(ctx, membersKey, f.member).Err()
	})
}

// beat leaves heartbeats until ctx ends.
func (f *fleet) beat(ctx context.Context) {
	next := time.NewTicker(heartbeatEvery)
	defer next.Stop()
	for {
		f.heartbeat()
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
	}
}

// heartbeatScript says that a proxy is a member for so many milliseconds. It gives
// whether it was none before, and how many there are.
var heartbeatScript = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local new = redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {new, redis.call('ZCARD', KEYS[1])}`)

// heartbeat says that this proxy shares the turns, and sees how many do. A Redis that
// has forgotten this one has forgotten the others too, whose heartbeats are yet to come:
// what was seen before counts once more.
func (f *fleet) heartbeat() {
	f.ask(func(ctx context.Context, rdb *redis.Client) error {
		seen, err := heartbeatScript.Run(ctx, rdb, []string{membersKey}, f.member, memberFor.Milliseconds()).Int64Slice()
		if err != nil {
			return err
		}
		isNew, members := seen[0] == 1, seen[1]
		if f.joined.Swap(true) && isNew {
			members = max(members, f.members.Load())
		}
		f.setMembers(members)
		return nil
	})
}

func (f *fleet) setMembers(n int64) {
	f.members.Store(n)
	f.size.Set(float64(n))
}

// alone is the delay that this proxy keeps while it cannot share its turns: all of the
// fleet together then keep delay.
func (f *fleet) alone(delay time.Duration) time.Duration {
	n := time.Duration(f.members.Load())
	return min(delay, maxDelay/n) * n
}

// turn is one that has been taken.
type turn struct {
	key, token string
	wait       time.Duration // until it comes, when it was taken
	hold       time.Duration // until the origin's hold is over, then; not above 0: it has none
	comes      time.Time     // by the clock of this process
}

// takeScript finds the first time that is a delay away from all turns that are taken,
// and takes it unless it is too far off. That may be a turn which was given back: else
// clients that leave and come again would fill all time with turns that nobody uses.
// It gives how long it is until then, also a second time to one whose first answer was
// lost, and until the origin's hold is over. A turn is kept until the delay after it is over. All times are milliseconds.
var takeScript = redis.NewScript(`
local token, delay, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local held = tonumber(KEYS[2] and redis.call('GET', KEYS[2]) or 0)
local slot = tonumber(redis.call('ZSCORE', KEYS[1], token) or nil)
if not slot then
	redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - delay)
	slot = math.max(now, held)
	local taken = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
	for i = 2, #taken, 2 do
		if taken[i] - slot >= delay then
			break
		end
		slot = math.max(slot, taken[i] + delay)
	end
	if slot - now <= most then
		redis.call('ZADD', KEYS[1], slot, token)
		redis.call('PEXPIRE', KEYS[1], math.max(slot, taken[#taken] or 0) - now + delay)
	end
end
return {slot - now, held - now}`)

// holdScript lengthens a hold, but shortens none.
var holdScript = redis.NewScript(`
local time = redis.call('TIME')
local till = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]
if till > tonumber(redis.call('GET', KEYS[1]) or 0) then
	redis.call('SET', KEYS[1], string.format('%.0f', till), 'PX', ARGV[1])
end
return 1`)

// take takes the next turn; one that is further off than MaxWait is not taken. nil
// means that Redis is away.
func (f *fleet) take(r *Request, delay time.Duration, opts *Options) *turn {
	t := &turn{key: turnsKey + hashed(r.Origin, r.Identity, r.Group), token: rand.Text()}
	keys := []string{t.key}
	if opts.RetryAfter {
		keys = append(keys, holdKey+hashed(r.Origin, r.Identity))
	}
	answered := f.ask(func(ctx context.Context, rdb *redis.Client) error {
		ms, err := takeScript.Run(ctx, rdb, keys, t.token, milliseconds(delay), opts.MaxWait.Milliseconds()).Int64Slice()
		if err != nil {
			return err
		}
		t.wait, t.hold = time.Duration(ms[0])*time.Millisecond, time.Duration(ms[1])*time.Millisecond
		return nil
	})
	if !answered {
		return nil
	}
	return t
}

// giveBack gives back a turn of a request that has left. The next that comes, to any
// proxy, gets it.
func (f *fleet) giveBack(t *turn) {
	f.ask(func(ctx context.Context, rdb *redis.Client) error { return rdb.ZRem(ctx, t.key, t.token).Err() })
}

// hold tells the others that an origin holds requests for so long. It is heeded by
// those that take a turn later.
func (f *fleet) hold(r *Request, length time.Duration) {
	keys := []string{holdKey + hashed(r.Origin, r.Identity)}
	f.ask(func(ctx context.Context, rdb *redis.Client) error {
		return holdScript.Run(ctx, rdb, keys, milliseconds(length)).Err()
	})
}

// ask asks Redis, and reports whether that worked: if not, this proxy paces alone. A
// client that leaves doesn't break a question off: nobody would know then whether a turn
// was taken.
func (f *fleet) ask(question func(context.Context, *redis.Client) error) bool {
	attempt := f.outage.Begin()
	if err := f.server.Ask(context.Background(), question); err != nil {
		f.outage.Failed(err)
		return false
	}
	attempt.Succeeded()
	return true
}

// milliseconds is d rounded up.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// hashed is a name of fixed length for all parts.
func hashed(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d %s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
