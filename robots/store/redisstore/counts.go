package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"robotsproxy/robots/store"
	"robotsproxy/robots/store/counts"
)

// The keys of counts. Those of a day are hashes from decisions to numbers. All expire with the
// history.
const (
	daysKey  = "days"   // the days on which a proxy has run: a sorted set of their numbers
	batchKey = "batch:" // + ID and day: that a batch has been added
)

// hashKeys, each + day, are the hashes of a day, for the numbers in their order. All but the
// first have only the numbers that are not 0.
var hashKeys = [numbers]string{
	"counts:", // how many requests
	"counts-paced:",
	"counts-ms:", // for how many milliseconds they were paced
	"counts-challenged:",
	"counts-turned-away:",
	"counts-priced:",
}

// numbers is how many numbers a count has.
const numbers = 6

// numbersOf returns the numbers of a count.
func numbersOf(c *counts.Count) [numbers]int64 {
	return [...]int64{c.Requests, c.Paced, c.Waited.Milliseconds(), c.Challenged, c.TurnedAway, c.Priced}
}

// countOf returns the count with these numbers.
func countOf(n [numbers]int64) counts.Count {
	return counts.Count{
		Requests: n[0], Paced: n[1], Waited: time.Duration(n[2]) * time.Millisecond,
		Challenged: n[3], TurnedAway: n[4], Priced: n[5],
	}
}

// batchMemory is for how long it is known that a batch has been added. A proxy adds a batch
// again every few seconds until it has an answer.
const batchMemory = 24 * time.Hour

// addCountsScript adds the rows of a day, unless they have been added before.
var addCountsScript = redis.NewScript(`
local batch, days, requests = unpack(KEYS)
local day, oldest, most, history, memory = unpack(ARGV, 1, 5)
if not redis.call('SET', batch, 1, 'NX', 'PX', memory) then
	return 0
end
redis.call('ZADD', days, day, day)
redis.call('ZREMRANGEBYSCORE', days, '-inf', '(' .. oldest)
redis.call('PEXPIRE', days, history)
local known, numbers = redis.call('HLEN', requests), #KEYS - 2
for i = 6, #ARGV, 2 + numbers do
	local decision = ARGV[i]
	if known >= tonumber(most) and redis.call('HEXISTS', requests, decision) == 0 then
		decision = ARGV[i + 1]
	end
	if redis.call('HINCRBY', requests, decision, ARGV[i + 2]) == tonumber(ARGV[i + 2]) then
		known = known + 1
	end
	for n = 2, numbers do
		if ARGV[i + 1 + n] ~= '0' then
			redis.call('HINCRBY', KEYS[2 + n], decision, ARGV[i + 1 + n])
		end
	end
end
for n = 1, numbers do
	redis.call('PEXPIRE', KEYS[2 + n], history)
end
return 1`)

// AddCounts implements [counts.Store]. The rows of each day are added at once, or not at all.
func (s *Store) AddCounts(ctx context.Context, b counts.Batch) error {
	byDay := map[counts.Day][]any{}
	for _, day := range b.Days {
		byDay[day] = nil
	}
	for _, row := range b.Rows {
		byDay[row.Day] = append(byDay[row.Day], encodeDecision(row.Decision), encodeDecision(row.Rest()))
		for _, n := range numbersOf(&row.Count) {
			byDay[row.Day] = append(byDay[row.Day], n)
		}
	}
	oldest := counts.DayOf(s.now().Add(-s.history))
	for day, rows := range byDay {
		name := day.String()
		prefix := s.server.Prefix("")
		keys := []string{prefix + batchKey + b.ID + ":" + name, prefix + daysKey}
		for _, key := range hashKeys {
			keys = append(keys, prefix+key+name)
		}
		args := append([]any{int(day), int(oldest), counts.MaxDecisions, s.history.Milliseconds(), batchMemory.Milliseconds()}, rows...)
		err := s.server.AskAnyway(ctx, longTimeout, func(ctx context.Context, rdb redis.Cmdable) error {
			return addCountsScript.Run(ctx, rdb, keys, args...).Err()
		})
		if err != nil {
			return fmt.Errorf("keeping the counts of %s: %w", name, err)
		}
	}
	return nil
}

// encodeDecision returns the name of a decision in a day's hashes: a JSON array, which people
// can read.
func encodeDecision(d counts.Decision) string {
	text, _ := json.Marshal(fieldsOf(&d)) // strings can always be encoded
	return string(text)
}

