package sqlitestore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/robots/store"
	"robotsproxy/robots/store/storetest"
)

const testMaxSize = 2 << 20

// openBounded opens a store that may take 2 MiB, at a time that the test may move.
func openBounded(t *testing.T, dir string, now *time.Time) (s *Store, log *bytes.Buffer) {
	t.Helper()
	opts, log := store.Defaults(), new(bytes.Buffer)
	opts.MaxSize, opts.Now = testMaxSize, func() time.Time { return *now }
	s, err := Open(t.Context(), opts, dir, zerolog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, log
}

// noise is a text of so many octets that takes half as many in gzip.
func noise(random *rand.Rand, size int) string {
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "Disallow: /%016x\n", random.Uint64())
	}
	return b.String()
}

// onDisk is the size of the database's file as it is.
func onDisk(t testing.TB, s *Store) int64 {
	t.Helper()
	var path string
	if err := database(t, s).QueryRow(`SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// One origin changes all the time, and the others stay: what they serve is kept, and
// the oldest of what they no longer serve goes.
func TestMaxSizeDropsWhatIsNoLongerServed(t *testing.T) {
	random, now := rand.New(rand.NewPCG(1, 2)), storetest.Noon
	s, log := openBounded(t, t.TempDir(), &now)
	var steady []store.Record
	for i := range 100 {
		steady = append(steady, storetest.TextRecord(fmt.Sprintf("https://steady%d.example", i), noise(random, 2500), now))
	}
	storetest.Put(t, s, steady...)
	var last store.Record
	for round := range 400 {
		now = now.Add(time.Hour)
		last = storetest.TextRecord(fmt.Sprintf("https://fickle%d.example", round%3), noise(random, 25_000), now)
		storetest.Put(t, s, last)
		if size := onDisk(t, s); size > testMaxSize {
			t.Fatalf("%d octets in round %d", size, round)
		}
	}
	for _, rec := range append(steady, last) {
		storetest.Expect(t, s, rec)
	}
	versions, err := s.Versions(t.Context(), last.Origin)
	if err != nil || len(versions) < 10 || len(versions) > 100 || versions[0].SHA256 != last.SHA256 {
		t.Errorf("%d versions, %v", len(versions), err)
	}
	for i, v := range versions { // of its own, the oldest have gone
		if want := now.Add(-time.Duration(3*i) * time.Hour); !v.LastSeen.Equal(want) {
			t.Errorf("version %d is of %v, want %v", i, v.LastSeen, want)
		}
	}
	left := count(t, s, "versions")
	if versions, origins := s.Evicted(); versions != int64(400+100-left) || origins != 0 {
		t.Errorf("counted %d versions and %d origins; %d versions are left", versions, origins, left)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", log)
	}
}

// All of it is served: the origins asked longest ago go.
func TestMaxSizeHoldsIfAllIsServed(t *testing.T) {
	random, now := rand.New(rand.NewPCG(1, 2)), storetest.Noon
	dir := t.TempDir()
	s, log := openBounded(t, dir, &now)
	used := storetest.TextRecord("https://used.example", noise(random, 2500), now)
	down := storetest.FailingRecord(storetest.TextRecord("https://down.example", "Disallow: /", now), now)
	storetest.Put(t, s, used, down)
	const origins = 2000
	for i := range origins {
		now = now.Add(time.Minute)
		storetest.Put(t, s, storetest.TextRecord(fmt.Sprintf("https://%d.example", i), noise(random, 2500), now))
		if i%100 == 0 {
			used.FetchedAt, used.ExpiresAt = now, now.Add(day)
			down.NextTry = now
			storetest.Put(t, s, used, down)
		}
		if size := onDisk(t, s); size > testMaxSize {
			t.Fatalf("%d octets after %d", size, i)
		}
	}
	storetest.Expect(t, s, used)
	storetest.Expect(t, s, down)
	left := count(t, s, "policies") - 2
	if left < 200 || left > origins-200 {
		t.Errorf("%d origins are left", left)
	}
	for i := range origins {
		name := fmt.Sprintf("https://%d.example", i)
		if _, ok, err := s.Get(t.Context(), name); err != nil || ok != (i >= origins-left) {
			t.Fatalf("%d of %d: kept %v, %v", i, left, ok, err)
		}
	}
	if _, n := s.Evicted(); n != int64(origins-left) {
		t.Errorf("counted %d of %d", n, origins-left)
	}
	for table, want := range map[string]int{"versions": left + 2, "texts": left + 2} {
		if n := count(t, s, table); n != want {
			t.Errorf("%d %s, want %d", n, table, want)
		}
	}
	if strings.Count(log.String(), "raise cache.max_size") != 1 {
		t.Errorf("logged %s", log)
	}
	expectWhole(t, s)
}

// A database that grew before it was bounded comes down.
func TestMaxSizeOfALargeDatabase(t *testing.T) {
	random, now, dir := rand.New(rand.NewPCG(1, 2)), storetest.Noon, t.TempDir()
	free := open(t, dir)
	for i := range 600 {
		storetest.Put(t, free, storetest.TextRecord(fmt.Sprintf("https://%d.example", i), noise(random, 25_000), now.Add(time.Duration(i)*time.Second)))
	}
	full := fileSize(t, free)
	free.Close()
	s, _ := openBounded(t, dir, &now)
	for i := range 20 {
		storetest.Put(t, s, storetest.TextRecord("https://new.example", fmt.Sprint(i), now.Add(time.Hour)))
	}
	if size := fileSize(t, s); size > testMaxSize || full < 2*testMaxSize {
		t.Errorf("%d octets, and %d before", size, full)
	}
	storetest.Expect(t, s, storetest.TextRecord("https://new.example", "19", now.Add(time.Hour)))
}
