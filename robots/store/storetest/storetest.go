// Package storetest tests stores: what each of them must do, and what those must do that
// last beyond the process. Tests of a single store use its records and checks too.
package storetest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"robotsproxy/robots/store"
)

// Noon is when the records of tests begin.
var Noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// Options are those with which [Test] and [TestLasting] want their stores opened. By their
// clock it is long after the records, though not longer than the history.
func Options() store.Options {
	return store.Options{
		History: 365 * 24 * time.Hour,
		Now:     func() time.Time { return Noon.Add(300 * 24 * time.Hour) },
	}
}

// Test tests what every store does. open opens an empty one and has t close it.
func Test(t *testing.T, open func(t *testing.T) store.Store) {
	t.Run("records", func(t *testing.T) { testRecords(t, open(t)) })
	t.Run("pages", func(t *testing.T) { testPages(t, open(t)) })
	t.Run("other files", func(t *testing.T) { testOtherFiles(t, open(t)) })
	t.Run("forget", func(t *testing.T) { testForget(t, open(t)) })
	t.Run("concurrent use", func(t *testing.T) { testConcurrentUse(t, open(t)) })
}

// TestLasting tests what every store does that outlives the process. open opens an empty
// one and has t close it.
func TestLasting(t *testing.T, open func(t *testing.T) store.Store) {
	Test(t, open)
	t.Run("late records", func(t *testing.T) { testLateRecords(t, open(t)) })
	t.Run("versions", func(t *testing.T) { testVersions(t, open(t)) })
	t.Run("many versions", func(t *testing.T) { testManyVersions(t, open(t)) })
	t.Run("versions without a record", func(t *testing.T) { testForgottenVersions(t, open(t)) })
}

func testRecords(t *testing.T, s store.Store) {
	if _, ok, err := s.Get(t.Context(), "https://example.com"); ok || err != nil {
		t.Errorf("an empty store: %v, %v", ok, err)
	}
	text := TextRecord("https://example.com", "User-agent: *\nDisallow: /\n", Noon)
	text.UserAgent, text.CDN = "ExampleBot/2.0", "cloudflare"
	empty := TextRecord("https://empty.example", "", Noon)
	gone := store.Record{Origin: "http://gone.example:8080", Status: 404, FetchedAt: Noon, ExpiresAt: Noon.Add(time.Hour)}
	down := FailingRecord(store.Record{Origin: "https://down.example", CDN: "cloudflare"}, Noon)
	Put(t, s, text, empty, gone, down)
	for _, rec := range []store.Record{text, empty, gone, down} {
		Expect(t, s, rec)
	}

	later := FailingRecord(text, Noon.Add(23*time.Hour))
	Put(t, s, later)
	Expect(t, s, later)
	again := TextRecord(text.Origin, "User-agent: *\nAllow: /\n", Noon.Add(25*time.Hour))
	Put(t, s, again)
	Expect(t, s, again)

	first, err := s.List(t.Context(), "", "", 3)
	if err != nil {
		t.Fatal(err)
	}
	rest, err := s.List(t.Context(), "https://empty.example", "", 3)
	if err != nil {
		t.Fatal(err)
	}
	want := []store.Record{gone, down, empty, again} // without their texts
	for i := range want {
		want[i].Body = nil
	}
	if got := append(first, rest...); !reflect.DeepEqual(got, want) {
		t.Errorf("listed %+v\nwant   %+v", got, want)
	}
}

