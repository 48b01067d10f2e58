//go:build unix

package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"robotsproxy/internal/redistest"
)

const oneDay = 24 * time.Hour

// openOn opens a store on a server at a time that the test may move.
func openOn(t testing.TB, server *redistest.Server, now *time.Time) *redisStore {
	t.Helper()
	opts := Options{Kind: Redis, Server: server.Client(), History: 365 * oneDay}
	if now != nil {
		opts.Now = func() time.Time { return *now }
	}
	s, err := Open(t.Context(), opts, "", 0, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	s.(*redisStore).SetKeep(37 * oneDay)
	return s.(*redisStore)
}

// left returns how long a key still lives.
func left(t *testing.T, rdb *redis.Client, key string) time.Duration {
	t.Helper()
	ttl, err := rdb.PTTL(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return ttl
}

func TestRedisKeyLifetimes(t *testing.T) {
	now := noon
	server := redistest.Start(t)
	s, rdb := openOn(t, server, &now), server.Inspect()
	rec := textRecord("https://example.com", "Disallow: /", noon)
	want := func(key string, lifetime time.Duration) {
		t.Helper()
		if got := left(t, rdb, key); got > lifetime || got < lifetime-time.Minute {
			t.Errorf("%s lives %v, want %v", key, got, lifetime)
		}
	}
	put(t, s, rec)
	want(policyKey+rec.Origin, oneDay+37*oneDay)
	want(textKey+rec.SHA256, 365*oneDay)
	want(versionsKey+rec.Origin, 365*oneDay)
	want(firstKey+rec.Origin, 365*oneDay)

	now = noon.Add(20 * oneDay)
	put(t, s, failingRecord(rec, now))
	want(policyKey+rec.Origin, 37*oneDay)

	s.history = oneDay / 2 // less than the lifetime, for which the text is needed all the same
	now = noon
	put(t, s, textRecord("https://short.example", "short", now))
	want(policyKey+"https://short.example", oneDay)
	want(textKey+textRecord("", "short", now).SHA256, oneDay)
	put(t, s, rec)
	want(textKey+rec.SHA256, 365*oneDay) // what lives longer for another's sake is not cut short

	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		if !strings.HasPrefix(key, "robotsproxy:") {
			t.Errorf("a key %s", key)
		}
		if left(t, rdb, key) < 0 && key != originsKey {
			t.Errorf("%s lives for ever", key)
		}
	}
}

// What has expired, or has been dropped by a Redis that is short of memory, leaves the
// list of origins.
func TestRedisListIsCleaned(t *testing.T) {
	server := redistest.Start(t)
	s, rdb := openOn(t, server, nil), server.Inspect()
	for i := range 40 {
		put(t, s, Record{Origin: fmt.Sprintf("https://%d.example", i), Status: 404, FetchedAt: noon})
	}
	for i := range 30 {
		rdb.Del(t.Context(), policyKey+fmt.Sprintf("https://%d.example", i))
	}
	for range 100 {
		put(t, s, Record{Origin: "https://new.example", Status: 404, FetchedAt: noon})
	}
	if n := rdb.ZCard(t.Context(), originsKey).Val(); n != 11 {
		t.Errorf("%d origins are listed", n)
	}
	if recs, err := s.List(t.Context(), "", "", 50); err != nil || len(recs) != 11 {
		t.Errorf("listed %d, %v", len(recs), err)
	}
}

// A Redis that evicts keeps its list as short as what it has.
func TestRedisEvicts(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "4mb", "--maxmemory-policy", "allkeys-lru")
	s, rdb := openOn(t, server, nil), server.Inspect()
	const origins = 6000
	for i := range origins {
		put(t, s, textRecord(fmt.Sprintf("https://%d.example", i), fmt.Sprintf("Disallow: /%d", i), noon))
	}
	listed := rdb.ZCard(t.Context(), originsKey).Val()
	recs, err := s.List(t.Context(), "", "", origins)
	if err != nil || len(recs) > origins*3/4 {
		t.Fatalf("%d of %d are there, so that nothing is tested; %v", len(recs), origins, err)
	}
	if listed > int64(len(recs))*5/4 {
		t.Errorf("%d are listed, and %d are there", listed, len(recs))
	}
}

