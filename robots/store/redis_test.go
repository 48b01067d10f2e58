//go:build unix

package store

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

const oneDay = 24 * time.Hour

// openOn opens a store on a server at a time that the test may move.
func openOn(t testing.TB, server *RedisServer, now *time.Time) *redisStore {
	t.Helper()
	opts := Options{Kind: Redis, RedisURL: server.URL(), History: 365 * oneDay}
	if now != nil {
		opts.Now = func() time.Time { return *now }
	}
	s, err := Open(t.Context(), opts, "", 0, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.(*redisStore).SetKeep(37 * oneDay)
	return s.(*redisStore)
}

// left returns how long a key still lives.
func left(t *testing.T, s *redisStore, key string) time.Duration {
	t.Helper()
	ttl, err := s.client.PTTL(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return ttl
}

func TestRedisKeyLifetimes(t *testing.T) {
	now := noon
	s := openOn(t, StartRedis(t), &now)
	rec := textRecord("https://example.com", "Disallow: /", noon)
	want := func(key string, lifetime time.Duration) {
		t.Helper()
		if got := left(t, s, key); got > lifetime || got < lifetime-time.Minute {
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

	for _, key := range s.client.Keys(t.Context(), "*").Val() {
		if !strings.HasPrefix(key, "robotsproxy:") {
			t.Errorf("a key %s", key)
		}
		if left(t, s, key) < 0 && key != originsKey {
			t.Errorf("%s lives for ever", key)
		}
	}
}

// What has expired, or has been dropped by a Redis that is short of memory, leaves the
// list of origins.
func TestRedisListIsCleaned(t *testing.T) {
	s := openOn(t, StartRedis(t), nil)
	for i := range 40 {
		put(t, s, Record{Origin: fmt.Sprintf("https://%d.example", i), Status: 404, FetchedAt: noon})
	}
	for i := range 30 {
		s.client.Del(t.Context(), policyKey+fmt.Sprintf("https://%d.example", i))
	}
	for range 100 {
		put(t, s, Record{Origin: "https://new.example", Status: 404, FetchedAt: noon})
	}
	if n := s.client.ZCard(t.Context(), originsKey).Val(); n != 11 {
		t.Errorf("%d origins are listed", n)
	}
	if recs, err := s.List(t.Context(), "", "", 50); err != nil || len(recs) != 11 {
		t.Errorf("listed %d, %v", len(recs), err)
	}
}

// A Redis that evicts keeps its list as short as what it has.
func TestRedisEvicts(t *testing.T) {
	s := openOn(t, StartRedis(t, "--port", "PORT", "--maxmemory", "4mb", "--maxmemory-policy", "allkeys-lru"), nil)
	const origins = 6000
	for i := range origins {
		put(t, s, textRecord(fmt.Sprintf("https://%d.example", i), fmt.Sprintf("Disallow: /%d", i), noon))
	}
	listed := s.client.ZCard(t.Context(), originsKey).Val()
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
	s := openOn(t, StartRedis(t), nil)
	const origin, other = "https://example.com", "https://other.example"
	at := func(i int) time.Time { return noon.Add(time.Duration(i) * time.Minute) }
	shared := textRecord(other, "0", at(0))
	put(t, s, shared)
	for i := range 2 * maxVersions {
		put(t, s, textRecord(origin, fmt.Sprint(i), at(i)))
	}
	put(t, s, textRecord(origin, fmt.Sprint(2*maxVersions-1), at(2*maxVersions))) // the same again
	texts, err := s.client.Keys(t.Context(), textKey+"*").Result()
	if err != nil || len(texts) != maxVersions+1 {
		t.Errorf("%d texts for %d versions and another's, %v", len(texts), maxVersions, err)
	}
	expect(t, s, shared)
	s.history = oneDay // of the other, the shared one is dropped too
	s.now = func() time.Time { return at(0).Add(2 * oneDay) }
	put(t, s, textRecord(other, "new", s.now()))
	if n := s.client.Exists(t.Context(), textKey+shared.SHA256).Val(); n != 0 {
		t.Error("the text of a version that nobody has is still there")
	}
}

// The version that is served stays, however long ago it was seen last.
func TestRedisVersionsEnd(t *testing.T) {
	now := noon
	s := openOn(t, StartRedis(t), &now)
	before, after := textRecord("https://example.com", "before", now), textRecord("https://example.com", "after", now.Add(oneDay))
	put(t, s, before, after)
	now = noon.Add(400 * oneDay)
	put(t, s, failingRecord(after, now))
	expectVersions(t, s, after.Origin, versionOf(after, after.FetchedAt))
}

// A Redis that is short of memory may drop a text before its record.
func TestRedisTextIsGone(t *testing.T) {
	s := openOn(t, StartRedis(t), nil)
	rec := failingRecord(textRecord("https://example.com", "Disallow: /", noon), noon.Add(time.Hour))
	put(t, s, rec)
	if err := s.client.Del(t.Context(), textKey+rec.SHA256).Err(); err != nil {
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
	s := openOn(t, StartRedis(t), &now)
	for ahead, shift := range map[time.Duration]time.Duration{
		-time.Second: 0, 0: 0, 20 * time.Millisecond: 20 * time.Millisecond, clockSkew: clockSkew, clockSkew + time.Second: 0,
	} {
		rec := textRecord(fmt.Sprintf("https://%d.example", ahead.Milliseconds()), "Disallow: /", noon.Add(ahead))
		put(t, s, rec)
		rec.FetchedAt, rec.ExpiresAt = rec.FetchedAt.Add(-shift), rec.ExpiresAt.Add(-shift)
		expect(t, s, rec)
	}
}

func TestRedisLease(t *testing.T) {
	server := StartRedis(t)
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
	for deadline := time.Now().Add(10 * time.Second); two.client.Exists(t.Context(), leaseKey+"https://example.com").Val() > 0; {
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
	server := StartRedis(t)
	s := openOn(t, server, nil)
	rec := textRecord("https://example.com", "Disallow: /", noon)
	put(t, s, rec)
	server.Pause()
	if _, _, err := s.Get(t.Context(), rec.Origin); !errors.Is(err, context.DeadlineExceeded) {
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
	server := StartRedis(t)
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
	s := openOn(t, StartRedis(t), nil)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Get(cancelled, "https://example.com"); err == nil {
		t.Error("no error")
	}
	if _, _, err := s.Get(t.Context(), "https://example.com"); err != nil {
		t.Error(err)
	}
}

func TestRedisWithTLSAndPassword(t *testing.T) {
	cert, key := certificate(t)
	const password = "open:sesame/1#?@ü"
	server := StartRedis(t, "--port", "0", "--tls-port", "PORT", "--tls-auth-clients", "no",
		"--tls-cert-file", cert, "--tls-key-file", key, "--requirepass", password)
	login := "://" + url.UserPassword("default", password).String() // percent-encoded
	rec := textRecord("https://example.com", "Disallow: /", noon)
	for _, test := range []struct {
		url   string
		trust bool
		fault string
	}{
		{"rediss" + login + "@" + server.Address, true, ""},
		{"rediss" + strings.Replace(login, "default", "", 1) + "@" + server.Address + "/1", true, ""},
		{"rediss" + login + "@" + server.Address, false, "certificate"},
		{"rediss" + login + "x@" + server.Address, true, "WRONGPASS"},
		{"rediss://" + server.Address, true, "unauthenticated"},
		{"redis" + login + "@" + server.Address, true, "asking the Redis"},
	} {
		client, err := parseRedisURL(test.url)
		if err != nil {
			t.Fatal(err)
		}
		if test.trust && client.TLSConfig != nil {
			roots := x509.NewCertPool()
			text, err := os.ReadFile(cert)
			if err != nil {
				t.Fatal(err)
			}
			roots.AppendCertsFromPEM(text)
			client.TLSConfig.RootCAs = roots
		}
		s := newRedis(Options{}, client)
		if test.fault == "" {
			put(t, s, rec)
			expect(t, s, rec)
		} else if err := s.Put(t.Context(), rec); err == nil || !strings.Contains(err.Error(), test.fault) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: got %v", test.url, err)
		}
		s.Close()
	}
}

// certificate makes one that signs itself.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	save := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return save("cert.pem", "CERTIFICATE", der), save("key.pem", "PRIVATE KEY", secret)
}

func TestRedisURLs(t *testing.T) {
	for _, good := range []string{
		"redis://127.0.0.1:6379/0", "redis://localhost", "rediss://user:secret%40@redis.example:6380/15", "unix:///run/redis.sock?db=1",
		"redis://[::1]:6379",
	} {
		if err := (Options{RedisURL: good}).Validate(); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "127.0.0.1:6379", "http://127.0.0.1:6379", "redis://:secret#x@127.0.0.1:6379", "redis://:secret/x@127.0.0.1:6379",
		"redis://:1/secret@127.0.0.1:6379", "redis://:se cret@127.0.0.1", "redis://:secret%@127.0.0.1", "redis://127.0.0.1/secret",
		"redis://127.0.0.1?secret=1", "unix://", "secret://127.0.0.1",
	} {
		err := (Options{RedisURL: bad}).Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "redis_url: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", bad, err)
		}
		if s, err := Open(t.Context(), Options{Kind: Redis, RedisURL: bad}, "", 0, zerolog.Nop()); s != nil || err == nil {
			t.Errorf("%s: opened %v, %v", bad, s, err)
		}
	}
}

func BenchmarkRedisGet(b *testing.B) {
	s := openOn(b, StartRedis(b), nil)
	put(b, s, textRecord("https://example.com", strings.Repeat("Disallow: /some/path\n", 150), noon))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := s.Get(b.Context(), "https://example.com"); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func BenchmarkRedisPut(b *testing.B) {
	s := openOn(b, StartRedis(b), nil)
	rec := textRecord("", strings.Repeat("Disallow: /some/path\n", 150), noon)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		rec.Origin = fmt.Sprintf("https://%d.example", i)
		put(b, s, rec)
	}
}
