// Package fleet is what proxies that pace requests share through a Redis server: turns, holds,
// failures in a row and the counts of the day.
//
// A [Fleet] takes turns ([Fleet.Take]) and asks whether a request whose turn has come may start
// ([Fleet.Enter]). The answer is the [State] of the site. No answer means that Redis is away: callers
// then pace alone, by [Fleet.Members]. Each question is one script, which Redis runs as a whole.
package fleet

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

// The keys in Redis, after the prefix that [redisclient.Client.Prefix] gives an origin. All of them expire. Names of origins, identities and groups may be
// long, so keys have their hash. An origin may be a registrable domain here: see [Site].
const (
	turnsKey    = "turns:"    // + origin, identity and group: a sorted set of turns by their time
	holdKey     = "hold:"     // + origin and identity: when the hold that the origin asked for ends
	failuresKey = "failures:" // + origin and identity: a hash with the row of failures
	dayKey      = "day:"      // + origin and identity: a hash with the requests of each hour
	membersKey  = "proxies"   // a sorted set of the proxies that share turns, by when they expire
)

// A proxy sends a heartbeat every heartbeatEvery, and counts as a member for memberFor after
// its last one.
const (
	heartbeatEvery = 2 * time.Second
	memberFor      = 5 * heartbeatEvery
)

// Fleet has the turns that several proxies share through a Redis server. Times are those of
// the server's clock. A Fleet is safe for concurrent use.
type Fleet struct {
	server *redisclient.Client
	outage *outage.Reporter

	member  string       // this proxy's name among the members
	members atomic.Int64 // proxies that share the turns, as last seen; at least 1
	joined  atomic.Bool  // Redis has received a heartbeat
	size    prometheus.Gauge
	stop    context.CancelFunc // ends the heartbeats
	stopped sync.WaitGroup     // for which Close waits
}

// New returns the fleet of a server, of which this proxy is no member yet. It can be asked before it joins.
// If metrics is not nil, it registers its metric there.
func New(server *redisclient.Client, log zerolog.Logger, metrics prometheus.Registerer) *Fleet {
	f := &Fleet{
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
				Msg("turns cannot be shared: until Redis answers again, this proxy paces requests alone, by the delay multiplied by the number of proxies that it last saw there")
		},
		func() { log.Info().Msg("Redis is back: turns are shared again") },
	)
	f.setMembers(1)
	return f
}

// Join starts to send heartbeats. It does not wait for the first one: a proxy starts and works
// without its Redis. Callers must call Close.
func (f *Fleet) Join() {
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background())
	f.stopped.Go(func() { f.beat(ctx) })
}

// Close ends the heartbeats and removes this proxy from the members.
func (f *Fleet) Close() {
	f.stop()
	f.stopped.Wait()
	f.outage.Close()
	// If this fails, the member expires without heartbeats.
	_ = f.server.Ask(context.Background(), func(ctx context.Context, rdb redis.Cmdable) error {
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, prefix := range f.server.Prefixes() {
				p.ZRem(ctx, prefix+membersKey, f.member)
			}
			return nil
		})
		return err
	})
}

