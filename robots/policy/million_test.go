package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/robots"
	"robotsproxy/robots/store"
)

// TestMillionOrigins measures what a million origins take: the file, finding
// one of them, and the memory of a process that uses all of them. Of ten
// origins six have a text of 1 to 3 KB of their own, three one of a thousand
// that many share, and one has none.
func TestMillionOrigins(t *testing.T) {
	origins, err := strconv.Atoi(os.Getenv("ROBOTSPROXY_ORIGINS"))
	if err != nil {
		t.Skip("it takes minutes: set ROBOTSPROXY_ORIGINS to 1000000 to measure that many origins")
	}
	dir := t.TempDir()
	s, err := store.Open(t.Context(), store.Defaults(), dir, 0, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	random := rand.New(rand.NewPCG(1, 2))
	begun := time.Now()
	for i := range origins {
		if err := s.Put(t.Context(), manyRecord(random, i, begun)); err != nil {
			t.Fatal(err)
		}
	}
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
		if _, err := s.List(t.Context(), after, 100); err != nil {
			t.Fatal(err)
		}
	}))

	runtime.GC()
	before := resident(t)
	const ceiling = 64 << 20
	k, err := NewKeeper(Setup{
		Options: Defaults(), Memory: ceiling, Store: s, Log: zerolog.Nop(),
		Transport: refused{t}, Now: func() time.Time { return begun.Add(time.Hour) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	most := before
	t.Logf("policy by way of the store: %s", spread(origins/2, func() {
		if p, err := k.Policy(t.Context(), manyOrigin(random.IntN(origins)), Sender{}); err != nil || p.Outcome == None {
			t.Fatalf("got %+v, %v", p, err)
		}
		if random.IntN(1000) == 0 {
			most = max(most, resident(t))
		}
	}))
	t.Logf("memory: %d MiB before the keeper, %d MiB at most with cache.memory %d MiB; %d policies held",
		before>>20, most>>20, ceiling>>20, k.memory.count.Load())
}

// refused is a transport for those who need none.
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

// spread times do, so many times.
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

// resident is the memory that the process has now.
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