// A text goes with the last version that it is, whoever serves it.
func TestRedisTextsOfDroppedVersionsGo(t *testing.T) {
	server := redistest.Start(t)
	s, rdb := openOn(t, server, nil), server.Inspect()
	const origin, other = "https://example.com", "https://other.example"
	at := func(i int) time.Time { return noon.Add(time.Duration(i) * time.Minute) }
	shared := textRecord(other, "0", at(0))
	put(t, s, shared)
	for i := range 2 * maxVersions {
		put(t, s, textRecord(origin, fmt.Sprint(i), at(i)))
	}
	put(t, s, textRecord(origin, fmt.Sprint(2*maxVersions-1), at(2*maxVersions))) // the same again
	texts, err := rdb.Keys(t.Context(), textKey+"*").Result()
	if err != nil || len(texts) != maxVersions+1 {
		t.Errorf("%d texts for %d versions and another's, %v", len(texts), maxVersions, err)
	}
	expect(t, s, shared)
	s.history = oneDay // of the other, the shared one is dropped too
	s.now = func() time.Time { return at(0).Add(2 * oneDay) }
	put(t, s, textRecord(other, "new", s.now()))
	if n := rdb.Exists(t.Context(), textKey+shared.SHA256).Val(); n != 0 {
		t.Error("the text of a version that nobody has is still there")
	}
}

// The version that is served stays, however long ago it was seen last.
func TestRedisVersionsEnd(t *testing.T) {
	now := noon
	s := openOn(t, redistest.Start(t), &now)
	before, after := textRecord("https://example.com", "before", now), textRecord("https://example.com", "after", now.Add(oneDay))
	put(t, s, before, after)
	now = noon.Add(400 * oneDay)
	put(t, s, failingRecord(after, now))
	expectVersions(t, s, after.Origin, versionOf(after, after.FetchedAt))
}

// A Redis that is short of memory may drop a text before its record.
func TestRedisTextIsGone(t *testing.T) {
	server := redistest.Start(t)
	s, rdb := openOn(t, server, nil), server.Inspect()
	rec := failingRecord(textRecord("https://example.com", "Disallow: /", noon), noon.Add(time.Hour))
	put(t, s, rec)
	if err := rdb.Del(t.Context(), textKey+rec.SHA256).Err(); err != nil {
		t.Fatal(err)
	}
	want := rec
	want.Status, want.Body, want.SHA256, want.ExpiresAt = 0, nil, "", time.Time{}
	expect(t, s, want)
	expectVersions(t, s, rec.Origin)
	put(t, s, failingRecord(want, noon.Add(2*time.Hour)))
	expect(t, s, failingRecord(want, noon.Add(2*time.Hour)))
	put(t, s, rec)
	expect(t, s, rec)
}

// To a machine whose clock is a little behind, what another has just fetched is
// not of the future; nor does it hold for longer.
func TestRedisClocksApart(t *testing.T) {
	now := noon
	s := openOn(t, redistest.Start(t), &now)
	for ahead, shift := range map[time.Duration]time.Duration{
		-time.Second: 0, 0: 0, 20 * time.Millisecond: 20 * time.Millisecond, maxClockSkew: maxClockSkew, maxClockSkew + time.Second: 0,
	} {
		rec := textRecord(fmt.Sprintf("https://%d.example", ahead.Milliseconds()), "Disallow: /", noon.Add(ahead))
		put(t, s, rec)
		rec.FetchedAt, rec.ExpiresAt = rec.FetchedAt.Add(-shift), rec.ExpiresAt.Add(-shift)
		expect(t, s, rec)
	}
}

