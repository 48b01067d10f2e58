package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"robotsproxy/robots"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
)

var (
	exampleOrg = robots.Origin{Scheme: "https", Host: "example.org", Port: "443"}
	noon       = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
)

// someOrigin is the i-th of many origins.
func someOrigin(i int) robots.Origin {
	return robots.Origin{Scheme: "http", Host: fmt.Sprintf("%d.example", i), Port: "80"}
}

// recordOf is a record of the i-th origin, with a text fetched at noon.
func recordOf(i int, text string) store.Record {
	sum := sha256.Sum256([]byte(text))
	return store.Record{
		Origin: someOrigin(i).String(), Status: 200, Body: []byte(text), SHA256: hex.EncodeToString(sum[:]),
		FetchedAt: noon, ExpiresAt: noon.Add(24 * time.Hour),
	}
}

// A thousand origins with the same robots.txt take the memory of one.
func TestOriginsShareTheTextThatTheyServe(t *testing.T) {
	in := new(Texts)
	text := strings.Repeat("User-agent: *\nDisallow: /private\n", 1000)
	entries := make([]*Entry, 1000)
	var group sync.WaitGroup
	for i := range entries {
		group.Go(func() { entries[i] = in.Entry(Key{Origin: someOrigin(i)}, recordOf(i, text)) })
	}
	group.Wait()
	for i, e := range entries {
		if e.parsed != entries[0].parsed || &e.Record.Body[0] != &entries[0].Record.Body[0] {
			t.Fatalf("entry %d has a parsed text of its own", i)
		}
		if e.Record.Origin != someOrigin(i).String() {
			t.Fatalf("entry %d is of %s", i, e.Record.Origin)
		}
	}
	if other := in.Entry(Key{Origin: exampleOrg}, recordOf(1, "User-agent: *\nDisallow: /\n")); other.parsed.robots.Extent() != robots.Nothing {
		t.Error("another text is read as the same")
	}
}

// One text is two, if it is there as a robots.txt and as a tdmrep.json.
func TestKindsShareNoText(t *testing.T) {
	in := new(Texts)
	rec := recordOf(1, `[{"tdm-reservation":1}]`)
	robotsTxt, file := in.Entry(Key{Origin: exampleOrg}, rec), in.Entry(Key{exampleOrg, policy.TDMRep}, rec)
	if robotsTxt.parsed == file.parsed || robotsTxt.parsed.robots == nil || file.parsed.tdmrep.Len() != 1 {
		t.Errorf("read as %+v and %+v", robotsTxt.parsed, file.parsed)
	}
	if again := in.Entry(Key{someOrigin(2), policy.TDMRep}, rec); again.parsed != file.parsed {
		t.Error("it is read again")
	}
	if len(in.byID) != 2 {
		t.Errorf("%d texts", len(in.byID))
	}
	runtime.KeepAlive(robotsTxt)
}