func testPages(t *testing.T, s store.Store) {
	const origins = 250
	for i := range origins {
		Put(t, s, store.Record{Origin: fmt.Sprintf("https://%03d.example", i), Status: 404, FetchedAt: Noon})
	}
	seen, after := 0, ""
	for {
		page, err := s.List(t.Context(), after, "", 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, rec := range page {
			if want := fmt.Sprintf("https://%03d.example", seen); rec.Origin != want {
				t.Fatalf("%s is listed, want %s", rec.Origin, want)
			}
			seen++
			after = rec.Origin
		}
	}
	if seen != origins {
		t.Errorf("%d origins are listed of %d", seen, origins)
	}

	for _, test := range []struct {
		after, part string
		limit       int
		want        []string
	}{
		{"", "24", 10, []string{"024", "124", "224", "240", "241", "242", "243", "244", "245", "246"}},
		{"https://246.example", "24", 10, []string{"247", "248", "249"}},
		{"", "://00", 2, []string{"000", "001"}},
		{"", "example", 1, []string{"000"}},
		{"", "%", 10, nil},
		{"", "nobody", 10, nil},
	} {
		page, err := s.List(t.Context(), test.after, test.part, test.limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, rec := range page {
			got = append(got, rec.Origin[len("https://"):][:3])
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%q after %q: %v, want %v", test.part, test.after, got, test.want)
		}
	}
}

// testOtherFiles: files other than robots.txt are kept like these, by their URLs, beside the
// origin's robots.txt, and never listed.
func testOtherFiles(t *testing.T, s store.Store) {
	for _, origin := range []string{"https://example.com", "http://one.example:8080", "http://[2001:db8::1]:81"} {
		const text = "the same text"
		robotsTxt, file := TextRecord(origin, text, Noon), TextRecord(origin+"/.well-known/tdmrep.json", text, Noon)
		Put(t, s, file)
		if rec, ok, err := s.Get(t.Context(), origin); ok || err != nil {
			t.Errorf("the origin of a file is known: %+v, %v", rec, err)
		}
		Put(t, s, robotsTxt, TextRecord(origin+".other", text, Noon))
		for _, rec := range []store.Record{file, robotsTxt} {
			Expect(t, s, rec)
			ExpectVersions(t, s, rec.Origin, VersionOf(rec, Noon))
		}
		for _, after := range []string{"", origin} {
			recs, err := s.List(t.Context(), after, "example", 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range recs {
				if strings.HasSuffix(rec.Origin, ".json") {
					t.Errorf("%s is listed", rec.Origin)
				}
			}
		}
		recs, err := s.List(t.Context(), origin, "", 1)
		if err != nil || len(recs) != 1 || recs[0].Origin != origin+".other" {
			t.Errorf("after %s: %+v, %v; the file takes the place of the next origin", origin, recs, err)
		}
		if err := s.Forget(t.Context(), file.Origin); err != nil {
			t.Error(err)
		}
		if _, ok, err := s.Get(t.Context(), file.Origin); ok || err != nil {
			t.Errorf("a forgotten file is known, %v", err)
		}
		Expect(t, s, robotsTxt)
		file = FailingRecord(file, Noon.Add(time.Hour))
		Put(t, s, file)
		Expect(t, s, file)
	}
}

func testForget(t *testing.T, s store.Store) {
	one, two := TextRecord("https://one.example", "Disallow: /1", Noon), TextRecord("https://two.example", "Disallow: /2", Noon)
	Put(t, s, one, two)
	for range 2 { // there is nothing to forget the second time
		if err := s.Forget(t.Context(), one.Origin); err != nil {
			t.Error(err)
		}
		if rec, ok, err := s.Get(t.Context(), one.Origin); ok || err != nil {
			t.Errorf("got %+v, %v", rec, err)
		}
	}
	Expect(t, s, two)
	ExpectVersions(t, s, two.Origin, VersionOf(two, Noon))
	if recs, err := s.List(t.Context(), "", "", 10); len(recs) != 1 || err != nil {
		t.Errorf("listed %+v, %v", recs, err)
	}
	ExpectVersions(t, s, "https://nobody.example")
	Put(t, s, FailingRecord(store.Record{Origin: "https://down.example"}, Noon))
	ExpectVersions(t, s, "https://down.example")
	Put(t, s, one)
	Expect(t, s, one)
}

func testConcurrentUse(t *testing.T, s store.Store) {
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 50 {
				rec := TextRecord(fmt.Sprintf("https://%d.example", i%10), fmt.Sprintf("Disallow: /%d", g), Noon)
				if err := s.Put(context.Background(), rec); err != nil {
					t.Error(err)
				}
				if got, ok, err := s.Get(context.Background(), rec.Origin); err != nil || !ok || !strings.HasPrefix(string(got.Body), "Disallow: /") {
					t.Errorf("got %+v, %v, %v", got, ok, err)
				}
			}
		})
	}
	all.Wait()
}

