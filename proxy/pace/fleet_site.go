package pace

import (
	"context"
	"crypto/rand"
	"math"
	mathrand "math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// news is what the fleet knows of a site, as one identity has met it.
type news struct {
	wait   time.Duration // for how long no request may start; 0 if one may
	heldBy Holder        // "" if wait is 0
	probe  bool          // the request that asked is the probe

	// See row.
	failures, pauses int
	epoch            int64
}

const (
	// probeLease is how long a probe may take before another proxy may send one: longer than
	// an origin normally gets for its response, in case the proxy has died.
	probeLease = 2 * time.Minute
	// probePoll is how often a proxy with waiting requests asks how another one's probe ended.
	probePoll = 500 * time.Millisecond
)

// enterScript asks whether a request may start, and counts it if so and it has a token. KEYS are the site's hold,
// failures and day; ARGV the request's token or nothing, then 1 or 0 for whether Retry-After and back_off
// count, the lease of a probe, how soon to ask again while there is another one, the limit of a
// day (0: none), the length of an hour, how many there are in a day, and for how long a row stays
// known.
//
// It returns what holds the request (0 nothing, 1 Retry-After, 2 back_off, 3 max_per_day), for
// how many milliseconds, whether it is a probe, and the row of failures. A request that asks
// again, since the first answer was lost, may be counted twice.
var enterScript = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local row, probe = {0, 0, 0}, 0
if ARGV[3] == '1' then
	local known = redis.call('HMGET', KEYS[2], 'failures', 'pauses', 'epoch', 'until', 'probe', 'lease')
	row = {tonumber(known[1] or 0), tonumber(known[2] or 0), tonumber(known[3] or 0)}
	local till = tonumber(known[4] or 0)
	if till > now then
		return {2, till - now, 0, row[1], row[2], row[3]}
	end
	local lease = tonumber(known[6] or 0)
	if row[2] > 0 and known[5] and known[5] ~= ARGV[1] and lease > now then
		return {2, math.min(lease - now, ARGV[5]), 0, row[1], row[2], row[3]}
	end
	probe = row[2] > 0 and 1 or 0
end
if ARGV[2] == '1' then
	local held = tonumber(redis.call('GET', KEYS[1]) or 0)
	if held > now then
		return {1, held - now, 0, row[1], row[2], row[3]}
	end
end
local limit = tonumber(ARGV[6])
if limit > 0 then
	local hour, hours = math.floor(now / ARGV[7]), tonumber(ARGV[8])
	local starts, total, oldest = redis.call('HGETALL', KEYS[3]), 0, hour
	for i = 1, #starts, 2 do
		local at = tonumber(starts[i])
		if at <= hour - hours then
			redis.call('HDEL', KEYS[3], starts[i])
		else
			total, oldest = total + starts[i + 1], math.min(oldest, at)
		end
	end
	if total >= limit then
		return {3, (oldest + hours) * ARGV[7] - now, 0, row[1], row[2], row[3]}
	end
	if ARGV[1] == '' then
		return {0, 0, 0, row[1], row[2], row[3]}
	end
	redis.call('HINCRBY', KEYS[3], string.format('%.0f', hour), 1)
	redis.call('PEXPIRE', KEYS[3], hours * ARGV[7])
end
if probe == 1 and ARGV[1] ~= '' then
	redis.call('HSET', KEYS[2], 'probe', ARGV[1], 'lease', string.format('%.0f', now + ARGV[4]))
	redis.call('PEXPIRE', KEYS[2], ARGV[4] + ARGV[9])
end
return {0, 0, probe, row[1], row[2], row[3]}`)

// failedScript adds a failure to a row. ARGV are the request's token and epoch, back_off's
// after, first and max, and what part of a pause is kept. A token that comes again, since the
// first answer was lost, adds nothing. The script returns the same as enterScript.
var failedScript = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = redis.call('HMGET', KEYS[1], 'failures', 'pauses', 'epoch', 'until', 'last')
local failures, pauses, epoch = tonumber(known[1] or 0), tonumber(known[2] or 0), tonumber(known[3] or 0)
local till = tonumber(known[4] or 0)
if epoch == tonumber(ARGV[2]) and known[5] ~= ARGV[1] then
	failures = failures + 1
	if pauses > 0 or failures >= tonumber(ARGV[3]) then
		till = now + math.ceil(math.min(ARGV[5], ARGV[4] * 2 ^ pauses) * ARGV[6])
		pauses, epoch = pauses + 1, epoch + 1
		redis.call('HDEL', KEYS[1], 'probe')
	end
	redis.call('HSET', KEYS[1], 'failures', failures, 'pauses', pauses, 'epoch', epoch, 'until', string.format('%.0f', till), 'last', ARGV[1])
	redis.call('PEXPIRE', KEYS[1], math.max(till - now, 0) + ARGV[5])
end
local wait = math.max(till - now, 0)
return {wait > 0 and 2 or 0, wait, 0, failures, pauses, epoch}`)

