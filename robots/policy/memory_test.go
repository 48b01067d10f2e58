package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"robotsproxy/robots"
	"robotsproxy/robots/store"
)

func recordOf(i int, text string) store.Record {
	sum := sha256.Sum256([]byte(text))
	return store.Record{
		Origin: someOrigin(i).String(), Status: 200, Body: []byte(text), SHA256: hex.EncodeToString(sum[:]),
		FetchedAt: noon, ExpiresAt: noon.Add(day),
	}
}

// A thousand origins with the same robots.txt take the memory of one.
func TestOriginsShareTheTextThatTheyServe(t *testing.T) {
	in := new(interner)
	text := strings.Repeat("User-agent: *\nDisallow: /private\n", 1000)
	entries := make([]*entry, 1000)
	var group sync.WaitGroup
	for i := range entries {
		group.Go(func() { entries[i] = in.entry(someOrigin(i), recordOf(i, text)) })
	}
	group.Wait()
	for i, e := range entries {
		if e.parsed != entries[0].parsed || &e.rec.Body[0] != &entries[0].rec.Body[0] {
			t.Fatalf("entry %d has a parsed text of its own", i)
		}
		if e.rec.Origin != someOrigin(i).String() {
			t.Fatalf("entry %d is of %s", i, e.rec.Origin)
		}
	}
	if other := in.entry(exampleOrg, recordOf(1, "User-agent: *\nDisallow: /\n")); other.parsed.file.Extent() != robots.Nothing {
		t.Error("another text is read as the same")
	}
}

// Of two flights that parse the same text at once, both use the first one's.
func TestTextIsKeptOnce(t *testing.T) {
	in := new(interner)
	rec := recordOf(1, "User-agent: *\nDisallow: /private\n")
	read := func() *parsedText { return &parsedText{slices.Clone(rec.Body), rec.SHA256, robots.Parse(rec.Body)} }
	first := in.add(read())
	if second := in.add(read()); second != first {
		t.Error("the second is kept, too")
	}
	if third := in.parse(rec); third != first {
		t.Error("it is read again")
	}
}

// A record with the hash of another text changes nothing for the origins of that text.
func TestWrongHashSharesNothing(t *testing.T) {
	honest := recordOf(1, "User-agent: *\nDisallow: /\n")
	forged := recordOf(2, "User-agent: *\nAllow: /\n")
	forged.SHA256 = honest.SHA256
	for _, order := range [][]store.Record{{honest, forged}, {forged, honest}} {
		in := new(interner)
		kept := make([]*entry, len(order))
		for i, rec := range order {
			kept[i] = in.entry(exampleOrg, rec)
			want := robots.Parse(rec.Body).Extent()
			if got := kept[i].parsed.file.Extent(); got != want || string(kept[i].rec.Body) != string(rec.Body) {
				t.Errorf("%q reads as %v, want %v", rec.Body, got, want)
			}
		}
		runtime.KeepAlive(kept)
	}
}

// A parsed text goes with the last entry that holds it, and its place in the interner
// soon after. A text that an entry holds stays.
func TestParsedTextGoesWithItsLastEntry(t *testing.T) {
	in := new(interner)
	rec := recordOf(0, "User-agent: *\nDisallow: /kept\n")
	kept := in.entry(exampleOrg, rec)
	for i := range 20_000 {
		in.entry(someOrigin(i), recordOf(i, "User-agent: *\nDisallow: /"+strconv.Itoa(i)+"\n"))
		if i%500 == 0 {
			runtime.GC()
		}
		if len(in.bySHA) > 5000 {
			t.Fatalf("%d texts are held after %d", len(in.bySHA), i)
		}
	}
	if again := in.entry(someOrigin(1), rec); again.parsed != kept.parsed {
		t.Error("the text that an entry has is read again")
	}
}