// Memory holds the files of an origin by themselves.
func TestKindsAreHeldApart(t *testing.T) {
	m, err := New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in := new(Texts)
	keys := []Key{{Origin: exampleOrg}, {exampleOrg, policy.TDMRep}}
	for _, key := range keys {
		m.Set(in.Entry(key, store.Record{Origin: key.String()}))
		m.cache.Wait()
		if n := m.Count(key.Kind); n != 1 {
			t.Errorf("%v: %d", key, n)
		}
	}
	m.Remove(keys[0])
	if m.Get(keys[0]) != nil || m.Get(keys[1]) == nil || m.Count(policy.RobotsTxt) != 0 || m.Count(policy.TDMRep) != 1 {
		t.Error("to remove one is to remove both, or none")
	}
	for i, want := range []string{"https://example.org", "https://example.org/.well-known/tdmrep.json"} {
		if got := keys[i].String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// If two callers parse the same text at once, both use the copy of the first.
func TestTextIsKeptOnce(t *testing.T) {
	in := new(Texts)
	rec := recordOf(1, "User-agent: *\nDisallow: /private\n")
	read := func() *parsedText { return parse(textID{policy.RobotsTxt, rec.SHA256}, slices.Clone(rec.Body)) }
	first := in.add(read())
	if second := in.add(read()); second != first {
		t.Error("the second is kept, too")
	}
	if third := in.parse(policy.RobotsTxt, rec); third != first {
		t.Error("it is read again")
	}
}

// A record with the hash of another text changes nothing for the origins of that text.
func TestWrongHashSharesNothing(t *testing.T) {
	honest := recordOf(1, "User-agent: *\nDisallow: /\n")
	forged := recordOf(2, "User-agent: *\nAllow: /\n")
	forged.SHA256 = honest.SHA256
	for _, order := range [][]store.Record{{honest, forged}, {forged, honest}} {
		in := new(Texts)
		kept := make([]*Entry, len(order))
		for i, rec := range order {
			kept[i] = in.Entry(Key{Origin: exampleOrg}, rec)
			want := robots.Parse(rec.Body).Extent()
			if got := kept[i].parsed.robots.Extent(); got != want || string(kept[i].Record.Body) != string(rec.Body) {
				t.Errorf("%q reads as %v, want %v", rec.Body, got, want)
			}
		}
		runtime.KeepAlive(kept)
	}
}

// A parsed text goes with the last entry that holds it, and Texts forget it soon after. A
// text that an entry holds stays.
func TestParsedTextGoesWithItsLastEntry(t *testing.T) {
	in := new(Texts)
	rec := recordOf(0, "User-agent: *\nDisallow: /kept\n")
	kept := in.Entry(Key{Origin: exampleOrg}, rec)
	for i := range 20_000 {
		in.Entry(Key{Origin: someOrigin(i)}, recordOf(i, "User-agent: *\nDisallow: /"+strconv.Itoa(i)+"\n"))
		if i%500 == 0 {
			runtime.GC()
		}
		if len(in.byID) > 5000 {
			t.Fatalf("%d texts are held after %d", len(in.byID), i)
		}
	}
	if again := in.Entry(Key{Origin: someOrigin(1)}, rec); again.parsed != kept.parsed {
		t.Error("the text that an entry has is read again")
	}
}

// The assessment that an entry has cached is the one that it would make anew, whatever the
// clock says and whatever the operator changes.
func TestEntryIsAssessedOnce(t *testing.T) {
	short := policy.Defaults()
	short.MaxTTL = time.Hour
	long := policy.Defaults()
	e := new(Texts).Entry(Key{Origin: exampleOrg}, recordOf(1, "User-agent: *\nDisallow: /private\n"))
	var times []time.Time
	for _, edge := range []time.Duration{0, 45 * time.Minute, time.Hour, 18 * time.Hour, 24 * time.Hour} {
		times = append(times, noon.Add(edge-1), noon.Add(edge), noon.Add(edge+1))
	}
	reused := 0
	for _, first := range times {
		for _, opts := range []*policy.Options{&long, &short} {
			before := e.Assess(opts, first)
			for _, now := range times {
				got, want := e.Assess(opts, now), opts.Assess(e.Record, now)
				want.Policy.Origin = exampleOrg
				if want.Policy.Outcome == policy.Rules {
					want.Policy.File = e.parsed.robots
				}
				if !reflect.DeepEqual(*got, want) {
					t.Fatalf("at %v, after %v:\ngot  %+v\nwant %+v", now, first, *got, want)
				}
				if got == before {
					reused++
				}
			}
		}
	}
	if reused == 0 {
		t.Error("nothing was reused")
	}
}

// A full memory takes half its ceiling of the heap, since the heap may grow to twice what is
// in use.
func TestMemoryHoldsHalfItsCeiling(t *testing.T) {
	const ceiling = 32 << 20
	m, err := New(ceiling)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := heap()
	texts := new(Texts)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 10_000 {
		m.Set(texts.Entry(Key{Origin: someOrigin(i)}, recordOf(i, randomText(random))))
		if i%100 == 0 {
			m.cache.Wait() // it takes no more at once
		}
	}
	m.cache.Wait()
	if held := heap() - before; held > ceiling/2+1<<20 || held < ceiling/4 {
		t.Errorf("%d policies take %d KiB", m.Count(policy.RobotsTxt), held>>10)
	} else {
		t.Logf("%d policies take %d KiB", m.Count(policy.RobotsTxt), held>>10)
	}
}

// randomText is 1 to 3 KB of rules.
func randomText(random *rand.Rand) string {
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for size := 1000 + random.IntN(2000); b.Len() < size; {
		fmt.Fprintf(&b, "Disallow: /search/%x/archive\n", random.IntN(1<<20))
	}
	return b.String()
}

// A high ceiling takes no memory before there is something to hold.
func TestHighCeilingCostsLittleAtFirst(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err := New(1 << 40)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	m.Close()
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 256<<20 {
		t.Errorf("%d MiB are taken", taken>>20)
	}
}
