//go:build unix

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"robotsproxy/internal/redisclient"
	"robotsproxy/internal/redistest"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/counts"
	"robotsproxy/robots/store/storetest"
)

const oneDay = 24 * time.Hour

const prefix = "robotsproxy:" // of all keys on a single server

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store on a server at a time that the test may move; nil means now.
func open(server *redistest.Server, now *time.Time) *Store {
	opts := store.Options{History: 365 * oneDay}
	if now != nil {
		opts.Now = func() time.Time { return *now }
	}
	s := New(server.Client(), opts)
	s.SetKeep(37 * oneDay)
	return s
}

func TestStore(t *testing.T) {
	server := redistest.Start(t)
	storetest.TestLasting(t, func(t *testing.T) store.Store {
		server.Flush()
		s := New(server.Client(), storetest.Options())
		s.SetKeep(37 * oneDay)
		return s
	})
}

// In a Cluster an origin's keys are on one node, and those of others on other nodes.
func TestInACluster(t *testing.T) {
	nodes := redistest.StartCluster(t)
	server := redistest.Open(t, redisclient.Options{URL: "redis+cluster://" + nodes[0].Address})
	flush := func() {
		for _, node := range nodes {
			node.Flush()
		}
	}
	storetest.TestLasting(t, func(t *testing.T) store.Store {
		flush()
		s := New(server, storetest.Options())
		s.SetKeep(37 * oneDay)
		return s
	})
	storetest.TestCounts(t, func(t *testing.T) counts.Store {
		flush()
		return New(server, storetest.Options())
	})
	flush()
	s := New(server, storetest.Options())
	release, held, err := s.Lease(t.Context(), "https://example.com", time.Minute)
	if err != nil || !held {
		t.Fatalf("the lease: %v, %v", held, err)
	}
	if _, held, err := s.Lease(t.Context(), "https://example.com", time.Minute); err != nil || held {
		t.Errorf("another lease: %v, %v", held, err)
	}
	release()
	if _, held, err := s.Lease(t.Context(), "https://example.com", time.Minute); err != nil || !held {
		t.Errorf("the lease after its release: %v, %v", held, err)
	}
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

func TestKeyLifetimes(t *testing.T) {
	now := storetest.Noon
	server := redistest.Start(t)
	s, rdb := open(server, &now), server.Inspect()
	rec := storetest.TextRecord("https://example.com", "Disallow: /", storetest.Noon)
	want := func(key string, lifetime time.Duration) {
		t.Helper()
		if got := left(t, rdb, key); got > lifetime || got < lifetime-time.Minute {
			t.Errorf("%s lives %v, want %v", key, got, lifetime)
		}
	}
	storetest.Put(t, s, rec)
	want(prefix+policyKey+rec.Origin, oneDay+37*oneDay)
	want(prefix+textKey+rec.SHA256, 365*oneDay)
	want(prefix+versionsKey+rec.Origin, 365*oneDay)
	want(prefix+firstKey+rec.Origin, 365*oneDay)

	now = storetest.Noon.Add(20 * oneDay)
	storetest.Put(t, s, storetest.FailingRecord(rec, now))
	want(prefix+policyKey+rec.Origin, 37*oneDay)

	s.history = oneDay / 2 // less than the lifetime, for which the text is needed all the same
	now = storetest.Noon
	storetest.Put(t, s, storetest.TextRecord("https://short.example", "short", now))
	want(prefix+policyKey+"https://short.example", oneDay)
	want(prefix+textKey+storetest.TextRecord("", "short", now).SHA256, oneDay)
	storetest.Put(t, s, rec)
	want(prefix+textKey+rec.SHA256, 365*oneDay) // what lives longer for another's sake is not cut short

	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		if !strings.HasPrefix(key, "robotsproxy:") {
			t.Errorf("a key %s", key)
		}
		if left(t, rdb, key) < 0 && key != prefix+originsKey {
			t.Errorf("%s lives for ever", key)
		}
	}
}

