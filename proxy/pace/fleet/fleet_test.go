//go:build unix

package fleet

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"robotsproxy/internal/logtest"
	"robotsproxy/internal/redisclient"
	"robotsproxy/internal/redistest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// joined returns a fleet of which the test's proxy is a member.
func joined(t *testing.T, server *redisclient.Client, log zerolog.Logger) *Fleet {
	t.Helper()
	f := New(server, log, nil)
	f.Join()
	t.Cleanup(f.Close)
	return f
}

// stopHeartbeats ends the heartbeats of a proxy, as if it had been killed.
func stopHeartbeats(f *Fleet) {
	f.stop()
	f.stopped.Wait()
}

// near allows for the time between two questions.
func near(got, want time.Duration) bool { return got <= want && got > want-30*time.Second }

func TestTakesTurns(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Inspect()
	one, two := joined(t, server.Client(), zerolog.Nop()), joined(t, server.Client(), zerolog.Nop())
	const delay, most = time.Minute, 4 * time.Minute
	site := Site{Origin: "https://example.com", Identity: "bot"}
	var turns []*Turn
	for i := range 5 {
		f := []*Fleet{one, two}[i%2]
		turn := f.Take(site, "", delay, most, true)
		if turn == nil || !near(turn.Wait, time.Duration(i)*delay) && i > 0 || i == 0 && turn.Wait != 0 {
			t.Fatalf("turn %d: %+v", i, turn)
		}
		turns = append(turns, turn)
	}
	want := func(what string, wait time.Duration) *Turn {
		t.Helper()
		turn := two.Take(site, "", delay, most, true)
		if turn == nil || !near(turn.Wait, wait) {
			t.Errorf("%s: %+v, want %v", what, turn, wait)
		}
		return turn
	}
	if late := want("one that is too late", 5*delay); late.Wait <= most {
		t.Errorf("it is not: %v", late.Wait)
	}
	want("another, as that took no turn", 5*delay)
	one.GiveBack(turns[2])
	want("a turn in the middle is given again", 2*delay)
	want("once", 5*delay)
	one.GiveBack(turns[3])
	two.GiveBack(turns[4])
	want("the last are given back, in any order", 3*delay)

	if turn := two.Take(site, "Other", delay, most, true); turn == nil || turn.Wait != 0 {
		t.Errorf("another group: %+v", turn)
	}
	one.Hold(site, 3*time.Minute)
	one.Hold(site, time.Minute)
	if turn := two.Take(site, "Third", delay, most, true); turn == nil || !near(turn.Wait, 3*delay) || turn.Hold != turn.Wait {
		t.Errorf("a hold: %+v", turn)
	}
	if turn := two.Take(site, "Fourth", delay, most, false); turn == nil || turn.Wait != 0 {
		t.Errorf("a hold that is not heeded: %+v", turn)
	}
	for _, key := range rdb.Keys(context.Background(), "*").Val() {
		ttl := rdb.PTTL(context.Background(), key).Val()
		if !strings.HasPrefix(key, "robotsproxy:") || ttl <= 0 || ttl > most+delay {
			t.Errorf("the key %s is kept for %v", key, ttl)
		}
	}
}

// In a Cluster the scripts work for every site, on whatever node its keys are.
func TestInACluster(t *testing.T) {
	nodes := redistest.StartCluster(t)
	server := redistest.Open(t, redisclient.Options{URL: "redis+cluster://" + nodes[0].Address})
	var log logtest.Buffer
	f := joined(t, server, zerolog.New(&log))
	rules := Rules{RetryAfter: true, MaxPerDay: 2, After: 1, First: time.Hour, Max: time.Hour}
	for f.Look(Site{"https://example.com", "bot"}, rules) == nil || !f.joined.Load() {
		time.Sleep(time.Millisecond)
	}
	for i := range 10 {
		site := Site{fmt.Sprintf("https://%d.example", i), "bot"}
		turn, next := f.Take(site, "", time.Minute, time.Hour, true), f.Take(site, "", time.Minute, time.Hour, true)
		if turn == nil || next == nil || !near(next.Wait, time.Minute) {
			t.Fatalf("%s: the turns are %v and %v", site.Origin, turn, next)
		}
		f.GiveBack(next)
		if state := f.Enter(site, "1", rules); state == nil || state.By != None {
			t.Errorf("%s: entering: %+v", site.Origin, state)
		}
		if state := f.Succeeded(site, 0, rules); state == nil || state.Failures != 0 {
			t.Errorf("%s: a success: %+v", site.Origin, state)
		}
		if state := f.Failed(site, "1", 0, rules); state == nil || state.By != BackOff {
			t.Errorf("%s: a failure: %+v", site.Origin, state)
		}
		f.LeaveProbe(site, "1")
		f.Hold(site, time.Hour)
		if turn := f.Take(site, "", time.Minute, 2*time.Hour, true); turn == nil || !near(turn.Hold, time.Hour) {
			t.Errorf("%s: the turn after a hold: %+v", site.Origin, turn)
		}
	}
	if text := log.String(); text != "" {
		t.Errorf("logged:\n%s", text)
	}
}