func TestRedisLease(t *testing.T) {
	server := redistest.Start(t)
	one, two := openOn(t, server, nil), openOn(t, server, nil)
	take := func(s *redisStore, length time.Duration, want bool) func() {
		t.Helper()
		release, held, err := s.Lease(t.Context(), "https://example.com", length)
		if err != nil || held != want {
			t.Fatalf("held %v, %v; want %v", held, err, want)
		}
		return release
	}
	release := take(one, time.Minute, true)
	take(two, time.Minute, false)()
	take(one, time.Minute, false) // another flight's, of the same process
	if _, held, err := two.Lease(t.Context(), "https://other.example", time.Minute); !held || err != nil {
		t.Errorf("of another origin: %v, %v", held, err)
	}
	release()
	late := take(two, time.Millisecond, true)
	for deadline := time.Now().Add(10 * time.Second); server.Inspect().Exists(t.Context(), leaseKey+"https://example.com").Val() > 0; {
		if time.Now().After(deadline) {
			t.Fatal("the lease does not end")
		}
	}
	take(one, time.Minute, true)
	late() // does not end the lease of another
	take(two, time.Minute, false)

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, held, err := one.Lease(cancelled, "https://new.example", time.Minute); !held || err != nil {
		t.Errorf("for one who leaves: %v, %v", held, err)
	}
}

// What a request waits for has a bound, and is not tried again at once.
func TestRedisThatDoesNotAnswer(t *testing.T) {
	server := redistest.Start(t)
	s := openOn(t, server, nil)
	rec := textRecord("https://example.com", "Disallow: /", noon)
	put(t, s, rec)
	server.Pause()
	var timeout net.Error
	if _, _, err := s.Get(t.Context(), rec.Origin); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("got %v", err)
	}
	begun := time.Now()
	for range 1000 {
		if _, _, err := s.Get(t.Context(), rec.Origin); err == nil {
			t.Fatal("no error")
		}
		if _, _, err := s.Lease(t.Context(), rec.Origin, time.Second); err == nil {
			t.Fatal("no error")
		}
	}
	if took := time.Since(begun); took > time.Minute { // a part of what they would take
		t.Errorf("it took %v for 2000 more", took)
	}
	server.Continue()
	put(t, s, rec) // which is tried whenever there is something to keep
	expect(t, s, rec)

	server.Kill()
	if _, _, err := s.Get(t.Context(), rec.Origin); err == nil {
		t.Error("no error")
	}
	server.Restart()
	put(t, s, rec)
	expect(t, s, rec)
}

func TestRedisIsAwayAtTheStart(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	s := openOn(t, server, nil)
	rec := textRecord("https://example.com", "Disallow: /", noon)
	if err := s.Put(t.Context(), rec); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
	server.Restart()
	put(t, s, rec)
	expect(t, s, rec)
}

// A caller who leaves says nothing about Redis.
func TestRedisCallerLeaves(t *testing.T) {
	s := openOn(t, redistest.Start(t), nil)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Get(cancelled, "https://example.com"); err == nil {
		t.Error("no error")
	}
	if _, _, err := s.Get(t.Context(), "https://example.com"); err != nil {
		t.Error(err)
	}
}

func TestRedisURLIsChecked(t *testing.T) {
	err := (Options{RedisURL: "redis://:secret#x@127.0.0.1:6379"}).Validate()
	if err == nil || !strings.HasPrefix(err.Error(), "redis_url: ") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	if s, err := Open(t.Context(), Options{Kind: Redis}, "", 0, zerolog.Nop()); s != nil || err == nil {
		t.Errorf("without a client: opened %v, %v", s, err)
	}
}

func BenchmarkRedisGet(b *testing.B) {
	s := openOn(b, redistest.Start(b), nil)
	put(b, s, textRecord("https://example.com", strings.Repeat("Disallow: /some/path\n", 150), noon))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := s.Get(b.Context(), "https://example.com"); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func BenchmarkRedisPut(b *testing.B) {
	s := openOn(b, redistest.Start(b), nil)
	rec := textRecord("", strings.Repeat("Disallow: /some/path\n", 150), noon)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		rec.Origin = fmt.Sprintf("https://%d.example", i)
		put(b, s, rec)
	}
}
