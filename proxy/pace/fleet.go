package pace

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/rs/zerolog"
)

// The keys. All expire by themselves. What turns and holds are for is hashed, as it
// may be long.
const (
	turnsKey   = "robotsproxy:turns:"  // + origin, identity and group: a sorted set, who has a turn by when it is
	holdKey    = "robotsproxy:hold:"   // + origin and identity: until when requests are held
	membersKey = "robotsproxy:proxies" // a sorted set: who shares the turns by until when it counts without a heartbeat
)

// How long Redis may take, and how long one that did not answer is left alone.
var shortWait = 250 * time.Millisecond // tests give slow machines more

const leftAlone = 5 * time.Second

// A proxy says every heartbeatEvery that it shares the turns. Without a heartbeat it
// counts for as long as memberFor.
const (
	heartbeatEvery = 2 * time.Second
	memberFor      = 5 * heartbeatEvery
)

// maxTries is how often a turn is asked for of a Redis that answers others
// meanwhile: it is there, but it or this machine has much to do.
const maxTries = 4

func init() { logging.Disable() } // it would write to standard error, past the program's log

// fleet is the turns that several proxies share by a Redis server. It is the
// server's clock that counts.
type fleet struct {
	client *redis.Client
	log    zerolog.Logger

	member  string       // this proxy's name among the members
	members atomic.Int64 // proxies that share the turns, as last seen; at least 1
	joined  atomic.Bool  // Redis has had a heartbeat
	size    prometheus.Gauge
	stop    context.CancelFunc // ends the heartbeats
	stopped sync.WaitGroup     // for which close waits

	// By a clock that begins when it is opened:
	opened   time.Time
	answered atomic.Int64 // when Redis last answered
	silent   atomic.Int64 // until when it is left alone; 0: it answers
	away     atomic.Bool  // the log says so
}

// newFleet does not connect: a proxy starts, and goes on, without its Redis.
func newFleet(redisURL string, log zerolog.Logger, metrics prometheus.Registerer) (*fleet, error) {
	opts, err := redis.ParseURL(redisURL)
	if err != nil { // which may hold a part of the password
		return nil, errors.New("sharing turns: cache.redis_url is no address of a Redis server; write redis://USER:PASSWORD@HOST:6379/0")
	}
	opts.ContextTimeoutEnabled = true
	opts.DialTimeout, opts.DialerRetries = shortWait, 1
	opts.MaxRetries, opts.MinRetryBackoff = 2, -1 // for connections that were broken while they lay idle
	opts.PoolSize = 32
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	f := &fleet{
		client: redis.NewClient(opts),
		log:    log,
		member: rand.Text(),
		opened: time.Now(),
		size: promauto.With(metrics).NewGauge(prometheus.GaugeOpts{
			Name: "robotsproxy_paced_proxies",
			Help: "Proxies that share their turns by Redis, this one included, as last seen there.",
		}),
	}
	f.setMembers(1)
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background())
	f.stopped.Go(func() { f.beat(ctx) })
	return f, nil
}

// close has the fleet count without this proxy from now on.
func (f *fleet) close() error {
	f.stop()
	f.stopped.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), shortWait)
	defer cancel()
	f.client.ZRem(ctx, membersKey, f.member) // else it expires there
	return f.client.Close()
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
	f.ask(func(ctx context.Context) error {
		seen, err := heartbeatScript.Run(ctx, f.client, []string{membersKey}, f.member, memberFor.Milliseconds()).Int64Slice()
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
	answered := f.ask(func(ctx context.Context) error {
		ms, err := takeScript.Run(ctx, f.client, keys, t.token, milliseconds(delay), opts.MaxWait.Milliseconds()).Int64Slice()
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
	f.ask(func(ctx context.Context) error { return f.client.ZRem(ctx, t.key, t.token).Err() })
}

// hold tells the others that an origin holds requests for so long. It is heeded by
// those that take a turn later.
func (f *fleet) hold(r *Request, length time.Duration) {
	keys := []string{holdKey + hashed(r.Origin, r.Identity)}
	f.ask(func(ctx context.Context) error {
		return holdScript.Run(ctx, f.client, keys, milliseconds(length)).Err()
	})
}

// ask asks Redis, unless it has not answered of late; false means that it is away.
// It is not broken off when a client leaves: then nobody would know whether a turn
// was taken.
func (f *fleet) ask(what func(context.Context) error) bool {
	if until := f.silent.Load(); until != 0 {
		now := time.Since(f.opened)
		if now < time.Duration(until) || !f.silent.CompareAndSwap(until, int64(now+leftAlone)) { // one tries, not all
			return false
		}
	}
	var err error
	for range maxTries {
		begun := int64(time.Since(f.opened))
		ctx, cancel := context.WithTimeout(context.Background(), shortWait)
		err = what(ctx)
		cancel()
		if err == nil {
			f.answered.Store(int64(time.Since(f.opened)))
			f.silent.Store(0)
			if f.away.Load() && f.away.Swap(false) {
				f.log.Info().Msg("Redis is back: turns are shared again")
			}
			return true
		}
		if f.answered.Load() <= begun {
			break
		}
	}
	f.silent.Store(int64(time.Since(f.opened) + leftAlone))
	if !errors.Is(err, redis.ErrClosed) && !f.away.Swap(true) { // else it is this proxy that stops
		f.log.Warn().Err(fmt.Errorf("asking the Redis at %s: %w", f.client.Options().Addr, err)).
			Int64("proxies", f.members.Load()).
			Msg("turns cannot be shared: until Redis answers again this proxy paces requests alone, by the delay times the proxies that it last saw there")
	}
	return false
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
