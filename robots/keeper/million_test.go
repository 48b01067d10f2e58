package keeper

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/robots"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/sqlitestore"
)

// TestMillionOrigins measures what a million origins take: the file, finding
// one of them, and the memory of a process that uses all of them. Of ten
// origins, six have a text of 1 to 3 KB of their own, three one of a thousand
// that many share, and one has none.
func TestMillionOrigins(t *testing.T) {
	origins, err := strconv.Atoi(os.Getenv("ROBOTSPROXY_ORIGINS"))
	if err != nil {
		t.Skip("it takes minutes: set ROBOTSPROXY_ORIGINS to 1000000 to measure that many origins")
	}
	dir := t.TempDir()
	s, err := sqlitestore.Open(t.Context(), store.Defaults(), dir, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	random := rand.New(rand.NewPCG(1, 2))
	begun := time.Now()
	fill(t, s, random, origins)
	t.Logf("Put: %v each", time.Since(begun)/time.Duration(origins))
	info, err := os.Stat(filepath.Join(dir, "policies.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("file: %d MiB, %d octets an origin", info.Size()>>20, info.Size()/int64(origins))

	t.Logf("Get: %s", spread(20_000, func() {
		name := manyOrigin(random.IntN(origins)).String()
		if _, ok, err := s.Get(t.Context(), name); !ok || err != nil {
			t.Fatalf("%s: %v, %v", name, ok, err)
		}
	}))
	t.Logf("List of 100: %s", spread(1000, func() {
		after := manyOrigin(random.IntN(origins)).String()
		if _, err := s.List(t.Context(), after, "", 100); err != nil {
			t.Fatal(err)
		}
	}))
	t.Logf("a search that finds nothing: %s", spread(10, func() {
		if recs, err := s.List(t.Context(), "", "nobody", 100); len(recs) > 0 || err != nil {
			t.Fatalf("found %v, %v", recs, err)
		}
	}))

	runtime.GC()
	before := resident(t)
	const ceiling = 64 << 20
	k, err := New(Setup{
		Options: policy.Defaults(), Memory: ceiling, Store: s, Log: zerolog.Nop(),
		Transport: refused{t}, Now: func() time.Time { return begun.Add(time.Hour) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	most := before
	t.Logf("policy by way of the store: %s", spread(origins/2, func() {
		if p, err := k.Policy(t.Context(), manyOrigin(random.IntN(origins)), Sender{}); err != nil || p.Outcome == policy.None {
			t.Fatalf("got %+v, %v", p, err)
		}
		if random.IntN(1000) == 0 {
			most = max(most, resident(t))
		}
	}))
	t.Logf("memory: %d MiB before the keeper, %d MiB at most with cache.memory %d MiB; %d policies held",
		before>>20, most>>20, ceiling>>20, k.memory.Count(policy.RobotsTxt))
}

// TestNewOriginsAreKept asks for 20,000 origins that nobody has asked for yet, at a rate
// that one machine sees. It counts those that are not on disk after an orderly end, first in
// a new database and then in one that has a million origins.
func TestNewOriginsAreKept(t *testing.T) {
	known, err := strconv.Atoi(os.Getenv("ROBOTSPROXY_ORIGINS"))
	if err != nil {
		t.Skip("it takes minutes: set ROBOTSPROXY_ORIGINS to 1000000 to ask for new ones beside that many")
	}
	for _, test := range []struct{ known, rate int }{{0, 1900}, {known, 1300}} {
		t.Run(fmt.Sprintf("%d known, %d new a second", test.known, test.rate), func(t *testing.T) {
			s, err := sqlitestore.Open(t.Context(), store.Defaults(), t.TempDir(), zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			fill(t, s, rand.New(rand.NewPCG(1, 2)), test.known)
			askNewOrigins(t, s, test.known, test.rate)
		})
	}
}

func askNewOrigins(t *testing.T, s store.Store, known, rate int) {
	k, err := New(Setup{
		Options: policy.Defaults(), Memory: 64 << 20, Store: s, Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel),
		Transport: everySite{},
	})
	if err != nil {
		t.Fatal(err)
	}
	const asked = 20_000
	begun := time.Now()
	var all sync.WaitGroup
	for i := range asked {
		time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		all.Go(func() {
			if p, err := k.Policy(t.Context(), manyOrigin(known+i), Sender{}); err != nil || p.Outcome != policy.Rules {
				t.Errorf("got %+v, %v", p, err)
			}
		})
	}
	all.Wait()
	took := time.Since(begun)
	begun = time.Now()
	k.Close()
	ended := time.Since(begun)
	lost := 0
	for i := range asked {
		if _, ok, err := s.Get(t.Context(), manyOrigin(known+i).String()); !ok || err != nil {
			lost++
		}
	}
	t.Logf("%.0f a second were fetched, the end took %v; %d of %d (%.1f %%) are not on disk",
		asked/took.Seconds(), ended.Round(time.Millisecond), lost, asked, 100*float64(lost)/asked)
	if lost > 0 {
		t.Error("what was fetched is lost")
	}
}

// everySite has a text of its own for each origin.
type everySite struct{}

func (everySite) RoundTrip(req *http.Request) (*http.Response, error) {
	sum := sha256.Sum256([]byte(req.URL.Host))
	text := manyText(rand.New(rand.NewPCG(7, binary.NativeEndian.Uint64(sum[:]))))
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, Request: req,
		Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)),
	}, nil
}

// fill puts so many origins into a store. It logs what each tenth of them takes.
func fill(t *testing.T, s store.Store, random *rand.Rand, origins int) {
	t.Helper()
	now := time.Now()
	tenth, spent := max(origins/10, 1), cpuTime(t)
	recs := make([]store.Record, 0, 128) // as many as are written at once
	for i := range origins {
		recs = append(recs, manyRecord(random, i, now))
		if len(recs) < cap(recs) && i+1 < origins {
			continue
		}
		if err := s.Put(t.Context(), recs...); err != nil {
			t.Fatal(err)
		}
		recs = recs[:0]
		if before := i + 1 - cap(recs); (i+1)/tenth > before/tenth {
			total := cpuTime(t)
			t.Logf("Put: %v of CPU each up to %d", (total-spent)/time.Duration(tenth), i+1)
			spent = total
		}
	}
}

// cpuTime is what this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Skipf("this test reads proc(5): %v", err)
	}
	_, afterName, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(afterName)
	const utime, stime, tick = 11, 12, 10 * time.Millisecond
	user, _ := strconv.Atoi(fields[utime])
	system, _ := strconv.Atoi(fields[stime])
	return time.Duration(user+system) * tick
}

// refused is a transport for keepers that must not fetch.
type refused struct{ t *testing.T }

func (r refused) RoundTrip(req *http.Request) (*http.Response, error) {
	r.t.Errorf("%s was fetched", req.URL)
	return nil, fmt.Errorf("no fetch")
}

func manyOrigin(i int) robots.Origin {
	hash := sha256.Sum256([]byte(strconv.Itoa(i))) // in no order
	return robots.Origin{Scheme: "https", Host: fmt.Sprintf("www.%x-%d.example", hash[:4], i), Port: "443"}
}

func manyRecord(random *rand.Rand, i int, now time.Time) store.Record {
	rec := store.Record{Origin: manyOrigin(i).String(), FetchedAt: now, ExpiresAt: now.Add(24 * time.Hour)}
	switch kind := i % 10; {
	case kind == 9:
		rec.Status = 404
		return rec
	case kind >= 6:
		random = rand.New(rand.NewPCG(7, uint64(random.IntN(1000))))
	}
	rec.Status, rec.Body = 200, []byte(manyText(random))
	sum := sha256.Sum256(rec.Body)
	rec.SHA256 = hex.EncodeToString(sum[:])
	return rec
}

// manyText is 1 to 3 KB of rules as sites have them.
func manyText(random *rand.Rand) string {
	words := strings.Fields("search cart checkout account login admin api private tmp wp-admin includes tag " +
		"category print export feed author archive page sort filter session user static assets cgi-bin download")
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for size := 1000 + random.IntN(2000); b.Len() < size; {
		fmt.Fprintf(&b, "Disallow: /%s/%s", words[random.IntN(len(words))], words[random.IntN(len(words))])
		switch random.IntN(4) {
		case 0:
			fmt.Fprintf(&b, "/*?%s=", words[random.IntN(len(words))])
		case 1:
			fmt.Fprintf(&b, "-%d/", random.IntN(100_000))
		}
		b.WriteByte('\n')
		if random.IntN(30) == 0 {
			fmt.Fprintf(&b, "\nUser-agent: %sbot\n", words[random.IntN(len(words))])
		}
	}
	return b.String()
}

// spread runs do so many times and says how long the runs took.
func spread(times int, do func()) string {
	took := make([]time.Duration, times)
	for i := range took {
		begun := time.Now()
		do()
		took[i] = time.Since(begun)
	}
	slices.Sort(took)
	return fmt.Sprintf("median %v, 99 %% within %v", took[times/2], took[times*99/100])
}

// resident is how much memory the process takes now.
func resident(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("only Linux tells how much memory a process has")
	}
	kib, err := strconv.ParseInt(string(regexp.MustCompile(`VmRSS:\s*(\d+)`).FindSubmatch(status)[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