// A proxy whose answer was lost asks again and gets the same turn.
func TestAskedTwice(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Inspect()
	for i, token := range []string{"a", "b", "b", "a", "c"} {
		ms, err := takeScript.Run(context.Background(), rdb, []string{"turns", "hold"}, token, 60_000, 600_000).Int64Slice()
		want := []time.Duration{0, 1, 1, 0, 2}[i] * time.Minute
		if got := time.Duration(ms[0]) * time.Millisecond; err != nil || !near(got, want) {
			t.Errorf("%s: %v, %v; want %v", token, got, err, want)
		}
	}
}

// If Redis answers with errors, no turns are shared, but each question is still asked.
func TestWhenRedisAnswersErrors(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Inspect()
	var log logtest.Buffer
	client := server.Client()
	client.Cooldown = time.Hour
	f := New(client, zerolog.New(&log), nil)
	defer f.outage.Close()
	key := "robotsproxy:" + turnsKey + hashed("https://example.com", "bot", "")
	if err := rdb.Set(context.Background(), key, "not a sorted set", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if turn := f.Take(Site{"https://example.com", "bot"}, "", time.Minute, time.Hour, true); turn != nil {
		t.Errorf("took %+v", turn)
	}
	if text := log.String(); !strings.Contains(text, "turns cannot be shared") || !strings.Contains(text, "WRONGTYPE") {
		t.Errorf("logged:\n%s", text)
	}
	if err := rdb.Del(context.Background(), key).Err(); err != nil {
		t.Fatal(err)
	}
	if turn := f.Take(Site{"https://example.com", "bot"}, "", time.Minute, time.Hour, true); turn == nil {
		t.Error("Redis is left alone, though it answered")
	}
}

// Each proxy of a fleet knows how many there are. A closed one leaves at once, a killed one
// when its last heartbeat expires.
func TestCountsItsMembers(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Inspect()
	fleets := []*Fleet{joined(t, server.Client(), zerolog.Nop()), joined(t, server.Client(), zerolog.Nop()), joined(t, server.Client(), zerolog.Nop())}
	one := fleets[0]
	want := func(what string, n float64) {
		t.Helper()
		one.heartbeat()
		if got := testutil.ToFloat64(one.size); got != n {
			t.Errorf("%s: %v proxies, want %v", what, got, n)
		}
	}
	for _, f := range fleets {
		f.heartbeat()
	}
	want("all", 3)
	fleets[1].Close()
	want("one is closed", 2)
	ctx := context.Background()
	if ttl := rdb.PTTL(ctx, "robotsproxy:"+membersKey).Val(); ttl <= 0 || ttl > memberFor {
		t.Errorf("the members are kept for %v", ttl)
	}
	killed := fleets[2]
	stopHeartbeats(killed)
	rdb.ZAdd(ctx, "robotsproxy:"+membersKey, redis.Z{Score: 1, Member: killed.member}) // as if its heartbeat were over
	want("one was killed", 1)
}

// A restarted Redis has no heartbeats of the other proxies yet.
func TestThatRedisForgot(t *testing.T) {
	server := redistest.Start(t)
	one, two := joined(t, server.Client(), zerolog.Nop()), joined(t, server.Client(), zerolog.Nop())
	for _, f := range []*Fleet{one, two} {
		stopHeartbeats(f) // the test gives them
		f.heartbeat()
	}
	one.heartbeat()
	server.Flush()
	for i, want := range []int64{2, 1} {
		one.heartbeat()
		if got := one.members.Load(); got != want {
			t.Errorf("heartbeat %d afterwards: %d proxies, want %d", i+1, got, want)
		}
	}
}

// However often Redis comes and goes, the log says once that it is away, and once that it is back.
func TestLogsAnOutageOnce(t *testing.T) {
	server := redistest.Start(t)
	var log logtest.Buffer
	client := server.Client()
	client.Cooldown = time.Nanosecond
	f := New(client, zerolog.New(&log), nil)
	defer f.outage.Close()
	f.outage.QuietPeriod = time.Hour
	take := func() { f.Take(Site{"https://example.com", "bot"}, "", time.Millisecond, time.Hour, true) }
	take()
	server.Kill()
	for range 5 {
		take()
	}
	for range 2 {
		server.Restart()
		take()
		server.Kill()
		take()
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "turns cannot be shared") || !strings.Contains(text, server.Address) {
		t.Errorf("logged:\n%s", text)
	}
	f.outage.QuietPeriod = time.Millisecond
	server.Restart()
	take()
	for strings.Count(log.String(), "\n") < 2 {
		time.Sleep(time.Millisecond)
	}
	take()
	if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "Redis is back") {
		t.Errorf("logged:\n%s", text)
	}
}