// What has expired, or has been dropped by a Redis that is short of memory, leaves the
// list of origins.
func TestListIsCleaned(t *testing.T) {
	server := redistest.Start(t)
	s, rdb := open(server, nil), server.Inspect()
	for i := range 40 {
		storetest.Put(t, s, store.Record{Origin: fmt.Sprintf("https://%d.example", i), Status: 404, FetchedAt: storetest.Noon})
	}
	for i := range 30 {
		rdb.Del(t.Context(), prefix+policyKey+fmt.Sprintf("https://%d.example", i))
	}
	for range 100 {
		storetest.Put(t, s, store.Record{Origin: "https://new.example", Status: 404, FetchedAt: storetest.Noon})
	}
	if n := rdb.ZCard(t.Context(), prefix+originsKey).Val(); n != 11 {
		t.Errorf("%d origins are listed", n)
	}
	if recs, err := s.List(t.Context(), "", "", 50); err != nil || len(recs) != 11 {
		t.Errorf("listed %d, %v", len(recs), err)
	}
}

// A Redis that evicts keeps its list as short as what it has.
func TestEvicts(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "4mb", "--maxmemory-policy", "allkeys-lru")
	s, rdb := open(server, nil), server.Inspect()
	const origins = 6000
	for i := range origins {
		storetest.Put(t, s, storetest.TextRecord(fmt.Sprintf("https://%d.example", i), fmt.Sprintf("Disallow: /%d", i), storetest.Noon))
	}
	listed := rdb.ZCard(t.Context(), prefix+originsKey).Val()
	recs, err := s.List(t.Context(), "", "", origins)
	if err != nil || len(recs) > origins*3/4 {
		t.Fatalf("%d of %d are there, so that nothing is tested; %v", len(recs), origins, err)
	}
	if listed > int64(len(recs))*5/4 {
		t.Errorf("%d are listed, and %d are there", listed, len(recs))
	}
}

// A text goes with the last version that it is, whoever serves it.
func TestTextsOfDroppedVersionsGo(t *testing.T) {
	server := redistest.Start(t)
	s, rdb := open(server, nil), server.Inspect()
	const origin, other = "https://example.com", "https://other.example"
	at := func(i int) time.Time { return storetest.Noon.Add(time.Duration(i) * time.Minute) }
	shared := storetest.TextRecord(other, "0", at(0))
	storetest.Put(t, s, shared)
	for i := range 2 * store.MaxVersions {
		storetest.Put(t, s, storetest.TextRecord(origin, fmt.Sprint(i), at(i)))
	}
	storetest.Put(t, s, storetest.TextRecord(origin, fmt.Sprint(2*store.MaxVersions-1), at(2*store.MaxVersions))) // the same again
	texts, err := rdb.Keys(t.Context(), prefix+textKey+"*").Result()
	if err != nil || len(texts) != store.MaxVersions+1 {
		t.Errorf("%d texts for %d versions and another's, %v", len(texts), store.MaxVersions, err)
	}
	storetest.Expect(t, s, shared)
	s.history = oneDay // of the other, the shared one is dropped too
	s.now = func() time.Time { return at(0).Add(2 * oneDay) }
	storetest.Put(t, s, storetest.TextRecord(other, "new", s.now()))
	if n := rdb.Exists(t.Context(), prefix+textKey+shared.SHA256).Val(); n != 0 {
		t.Error("the text of a version that nobody has is still there")
	}
}

// The version that is served stays, however long ago it was seen last.
func TestVersionsEnd(t *testing.T) {
	now := storetest.Noon
	s := open(redistest.Start(t), &now)
	before, after := storetest.TextRecord("https://example.com", "before", now), storetest.TextRecord("https://example.com", "after", now.Add(oneDay))
	storetest.Put(t, s, before, after)
	now = storetest.Noon.Add(400 * oneDay)
	storetest.Put(t, s, storetest.FailingRecord(after, now))
	storetest.ExpectVersions(t, s, after.Origin, storetest.VersionOf(after, after.FetchedAt))
}

// A Redis that is short of memory may drop a text before its record.
func TestTextIsGone(t *testing.T) {
	server := redistest.Start(t)
	s, rdb := open(server, nil), server.Inspect()
	rec := storetest.FailingRecord(storetest.TextRecord("https://example.com", "Disallow: /", storetest.Noon), storetest.Noon.Add(time.Hour))
	storetest.Put(t, s, rec)
	if err := rdb.Del(t.Context(), prefix+textKey+rec.SHA256).Err(); err != nil {
		t.Fatal(err)
	}
	want := rec
	want.Status, want.Body, want.SHA256, want.ExpiresAt = 0, nil, "", time.Time{}
	storetest.Expect(t, s, want)
	if versions, err := s.Versions(t.Context(), rec.Origin); len(versions) != 1 || err != nil { // it is known that there was one
		t.Errorf("the versions are %v, %v", versions, err)
	}
	if text, ok, err := s.Text(t.Context(), rec.Origin, rec.SHA256); ok || err != nil {
		t.Errorf("the text is %q, %v", text, err)
	}
	storetest.Put(t, s, storetest.FailingRecord(want, storetest.Noon.Add(2*time.Hour)))
	storetest.Expect(t, s, storetest.FailingRecord(want, storetest.Noon.Add(2*time.Hour)))
	storetest.Put(t, s, rec)
	storetest.Expect(t, s, rec)
}

