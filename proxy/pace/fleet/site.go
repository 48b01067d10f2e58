package fleet

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// Site names an origin, or a registrable domain, as one identity meets it.
type Site struct{ Origin, Identity string }

func (s Site) hashed() string { return hashed(s.Origin, s.Identity) }

// Rules are what a proxy has the fleet keep at a site.
type Rules struct {
	RetryAfter bool // keep the holds that origins ask for
	MaxPerDay  int  // requests in WindowHours; 0: no limit

	// After is how many failures in a row begin a pause; 0: none does. Pauses are between half
	// of First and Max.
	After      int
	First, Max time.Duration
}

// WindowHours is how many hours of the clock a limit of a day is about: the present one and the
// 24 before it.
const WindowHours = 25

// State is what the fleet knows of a site.
type State struct {
	Wait  time.Duration // for how long no request may start; 0 if one may
	By    Reason        // for the wait
	Probe bool          // the request that asked is the probe

	// Failures in a row, the pauses that they have begun, and the row's epoch: another one after
	// each beginning of a pause, and after the last one's good end.
	Failures, Pauses int
	Epoch            int64
}

// Reason is why no request may start. The scripts use the same numbers.
type Reason int

// All reasons.
const (
	None       Reason = iota
	RetryAfter        // the origin has asked for a pause
	BackOff           // it has failed several times in a row
	MaxPerDay         // as many requests as may have started
)

const (
	// ProbeLease is how long a probe may take before another request may be one: longer than
	// an origin normally gets for its response. The probe of a proxy that is no member any
	// more is over at once.
	ProbeLease = 2 * time.Minute
	// probePoll is how often a proxy with waiting requests asks how another one's probe ended.
	probePoll = 500 * time.Millisecond
)

// enterScript asks whether a request may start, and counts it if so and it has a token. KEYS are the site's hold,
// failures and day, and the members; ARGV the request's token or nothing, then 1 or 0 for whether Retry-After and back_off
// count, the lease of a probe, how soon to ask again while there is another one, the limit of a
// day (0: none), the length of an hour, how many there are in a day, for how long a row stays
// known, and the proxy's name among the members.
//
// It returns what holds the request (0 nothing, 1 Retry-After, 2 back_off, 3 max_per_day), for
// how many milliseconds, whether it is a probe, and the row of failures. A request that asks
// again, since the first answer was lost, may be counted twice.
var enterScript = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local row, probe = {0, 0, 0}, 0
if ARGV[3] == '1' then
	local known = redis.call('HMGET', KEYS[2], 'failures', 'pauses', 'epoch', 'until', 'probe', 'lease', 'prober')
	row = {tonumber(known[1] or 0), tonumber(known[2] or 0), tonumber(known[3] or 0)}
	local till = tonumber(known[4] or 0)
	if till > now then
		return {2, till - now, 0, row[1], row[2], row[3]}
	end
	local lease = tonumber(known[6] or 0)
	local alive = known[7] and tonumber(redis.call('ZSCORE', KEYS[4], known[7]) or 0) > now
	if row[2] > 0 and known[5] and known[5] ~= ARGV[1] and lease > now and alive then
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
	redis.call('HSET', KEYS[2], 'probe', ARGV[1], 'lease', string.format('%.0f', now + ARGV[4]), 'prober', ARGV[10])
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

// Enter asks whether a request may start, and counts it if so. The token names the request among
// those of all proxies. Enter returns nil if Redis does not answer.
func (f *Fleet) Enter(site Site, token string, rules Rules) *State {
	return f.mayEnter(site, token, rules)
}

// Look asks whether a request might start. It returns nil if Redis does not answer.
func (f *Fleet) Look(site Site, rules Rules) *State { return f.mayEnter(site, "", rules) }

func (f *Fleet) mayEnter(site Site, token string, rules Rules) *State {
	prefix, name := f.server.Prefix(site.Origin), site.hashed()
	return f.learn(enterScript, []string{prefix + holdKey + name, prefix + failuresKey + name, prefix + dayKey + name, prefix + membersKey}, token,
		digit(rules.RetryAfter), digit(rules.After > 0), ProbeLease.Milliseconds(), probePoll.Milliseconds(),
		rules.MaxPerDay, time.Hour.Milliseconds(), WindowHours, milliseconds(rules.Max), f.member)
}

// Failed adds the failure of a request, which started in an epoch, to the row of a site. It returns
// nil if Redis does not answer.
func (f *Fleet) Failed(site Site, token string, epoch int64, rules Rules) *State {
	return f.learn(failedScript, f.failuresOf(site), token, epoch, rules.After, milliseconds(rules.First), milliseconds(rules.Max), 0.5+rand.Float64()/2)
}

// Succeeded ends the row of a site, if its epoch is still that in which the request started. It
// returns nil if Redis does not answer.
func (f *Fleet) Succeeded(site Site, epoch int64, rules Rules) *State {
	return f.learn(succeededScript, f.failuresOf(site), epoch, milliseconds(rules.Max))
}

// LeaveProbe lets another request be the probe of a site, if the one that the token names is.
func (f *Fleet) LeaveProbe(site Site, token string) {
	f.ask(func(ctx context.Context, rdb redis.Cmdable) error {
		return leaveScript.Run(ctx, rdb, f.failuresOf(site), token).Err()
	})
}

// learn runs a script that returns a state; nil if Redis does not answer.
func (f *Fleet) learn(script *redis.Script, keys []string, args ...any) *State {
	var n State
	answered := f.ask(func(ctx context.Context, rdb redis.Cmdable) error {
		got, err := script.Run(ctx, rdb, keys, args...).Int64Slice()
		if err != nil {
			return err
		}
		n = State{
			By:       Reason(got[0]),
			Wait:     time.Duration(got[1]) * time.Millisecond,
			Probe:    got[2] == 1,
			Failures: int(min(got[3], math.MaxInt32)),
			Pauses:   int(min(got[4], math.MaxInt32)),
			Epoch:    got[5],
		}
		return nil
	})
	if !answered {
		return nil
	}
	return &n
}

func (f *Fleet) failuresOf(site Site) []string {
	return []string{f.server.Prefix(site.Origin) + failuresKey + site.hashed()}
}

func digit(b bool) int {
	if b {
		return 1
	}
	return 0
}
