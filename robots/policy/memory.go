package policy

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/dgraph-io/ristretto/v2"

	"robotsproxy/robots"
	"robotsproxy/robots/store"
)

// An entry is a record as memory holds it, its text read. It does not change.
type entry struct {
	origin  robots.Origin
	rec     store.Record
	reading *reading // nil if the last answer was no text, or is listed without it

	lasting atomic.Pointer[lasting] // nil: it has not been judged yet, or not for long
}

// lasting is a judgement that holds for a while, and the options that it rests on.
type lasting struct {
	Judgement
	opts *Options
}

// entry makes the entry of a record. It shares the text with the others that have it.
func (rs *readings) entry(origin robots.Origin, rec store.Record) *entry {
	e := &entry{origin: origin, rec: rec, reading: rs.of(rec)}
	if e.reading != nil {
		e.rec.Body, e.rec.SHA256 = e.reading.text, e.reading.sha256
	}
	return e
}

// judge is Options.Judge, with the origin and its rules. It is on every request's
// way, so what holds for a while is judged once.
func (e *entry) judge(opts *Options, now time.Time) *Judgement {
	now = now.Round(0) // wall time, as in Judge
	if l := e.lasting.Load(); l != nil && l.opts == opts && now.Before(l.Until) && !now.Before(l.Policy.FetchedAt) {
		return &l.Judgement
	}
	return e.judgeAnew(opts, now)
}

func (e *entry) judgeAnew(opts *Options, now time.Time) *Judgement {
	l := &lasting{opts.Judge(e.rec, now), opts}
	l.Policy.Origin = e.origin
	if l.Policy.Outcome == Rules && e.reading != nil {
		l.Policy.File = e.reading.file
	}
	if !l.Until.IsZero() {
		e.lasting.Store(l)
	}
	return &l.Judgement
}

// entryOverhead is about what an entry costs besides its text and its rules:
// the structs with their strings, and the cache's own.
const entryOverhead = 1024

// cost is twice the size of the entry: with the garbage collector's reserve, and
// what the heap has no use for, the process grows by about as much, and the ceiling
// is on that. A reading counts with each entry that has it: any of them may be the
// last to keep it.
func (e *entry) cost() int64 {
	size := int64(entryOverhead + cap(e.rec.Body))
	if e.reading != nil {
		size += e.reading.file.Size()
	}
	return 2 * size
}

// A memory is a bounded shortcut to what the store holds. It may forget an
// entry at any time, or not take it at all.
type memory struct {
	seed  maphash.Seed
	count atomic.Int64

	// ristretto cannot be asked while it is being closed.
	mu     sync.RWMutex
	closed bool
	cache  *ristretto.Cache[uint64, *entry]
}

func newMemory(ceiling int64) (*memory, error) {
	ceiling = max(ceiling, 1)
	m := &memory{seed: maphash.MakeSeed()}
	var err error
	m.cache, err = ristretto.NewCache(&ristretto.Config[uint64, *entry]{
		// Ten counters for each entry that fits in are advised. They cost some
		// three bytes each from the start, however few entries there are.
		NumCounters: min(max(ceiling/(2*entryOverhead)*10, 1000), 10_000_000),
		MaxCost:     ceiling,
		BufferItems: 64,
		OnExit: func(e *entry) {
			if e != nil {
				m.count.Add(-1)
			}
		},
		// Entries have no time to live that the cache would have to look after.
		TtlTickerDurationInSec: math.MaxInt64 / int64(time.Second),
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of policies: %w", err)
	}
	return m, nil
}

// get returns nil if the origin is not held. Two origins with one hash push
// each other out.
func (m *memory) get(origin robots.Origin) *entry {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil
	}
	e, ok := m.cache.Get(maphash.Comparable(m.seed, origin))
	if !ok || e.origin != origin {
		return nil
	}
	return e
}

func (m *memory) set(e *entry) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.closed && m.cache.Set(maphash.Comparable(m.seed, e.origin), e, e.cost()) {
		m.count.Add(1)
	}
}

// remove returns when get finds no entry of the origin that was set before.
func (m *memory) remove(origin robots.Origin) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.closed {
		m.cache.Del(maphash.Comparable(m.seed, origin))
		m.cache.Wait() // for one that the cache is still about to take
	}
}

func (m *memory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed = true
		m.cache.Close()
	}
}

// A reading is a robots.txt and what it says. It does not change.
type reading struct {
	text   []byte
	sha256 string // of the text, as its record has it
	file   *robots.File
}

// readings has a text that many origins serve, as those of one platform do, read and
// in memory once. It keeps none alive: a reading goes with the last entry that has it.
type readings struct {
	mu   sync.Mutex
	held map[string]weak.Pointer[reading] // by sha256
	room int                              // for how many, before those that have gone are swept out
}

// of returns the reading of a record's text; nil if it has none.
func (rs *readings) of(rec store.Record) *reading {
	if rec.SHA256 == "" {
		return nil
	}
	if r := rs.find(rec.SHA256); r.is(rec.Body) {
		return r
	}
	return rs.keep(&reading{rec.Body, rec.SHA256, robots.Parse(rec.Body)})
}

func (rs *readings) find(sha256 string) *reading {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.held[sha256].Value()
}

// keep returns r, or what was kept of the same text while r was being read.
func (rs *readings) keep(r *reading) *reading {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	switch other := rs.held[r.sha256].Value(); {
	case other.is(r.text):
		return other
	case other == nil:
		rs.sweep()
		rs.held[r.sha256] = weak.Make(r)
	}
	return r
}

// sweep makes room for another one. The map is made anew: it would never shrink.
func (rs *readings) sweep() {
	if len(rs.held) < rs.room {
		return
	}
	live := make(map[string]weak.Pointer[reading], len(rs.held)/2)
	for sha256, r := range rs.held {
		if r.Value() != nil {
			live[sha256] = r
		}
	}
	rs.held, rs.room = live, max(2*len(live), 1000)
}

// is reports whether it is that text that was read; r may be nil. What others write
// into a store may say anything of one origin, but nothing of another by its hash.
func (r *reading) is(text []byte) bool { return r != nil && bytes.Equal(r.text, text) }