// fieldsOf are the parts of a decision, in the order in which they are kept.
func fieldsOf(d *counts.Decision) []*string {
	return []*string{
		&d.Identity, &d.Origin, (*string)(&d.Outcome), &d.Verdict, &d.Reason,
		&d.Rule, &d.Preference, &d.Cause, &d.OverrideReason,
	}
}

// decodeDecision reads what encodeDecision has written. A newer version may add parts.
func decodeDecision(name string) (d counts.Decision, err error) {
	var parts []string
	if err := json.Unmarshal([]byte(name), &parts); err != nil {
		return d, err
	}
	for i, field := range fieldsOf(&d) {
		if i < len(parts) {
			*field = parts[i]
		}
	}
	return d, nil
}

// Counts implements [counts.Store].
func (s *Store) Counts(ctx context.Context, p counts.Period, do func(counts.Row) error) error {
	days, err := s.DaysRun(ctx, p)
	if err != nil {
		return err
	}
	for _, day := range days {
		var all [numbers]map[string]string
		for i, key := range hashKeys {
			if all[i], err = s.readHash(ctx, s.server.Prefix("")+key+day.String()); err != nil {
				return fmt.Errorf("reading the counts of %s: %w", day, err)
			}
		}
		for name := range all[0] {
			row := counts.Row{Day: day}
			if row.Decision, err = decodeDecision(name); err != nil {
				return fmt.Errorf("reading the counts of %s: %w", day, err)
			}
			var n [numbers]int64
			for i, hash := range all {
				n[i], _ = strconv.ParseInt(hash[name], 10, 64)
			}
			row.Count = countOf(n)
			if err := do(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// scanPage is about how many fields one step of readHash reads.
const scanPage = 5000

// readHash reads a hash that may be large, in steps, so that others need not wait.
func (s *Store) readHash(ctx context.Context, key string) (map[string]string, error) {
	all := map[string]string{}
	for cursor := uint64(0); ; {
		var page []string
		err := s.server.AskAnyway(ctx, longTimeout, func(ctx context.Context, rdb redis.Cmdable) (err error) {
			var next uint64
			if page, next, err = rdb.HScan(ctx, key, cursor, "", scanPage).Result(); err == nil {
				cursor = next
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for i := 0; i+1 < len(page); i += 2 {
			all[page[i]] = page[i+1]
		}
		if cursor == 0 {
			return all, nil
		}
	}
}

// DaysRun implements [counts.Store].
func (s *Store) DaysRun(ctx context.Context, p counts.Period) (days []counts.Day, err error) {
	var numbers []string
	err = s.server.AskAnyway(ctx, longTimeout, func(ctx context.Context, rdb redis.Cmdable) (err error) {
		numbers, err = rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: s.server.Prefix("") + daysKey, ByScore: true, Start: int(p.From), Stop: int(p.Until)}).Result()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading on which days a proxy has run: %w", err)
	}
	for _, text := range numbers {
		if n, err := strconv.Atoi(text); err == nil {
			days = append(days, counts.Day(n))
		}
	}
	return days, nil
}

// Changes calls do with the changes of robots.txt from a time until another, in no order. The
// first answer that is kept of an origin is no change.
func (s *Store) Changes(ctx context.Context, from, until time.Time, do func(store.Change)) error {
	for after := ""; ; {
		recs, err := s.List(ctx, after, "", listPage)
		if err != nil || len(recs) == 0 {
			return err
		}
		after = recs[len(recs)-1].Origin
		first := make([]*redis.MapStringStringCmd, len(recs))
		err = s.server.AskAnyway(ctx, longTimeout, func(ctx context.Context, rdb redis.Cmdable) error {
			_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
				for i, rec := range recs {
					first[i] = p.HGetAll(ctx, s.server.Prefix(rec.Origin)+firstKey+rec.Origin)
				}
				return nil
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("reading the changes of robots.txt: %w", err)
		}
		for i, rec := range recs {
			changesOf(rec.Origin, first[i].Val(), from, until, do)
		}
	}
}

// changesOf calls do with the changes of one origin, whose versions were first seen at these
// times.
func changesOf(origin string, firstSeen map[string]string, from, until time.Time, do func(store.Change)) {
	var earliest time.Time
	for _, at := range firstSeen {
		if t := parseTime(at); earliest.IsZero() || t.Before(earliest) {
			earliest = t
		}
	}
	for version, at := range firstSeen {
		t := parseTime(at)
		if t.After(earliest) && !t.Before(from) && t.Before(until) {
			status, sum := parseVersion(version)
			do(store.Change{Origin: origin, At: t, Status: status, SHA256: sum})
		}
	}
}