// testLateRecords is about one that does not hide what another process got
// meanwhile.
func testLateRecords(t *testing.T, s store.Store) {
	at := func(hours int) time.Time { return Noon.Add(time.Duration(hours) * time.Hour) }
	old, answer := TextRecord("https://example.com", "old", Noon), TextRecord("https://example.com", "new", at(20))
	Put(t, s, old, answer, FailingRecord(old, at(20).Add(time.Second)))
	Expect(t, s, answer)
	Put(t, s, TextRecord("https://example.com", "late", at(19)))
	Expect(t, s, answer)

	const year = 365 * 24
	Put(t, s, TextRecord("https://example.com", "from the future", at(year))) // of a clock that was wrong
	right := TextRecord("https://example.com", "right", at(21))
	Put(t, s, right)
	Expect(t, s, right)
}

func testVersions(t *testing.T, s store.Store) {
	const origin = "https://example.com"
	at := func(days int) time.Time { return Noon.Add(time.Duration(days) * 24 * time.Hour) }
	Put(t, s,
		TextRecord(origin, "one", at(0)),
		TextRecord(origin, "two", at(1)),
		store.Record{Origin: origin, Status: 404, FetchedAt: at(2)},
		TextRecord(origin, "", at(3)),
		TextRecord(origin, "one", at(4)),
		FailingRecord(TextRecord(origin, "three", at(5)), at(6)), // the fetch of a text is overtaken by a failure
	)
	ExpectVersions(t, s, origin,
		VersionOf(TextRecord(origin, "three", at(5)), at(5)),
		VersionOf(TextRecord(origin, "one", at(4)), at(0)),
		VersionOf(TextRecord(origin, "", at(3)), at(3)),
		VersionOf(store.Record{Status: 404, FetchedAt: at(2)}, at(2)),
		VersionOf(TextRecord(origin, "two", at(1)), at(1)),
	)
}

// testManyVersions: of those of an origin with many, the oldest go. Long texts are kept as others.
func testManyVersions(t *testing.T, s store.Store) {
	const origin = "https://example.com"
	for i := range store.MaxVersions + 20 {
		Put(t, s, TextRecord(origin, fmt.Sprint(i), Noon.Add(time.Duration(i)*time.Minute)))
	}
	versions, err := s.Versions(t.Context(), origin)
	if err != nil || len(versions) != store.MaxVersions || versions[store.MaxVersions-1].SHA256 != TextRecord(origin, "20", Noon).SHA256 {
		t.Errorf("%d versions, %v", len(versions), err)
	}
	if _, ok, err := s.Text(t.Context(), origin, TextRecord(origin, "19", Noon).SHA256); ok || err != nil {
		t.Errorf("the text of a version that is gone: found %v, %v", ok, err)
	}
	long := strings.Repeat("x", 20<<20)
	var want []store.Version
	for i := range 4 {
		rec := TextRecord("https://long.example", fmt.Sprint(i, long), Noon.Add(time.Duration(i)*time.Minute))
		Put(t, s, rec)
		want = append([]store.Version{VersionOf(rec, rec.FetchedAt)}, want...)
	}
	ExpectVersions(t, s, "https://long.example", want...)
}

func testForgottenVersions(t *testing.T, s store.Store) {
	rec := TextRecord("https://example.com", "Disallow: /", Noon)
	Put(t, s, rec)
	if err := s.Forget(t.Context(), rec.Origin); err != nil {
		t.Error(err)
	}
	ExpectVersions(t, s, rec.Origin, VersionOf(rec, Noon))
}

// BenchmarkPut measures how a store writes the robots.txt of one origin after another.
func BenchmarkPut(b *testing.B, s store.Store) {
	rec := TextRecord("", strings.Repeat("Disallow: /some/path\n", 150), Noon)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		rec.Origin = fmt.Sprintf("https://%d.example", i)
		Put(b, s, rec)
	}
}