// Records of before the network was kept are read, and their origins have none that is known.
func TestRecordWithoutANetwork(t *testing.T) {
	server := redistest.Start(t)
	s, rdb := open(server, nil), server.Inspect()
	rec := storetest.TextRecord("https://example.com", "Disallow: /", storetest.Noon)
	rec.UserAgent, rec.CDN = "ExampleBot/2.0", "cloudflare"
	storetest.Put(t, s, rec)
	if n, err := rdb.HDel(t.Context(), prefix+policyKey+rec.Origin, "cdn").Result(); n != 1 || err != nil {
		t.Fatalf("%d fields deleted, %v", n, err)
	}
	want := rec
	want.CDN = ""
	storetest.Expect(t, s, want)
	storetest.Put(t, s, rec)
	storetest.Expect(t, s, rec)
}

// To a machine whose clock is a little behind, what another has just fetched is
// not of the future; nor does it hold for longer.
func TestClocksApart(t *testing.T) {
	now := storetest.Noon
	s := open(redistest.Start(t), &now)
	for ahead, shift := range map[time.Duration]time.Duration{
		-time.Second: 0, 0: 0, 20 * time.Millisecond: 20 * time.Millisecond, maxClockSkew: maxClockSkew, maxClockSkew + time.Second: 0,
	} {
		rec := storetest.TextRecord(fmt.Sprintf("https://%d.example", ahead.Milliseconds()), "Disallow: /", storetest.Noon.Add(ahead))
		storetest.Put(t, s, rec)
		rec.FetchedAt, rec.ExpiresAt = rec.FetchedAt.Add(-shift), rec.ExpiresAt.Add(-shift)
		storetest.Expect(t, s, rec)
	}
}

func TestLease(t *testing.T) {
	server := redistest.Start(t)
	one, two := open(server, nil), open(server, nil)
	take := func(s *Store, length time.Duration, want bool) func() {
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
	for deadline := time.Now().Add(10 * time.Second); server.Inspect().Exists(t.Context(), prefix+leaseKey+"https://example.com").Val() > 0; {
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
func TestThatDoesNotAnswer(t *testing.T) {
	server := redistest.Start(t)
	s := open(server, nil)
	rec := storetest.TextRecord("https://example.com", "Disallow: /", storetest.Noon)
	storetest.Put(t, s, rec)
	server.Pause()
	var timeout net.Error // a context's too
	if _, _, err := s.Get(t.Context(), rec.Origin); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("got %v, want a timeout", err)
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
	storetest.Put(t, s, rec) // which is tried whenever there is something to keep
	storetest.Expect(t, s, rec)

	server.Kill()
	if _, _, err := s.Get(t.Context(), rec.Origin); err == nil {
		t.Error("no error")
	}
	server.Restart()
	storetest.Put(t, s, rec)
	storetest.Expect(t, s, rec)
}

func TestIsAwayAtTheStart(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	s := open(server, nil)
	rec := storetest.TextRecord("https://example.com", "Disallow: /", storetest.Noon)
	if err := s.Put(t.Context(), rec); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
	server.Restart()
	storetest.Put(t, s, rec)
	storetest.Expect(t, s, rec)
}

// A caller who leaves says nothing about Redis.
func TestCallerLeaves(t *testing.T) {
	s := open(redistest.Start(t), nil)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Get(cancelled, "https://example.com"); err == nil {
		t.Error("no error")
	}
	if _, _, err := s.Get(t.Context(), "https://example.com"); err != nil {
		t.Error(err)
	}
}

func BenchmarkGet(b *testing.B) {
	s := open(redistest.Start(b), nil)
	storetest.Put(b, s, storetest.TextRecord("https://example.com", strings.Repeat("Disallow: /some/path\n", 150), storetest.Noon))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := s.Get(b.Context(), "https://example.com"); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	storetest.BenchmarkPut(b, open(redistest.Start(b), nil))
}
