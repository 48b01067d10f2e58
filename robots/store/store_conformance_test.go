//go:build unix

package store

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/internal/redistest"
)

func TestStores(t *testing.T) {
	open := func(opts Options) func(*testing.T) Store {
		return func(t *testing.T) Store {
			s, err := Open(t.Context(), opts, t.TempDir(), 64<<20, zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		}
	}
	late := func() time.Time { return noon.Add(300 * 24 * time.Hour) }
	opts := Options{History: 365 * 24 * time.Hour, Now: late}
	t.Run("sqlite", func(t *testing.T) {
		opts.Kind = SQLite
		testStore(t, open(opts))
		testLastingStore(t, open(opts))
	})
	t.Run("none", func(t *testing.T) {
		opts.Kind = None
		testStore(t, open(opts))
	})
	t.Run("redis", func(t *testing.T) {
		server := redistest.Start(t)
		openEmpty := func(t *testing.T) Store {
			opts.Kind, opts.Server = Redis, server.Client()
			s := open(opts)(t)
			s.(*redisStore).SetKeep(37 * oneDay)
			server.Flush()
			return s
		}
		testStore(t, openEmpty)
		testLastingStore(t, openEmpty)
	})
}

// testStore tests what every store does.
func testStore(t *testing.T, open func(*testing.T) Store) {
	t.Run("records", func(t *testing.T) { testRecords(t, open(t)) })
	t.Run("pages", func(t *testing.T) { testPages(t, open(t)) })
	t.Run("forget", func(t *testing.T) { testForget(t, open(t)) })
	t.Run("concurrent use", func(t *testing.T) { testConcurrentUse(t, open(t)) })
}

// testLastingStore tests what those do that outlive the process.
func testLastingStore(t *testing.T, open func(*testing.T) Store) {
	t.Run("late records", func(t *testing.T) { testLateRecords(t, open(t)) })
	t.Run("versions", func(t *testing.T) { testVersions(t, open(t)) })
	t.Run("many versions", func(t *testing.T) { testManyVersions(t, open(t)) })
}

func testRecords(t *testing.T, s Store) {
	if _, ok, err := s.Get(t.Context(), "https://example.com"); ok || err != nil {
		t.Errorf("an empty store: %v, %v", ok, err)
	}
	text := textRecord("https://example.com", "User-agent: *\nDisallow: /\n", noon)
	text.UserAgent = "ExampleBot/2.0"
	empty := textRecord("https://empty.example", "", noon)
	gone := Record{Origin: "http://gone.example:8080", Status: 404, FetchedAt: noon, ExpiresAt: noon.Add(time.Hour)}
	down := failingRecord(Record{Origin: "https://down.example"}, noon)
	put(t, s, text, empty, gone, down)
	for _, rec := range []Record{text, empty, gone, down} {
		expect(t, s, rec)
	}

	later := failingRecord(text, noon.Add(23*time.Hour))
	put(t, s, later)
	expect(t, s, later)
	again := textRecord(text.Origin, "User-agent: *\nAllow: /\n", noon.Add(25*time.Hour))
	put(t, s, again)
	expect(t, s, again)

	first, err := s.List(t.Context(), "", "", 3)
	if err != nil {
		t.Fatal(err)
	}
	rest, err := s.List(t.Context(), "https://empty.example", "", 3)
	if err != nil {
		t.Fatal(err)
	}
	want := []Record{gone, down, empty, again} // without their texts
	for i := range want {
		want[i].Body = nil
	}
	if got := append(first, rest...); !reflect.DeepEqual(got, want) {
		t.Errorf("listed %+v\nwant   %+v", got, want)
	}
}

func testPages(t *testing.T, s Store) {
	const origins = 250
	for i := range origins {
		put(t, s, Record{Origin: fmt.Sprintf("https://%03d.example", i), Status: 404, FetchedAt: noon})
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

func testForget(t *testing.T, s Store) {
	one, two := textRecord("https://one.example", "Disallow: /1", noon), textRecord("https://two.example", "Disallow: /2", noon)
	put(t, s, one, two)
	for range 2 { // there is nothing to forget the second time
		if err := s.Forget(t.Context(), one.Origin); err != nil {
			t.Error(err)
		}
		if rec, ok, err := s.Get(t.Context(), one.Origin); ok || err != nil {
			t.Errorf("got %+v, %v", rec, err)
		}
	}
	expect(t, s, two)
	expectVersions(t, s, two.Origin, versionOf(two, noon))
	if _, none := s.(*Memory); none {
		expectVersions(t, s, one.Origin)
	} else {
		expectVersions(t, s, one.Origin, versionOf(one, noon))
	}
	if recs, err := s.List(t.Context(), "", "", 10); len(recs) != 1 || err != nil {
		t.Errorf("listed %+v, %v", recs, err)
	}
	expectVersions(t, s, "https://nobody.example")
	put(t, s, failingRecord(Record{Origin: "https://down.example"}, noon))
	expectVersions(t, s, "https://down.example")
	put(t, s, one)
	expect(t, s, one)
}

func testConcurrentUse(t *testing.T, s Store) {
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 50 {
				rec := textRecord(fmt.Sprintf("https://%d.example", i%10), fmt.Sprintf("Disallow: /%d", g), noon)
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
func testLateRecords(t *testing.T, s Store) {
	at := func(hours int) time.Time { return noon.Add(time.Duration(hours) * time.Hour) }
	old, answer := textRecord("https://example.com", "old", noon), textRecord("https://example.com", "new", at(20))
	put(t, s, old, answer, failingRecord(old, at(20).Add(time.Second)))
	expect(t, s, answer)
	put(t, s, textRecord("https://example.com", "late", at(19)))
	expect(t, s, answer)

	const year = 365 * 24
	put(t, s, textRecord("https://example.com", "from the future", at(year))) // of a clock that was wrong
	right := textRecord("https://example.com", "right", at(21))
	put(t, s, right)
	expect(t, s, right)
}

func testVersions(t *testing.T, s Store) {
	const origin = "https://example.com"
	at := func(days int) time.Time { return noon.Add(time.Duration(days) * 24 * time.Hour) }
	put(t, s,
		textRecord(origin, "one", at(0)),
		textRecord(origin, "two", at(1)),
		Record{Origin: origin, Status: 404, FetchedAt: at(2)},
		textRecord(origin, "", at(3)),
		textRecord(origin, "one", at(4)),
		failingRecord(textRecord(origin, "three", at(5)), at(6)), // the fetch of a text is overtaken by a failure
	)
	expectVersions(t, s, origin,
		versionOf(textRecord(origin, "three", at(5)), at(5)),
		versionOf(textRecord(origin, "one", at(4)), at(0)),
		versionOf(textRecord(origin, "", at(3)), at(3)),
		versionOf(Record{Status: 404, FetchedAt: at(2)}, at(2)),
		versionOf(textRecord(origin, "two", at(1)), at(1)),
	)
}

// testManyVersions: of those of an origin with many, the oldest go; of those
// with long texts not all are read at once.
func testManyVersions(t *testing.T, s Store) {
	const origin = "https://example.com"
	for i := range maxVersions + 20 {
		put(t, s, textRecord(origin, fmt.Sprint(i), noon.Add(time.Duration(i)*time.Minute)))
	}
	versions, err := s.Versions(t.Context(), origin)
	if err != nil || len(versions) != maxVersions || string(versions[maxVersions-1].Body) != "20" {
		t.Errorf("%d versions, %v", len(versions), err)
	}
	long := strings.Repeat("x", maxHistory/3)
	for i := range 5 {
		put(t, s, textRecord("https://long.example", fmt.Sprint(i, long), noon.Add(time.Duration(i)*time.Minute)))
	}
	versions, err = s.Versions(t.Context(), "https://long.example")
	if err != nil || len(versions) != 2 || versions[0].Body[0] != '4' {
		t.Errorf("%d versions, %v", len(versions), err)
	}
}