// beat sends heartbeats until ctx ends.
func (f *Fleet) beat(ctx context.Context) {
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

// heartbeatScript makes a proxy a member for so many milliseconds. It returns 1 if the proxy
// is a new member, and the number of members.
var heartbeatScript = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local new = redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {new, redis.call('ZCARD', KEYS[1])}`)

// heartbeat renews the membership of this proxy and counts the members. A Redis that has
// forgotten this proxy has forgotten the others too, until their next heartbeats. So the
// former count holds until then.
func (f *Fleet) heartbeat() {
	f.ask(func(ctx context.Context, rdb redis.Cmdable) error {
		var calls []redisclient.Call // the members are with every site's keys
		for _, prefix := range f.server.Prefixes() {
			calls = append(calls, redisclient.Call{Keys: []string{prefix + membersKey}, Args: []any{f.member, memberFor.Milliseconds()}})
		}
		replies, err := redisclient.RunAll(ctx, rdb, heartbeatScript, calls)
		if err != nil {
			return err
		}
		seen, err := replies[0].Int64Slice()
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

func (f *Fleet) setMembers(n int64) {
	f.members.Store(n)
	f.size.Set(float64(n))
}

// Members returns how many proxies share the turns, as last seen: at least 1, this one.
func (f *Fleet) Members() int64 { return f.members.Load() }

// Turn is a turn taken from the fleet, or found too far off to take.
type Turn struct {
	Wait time.Duration // from when it was taken to when it comes
	Hold time.Duration // from when it was taken to the end of the origin's hold; 0 or less if there is none
	At   time.Time     // by the clock of this process; the caller of Take sets it

	key, token string
}

// takeScript finds the first time that is after the delay of each turn taken before it and its
// own delay before the next one, and takes it unless it is too far off. It may be a turn that was
// given back: else clients that leave and return would fill all time with turns that nobody uses.
//
// It returns how long it is until the turn and until the end of the origin's hold, in
// milliseconds. A request that asks again, since the first answer was lost, gets the same
// turn. A turn is kept until the delay after it is over. That delay is the last part of its
// name; a name without one is of an older version of this program.
var takeScript = redis.NewScript(`
local token, delay, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local held = tonumber(KEYS[2] and redis.call('GET', KEYS[2]) or 0)
local slot = tonumber(redis.call('ZSCORE', KEYS[1], token) or nil)
if not slot then
	slot = math.max(now, held)
	local taken, last, found = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), 0, false
	for i = 2, #taken, 2 do
		local free = taken[i] + (tonumber(string.match(taken[i - 1], ':(%d+)$') or nil) or delay)
		if free <= now then
			redis.call('ZREM', KEYS[1], taken[i - 1])
		else
			found = found or taken[i] - slot >= delay
			if not found then
				slot = math.max(slot, free)
			end
			last = math.max(last, free)
		end
	end
	if slot - now <= most then
		redis.call('ZADD', KEYS[1], slot, token)
		redis.call('PEXPIRE', KEYS[1], math.max(slot + delay, last) - now)
	end
end
return {slot - now, held - now}`)

// holdScript holds an origin for so many milliseconds. It never shortens a hold.
var holdScript = redis.NewScript(`
local time = redis.call('TIME')
local till = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]
if till > tonumber(redis.call('GET', KEYS[1]) or 0) then
	redis.call('SET', KEYS[1], string.format('%.0f', till), 'PX', ARGV[1])
end
return 1`)

// Take takes the next turn of a group at a site, with a delay after it, unless it is further off
// than most. If heedsHold, it comes after the hold that the origin asked for. Take returns nil if
// Redis does not answer.
func (f *Fleet) Take(site Site, group string, delay, most time.Duration, heedsHold bool) *Turn {
	prefix := f.server.Prefix(site.Origin)
	t := &Turn{key: prefix + turnsKey + hashed(site.Origin, site.Identity, group), token: fmt.Sprintf("%s:%d", rand.Text(), milliseconds(delay))}
	keys := []string{t.key}
	if heedsHold {
		keys = append(keys, prefix+holdKey+site.hashed())
	}
	answered := f.ask(func(ctx context.Context, rdb redis.Cmdable) error {
		ms, err := takeScript.Run(ctx, rdb, keys, t.token, milliseconds(delay), most.Milliseconds()).Int64Slice()
		if err != nil {
			return err
		}
		t.Wait, t.Hold = time.Duration(ms[0])*time.Millisecond, time.Duration(ms[1])*time.Millisecond
		return nil
	})
	if !answered {
		return nil
	}
	return t
}

// GiveBack returns the turn of a request that has left. The next request that comes to any
// proxy gets it.
func (f *Fleet) GiveBack(t *Turn) {
	f.ask(func(ctx context.Context, rdb redis.Cmdable) error { return rdb.ZRem(ctx, t.key, t.token).Err() })
}

// Hold tells the other proxies that an origin holds requests for so long. It affects
// requests that take a turn from then on.
func (f *Fleet) Hold(site Site, length time.Duration) {
	keys := []string{f.server.Prefix(site.Origin) + holdKey + site.hashed()}
	f.ask(func(ctx context.Context, rdb redis.Cmdable) error {
		return holdScript.Run(ctx, rdb, keys, milliseconds(length)).Err()
	})
}

// ask asks Redis, and reports whether it answered. If not, this proxy paces alone. No client
// that leaves cancels a question: it would then be unknown whether a turn was taken.
func (f *Fleet) ask(question func(context.Context, redis.Cmdable) error) bool {
	attempt := f.outage.Begin()
	if err := f.server.Ask(context.Background(), question); err != nil {
		f.outage.Failed(err)
		return false
	}
	attempt.Succeeded()
	return true
}

// milliseconds returns d in milliseconds, rounded up.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// hashed returns a name of fixed length for the parts together.
func hashed(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d %s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