// succeededScript ends a row, if the request started in its epoch. ARGV are that epoch and for
// how long the row stays known. The script returns the same as enterScript.
var succeededScript = redis.NewScript(`
local known = redis.call('HMGET', KEYS[1], 'failures', 'pauses', 'epoch')
local failures, pauses, epoch = tonumber(known[1] or 0), tonumber(known[2] or 0), tonumber(known[3] or 0)
if failures > 0 and epoch == tonumber(ARGV[1]) then
	epoch = epoch + (pauses > 0 and 1 or 0)
	failures, pauses = 0, 0
	redis.call('HDEL', KEYS[1], 'probe')
	redis.call('HSET', KEYS[1], 'failures', 0, 'pauses', 0, 'epoch', epoch, 'until', 0)
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {0, 0, 0, failures, pauses, epoch}`)

// leaveScript lets another request be the probe.
var leaveScript = redis.NewScript(`
if redis.call('HGET', KEYS[1], 'probe') == ARGV[1] then
	redis.call('HDEL', KEYS[1], 'probe')
end
return 1`)

// enter asks whether a request may start, and counts it if so. It returns nil if Redis does not
// answer.
func (f *fleet) enter(key siteKey, w *waiter, opts *Options) *news {
	return f.mayEnter(key, w.name(), opts)
}

// look asks whether a request might start. It returns nil if Redis does not answer.
func (f *fleet) look(key siteKey, opts *Options) *news { return f.mayEnter(key, "", opts) }

func (f *fleet) mayEnter(key siteKey, token string, opts *Options) *news {
	site := hashed(key.origin, key.identity)
	return f.learn(enterScript, []string{holdKey + site, failuresKey + site, dayKey + site}, token,
		digit(opts.RetryAfter), digit(opts.BackOff.After > 0), probeLease.Milliseconds(), probePoll.Milliseconds(),
		opts.MaxPerDay, time.Hour.Milliseconds(), windowHours, milliseconds(opts.BackOff.Max))
}

// failed adds a failure to the row of a site. It returns nil if Redis does not answer.
func (f *fleet) failed(key siteKey, w *waiter, b BackOff) *news {
	return f.learn(failedScript, failuresOf(key), w.name(), w.epoch, b.After, milliseconds(b.First), milliseconds(b.Max), 0.5+mathrand.Float64()/2)
}

// succeeded ends the row of a site. It returns nil if Redis does not answer.
func (f *fleet) succeeded(key siteKey, w *waiter, b BackOff) *news {
	return f.learn(succeededScript, failuresOf(key), w.epoch, milliseconds(b.Max))
}

// leaveProbe lets another request be the probe of a site.
func (f *fleet) leaveProbe(key siteKey, w *waiter) {
	f.ask(func(ctx context.Context, rdb *redis.Client) error {
		return leaveScript.Run(ctx, rdb, failuresOf(key), w.name()).Err()
	})
}

// learn runs a script that returns news; nil if Redis does not answer.
func (f *fleet) learn(script *redis.Script, keys []string, args ...any) *news {
	var n news
	answered := f.ask(func(ctx context.Context, rdb *redis.Client) error {
		got, err := script.Run(ctx, rdb, keys, args...).Int64Slice()
		if err != nil {
			return err
		}
		n = news{
			heldBy:   []Holder{"", ByRetryAfter, ByBackOff, ByMaxPerDay}[got[0]],
			wait:     time.Duration(got[1]) * time.Millisecond,
			probe:    got[2] == 1,
			failures: int(min(got[3], math.MaxInt32)),
			pauses:   int(min(got[4], math.MaxInt32)),
			epoch:    got[5],
		}
		return nil
	})
	if !answered {
		return nil
	}
	return &n
}

func failuresOf(key siteKey) []string {
	return []string{failuresKey + hashed(key.origin, key.identity)}
}

// name names a request among those of all proxies.
func (w *waiter) name() string {
	if w.token == "" {
		w.token = rand.Text()
	}
	return w.token
}

func digit(b bool) int {
	if b {
		return 1
	}
	return 0
}
