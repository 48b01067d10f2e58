package store

import (
	"container/list"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
)

// minBudget is what a Memory keeps however little it is given: some ten
// thousand records without a long text. Less would have a proxy with a small
// cache fetch the same robots.txt again and again.
const minBudget = 8 << 20

// recordOverhead is about what a record costs besides its strings: the struct,
// its place in the list and in the map.
const recordOverhead = 400

// A Memory keeps the records that were used last, up to a number of bytes. It
// does not outlive the process, and puts each record in place of the last one.
type Memory struct {
	budget int64

	mu      sync.Mutex
	held    int64
	recent  *list.List // of Record, the last used in front
	records map[string]*list.Element
}

// NewMemory returns an empty Memory of so many bytes, and never less than 8 MiB.
func NewMemory(budget int64) *Memory {
	return &Memory{
		budget:  max(budget, minBudget),
		recent:  list.New(),
		records: make(map[string]*list.Element),
	}
}

func (m *Memory) Get(_ context.Context, origin string) (Record, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.records[origin]
	if !ok {
		return Record{}, false, nil
	}
	m.recent.MoveToFront(e)
	return e.Value.(Record), true, nil
}

func (m *Memory) Put(_ context.Context, recs ...Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rec := range recs {
		m.put(rec)
	}
	return nil
}

// put is Put of one record. The caller holds the lock.
func (m *Memory) put(rec Record) {
	if e, ok := m.records[rec.Origin]; ok {
		m.drop(e)
	}
	m.records[rec.Origin] = m.recent.PushFront(rec)
	m.held += cost(rec)
	for m.held > m.budget {
		m.drop(m.recent.Back())
	}
}

func (m *Memory) List(_ context.Context, after, part string, limit int) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var recs []Record
	for _, origin := range slices.Sorted(maps.Keys(m.records)) {
		if len(recs) >= limit {
			break
		}
		if origin > after && strings.Contains(origin, part) {
			rec := m.records[origin].Value.(Record)
			rec.Body = nil
			recs = append(recs, rec)
		}
	}
	return recs, nil
}

func (m *Memory) Forget(_ context.Context, origin string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.records[origin]; ok {
		m.drop(e)
	}
	return nil
}

func (m *Memory) Versions(ctx context.Context, origin string) ([]Version, error) {
	rec, _, _ := m.Get(ctx, origin)
	if v, ok := rec.Answer(); ok {
		return []Version{v}, nil
	}
	return nil, nil
}

// Oldest returns up to limit records, those that have not been used for longest, the
// oldest in front.
func (m *Memory) Oldest(limit int) []Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	recs := make([]Record, 0, min(limit, len(m.records)))
	for e := m.recent.Back(); e != nil && len(recs) < limit; e = e.Prev() {
		recs = append(recs, e.Value.(Record))
	}
	return recs
}

// Held returns how many records there are, and how many bytes they take.
func (m *Memory) Held() (records int, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.records), m.held
}

// Remove takes out a record, unless another fetch has put one in its place.
func (m *Memory) Remove(rec Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.records[rec.Origin]
	if !ok {
		return
	}
	kept := e.Value.(Record)
	if kept.FetchedAt.Equal(rec.FetchedAt) && kept.Failures == rec.Failures {
		m.drop(e)
	}
}

func (m *Memory) Close() error { return nil }

func (m *Memory) drop(e *list.Element) {
	rec := m.recent.Remove(e).(Record)
	delete(m.records, rec.Origin)
	m.held -= cost(rec)
}

func cost(rec Record) int64 {
	return int64(recordOverhead + len(rec.Origin) + cap(rec.Body) + len(rec.SHA256) + len(rec.UserAgent) + len(rec.Cause))
}
