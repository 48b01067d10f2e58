package store

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// minBudget is what a Memory keeps however little it is given: some ten thousand records
// without a long text. With less, a proxy with a small cache would fetch the same
// robots.txt again and again.
const minBudget = 8 << 20

// recordOverhead is about what a record costs besides its strings: the struct, and its
// entries in the list and in the map.
const recordOverhead = 400

// A Memory keeps the records that were used last, up to a number of bytes. It does not
// outlive the process. Put replaces an origin's record in any case.
type Memory struct {
	budget int64

	mu      sync.Mutex
	held    int64
	records *simplelru.LRU[string, Record] // by origin; bounded by budget alone
}

// NewMemory returns an empty Memory of so many bytes, and never less than 8 MiB.
func NewMemory(budget int64) *Memory {
	m := &Memory{budget: max(budget, minBudget)}
	m.records, _ = simplelru.NewLRU(math.MaxInt, func(_ string, rec Record) { m.held -= cost(rec) }) // it fails if the size is not positive
	return m
}

// Get implements [Store].
func (m *Memory) Get(_ context.Context, origin string) (Record, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec, ok := m.records.Get(origin)
	return rec, ok, nil
}

// Put implements [Store]. It returns no error.
func (m *Memory) Put(_ context.Context, recs ...Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rec := range recs {
		m.records.Remove(rec.Origin) // Add alone would not call back with the one that it replaces
		m.records.Add(rec.Origin, rec)
		m.held += cost(rec)
		for m.held > m.budget {
			m.records.RemoveOldest()
		}
	}
	return nil
}

// List implements [Store].
func (m *Memory) List(_ context.Context, after, part string, limit int) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	origins := slices.DeleteFunc(m.records.Keys(), func(o string) bool {
		return o <= after || !strings.Contains(o, part) || strings.Count(o, "/") > len("//") // a file's URL
	})
	slices.Sort(origins)
	var recs []Record
	for _, origin := range origins[:min(len(origins), limit)] {
		rec, _ := m.records.Peek(origin)
		rec.Body = nil
		recs = append(recs, rec)
	}
	return recs, nil
}

// Forget implements [Store].
func (m *Memory) Forget(_ context.Context, origin string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records.Remove(origin)
	return nil
}

// Versions implements [Store].
func (m *Memory) Versions(ctx context.Context, origin string) ([]Version, error) {
	rec, _, _ := m.Get(ctx, origin)
	if v, ok := rec.Answer(); ok {
		return []Version{v}, nil
	}
	return nil, nil
}

// Text implements [Store].
func (m *Memory) Text(ctx context.Context, origin, sha256 string) ([]byte, bool, error) {
	rec, _, _ := m.Get(ctx, origin)
	return rec.Body, rec.SHA256 == sha256 && sha256 != "", nil
}

// Oldest returns up to limit records, those that have not been used for longest, the oldest
// first.
func (m *Memory) Oldest(limit int) []Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	origins := m.records.Keys() // the oldest first
	origins = origins[:min(len(origins), limit)]
	recs := make([]Record, len(origins))
	for i, origin := range origins {
		recs[i], _ = m.records.Peek(origin)
	}
	return recs
}

// RemoveOldest removes the record that has not been used for longest, if there is one.
func (m *Memory) RemoveOldest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records.RemoveOldest()
}

// Held returns how many records there are, and about how many bytes they take.
func (m *Memory) Held() (records int, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records.Len(), m.held
}

// Remove removes a record, unless another fetch has put one in its place.
func (m *Memory) Remove(rec Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held, ok := m.records.Peek(rec.Origin)
	if ok && held.FetchedAt.Equal(rec.FetchedAt) && held.Failures == rec.Failures {
		m.records.Remove(rec.Origin)
	}
}

// Close implements [Store]. It does nothing.
func (m *Memory) Close() error { return nil }

func cost(rec Record) int64 {
	return int64(recordOverhead + len(rec.Origin) + cap(rec.Body) + len(rec.SHA256) + len(rec.UserAgent) + len(rec.CDN) + len(rec.Cause))
}
