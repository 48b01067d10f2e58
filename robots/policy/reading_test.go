package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

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

// A thousand origins with one robots.txt take the room of one.
func TestOriginsShareTheTextThatTheyServe(t *testing.T) {
	rs := newReadings()
	text := strings.Repeat("User-agent: *\nDisallow: /private\n", 1000)
	entries := make([]*entry, 1000)
	var group sync.WaitGroup
	for i := range entries {
		group.Go(func() { entries[i] = rs.entry(someOrigin(i), recordOf(i, text)) })
	}
	group.Wait()
	for i, e := range entries {
		if e.reading != entries[0].reading || &e.rec.Body[0] != &entries[0].rec.Body[0] {
			t.Fatalf("entry %d has a reading of its own", i)
		}
		if e.rec.Origin != someOrigin(i).String() {
			t.Fatalf("entry %d is of %s", i, e.rec.Origin)
		}
	}
	if other := rs.entry(exampleOrg, recordOf(1, "User-agent: *\nDisallow: /\n")); other.reading.file.Extent() != robots.Nothing {
		t.Error("another text is read as the same")
	}
}

// What a store says with the hash of another text is its own origin's matter.
func TestWrongHashSharesNothing(t *testing.T) {
	rs := newReadings()
	honest := recordOf(1, "User-agent: *\nDisallow: /\n")
	forged := recordOf(2, "User-agent: *\nAllow: /\n")
	forged.SHA256 = honest.SHA256
	for _, order := range [][]store.Record{{honest, forged}, {forged, honest}} {
		kept := make([]*entry, len(order))
		for i, rec := range order {
			kept[i] = rs.entry(exampleOrg, rec)
			want := robots.Parse(rec.Body).Extent()
			if got := kept[i].reading.file.Extent(); got != want || string(kept[i].rec.Body) != string(rec.Body) {
				t.Errorf("%q reads as %v, want %v", rec.Body, got, want)
			}
		}
		runtime.KeepAlive(kept)
	}
}

// A reading goes with the last entry that has it, and leaves nothing behind; a text
// that is read again meanwhile is kept.
func TestReadingGoesWithItsLastEntry(t *testing.T) {
	rs := newReadings()
	kept := rs.entry(exampleOrg, recordOf(0, "User-agent: *\nDisallow: /kept\n"))
	for i := range 100 {
		rs.entry(someOrigin(i), recordOf(i, strings.Repeat("\n", i)+"User-agent: *\nDisallow: /\n"))
	}
	held := func() int {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		return len(rs.held)
	}
	for deadline := time.Now().Add(10 * time.Second); held() > 1; {
		if time.Now().After(deadline) {
			t.Fatalf("%d texts are held, want 1", held())
		}
		runtime.GC()
	}
	if again := rs.entry(someOrigin(1), recordOf(1, "User-agent: *\nDisallow: /kept\n")); again.reading != kept.reading {
		t.Error("the text that an entry has is read again")
	}
}
