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

// A memory is a bounded cache in front of the store. It may drop an entry at any
// time, or refuse to take it.
type memory struct {
	seed  maphash.Seed
	count atomic.Int64

	// ristretto must not be used while it is being closed.
	mu     sync.RWMutex
	closed bool
	cache  *ristretto.Cache[uint64, *entry]
}

func newMemory(ceiling int64) (*memory, error) {
	ceiling = max(ceiling, 1)
	m := &memory{seed: maphash.MakeSeed()}
	var err error
	m.cache, err = ristretto.NewCache(&ristretto.Config[uint64, *entry]{
		// ristretto advises ten counters for each entry that fits. They cost about
		// three bytes each from the start, however few entries there are.
		NumCounters: min(max(ceiling/(2*entryOverhead)*10, 1000), 10_000_000),
		MaxCost:     ceiling,
		BufferItems: 64,
		OnExit: func(e *entry) {
			if e != nil {
				m.count.Add(-1)
			}
		},
		// Entries have no time to live for the cache to watch.
		TtlTickerDurationInSec: math.MaxInt64 / int64(time.Second),
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of policies: %w", err)
	}
	return m, nil
}

// get returns nil if the origin is not held. Two origins with one hash displace
// each other.
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

// remove returns once get no longer finds an entry of the origin that was set before.
func (m *memory) remove(origin robots.Origin) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.closed {
		m.cache.Del(maphash.Comparable(m.seed, origin))
		m.cache.Wait() // for an entry that the cache is still about to take
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

// An entry is a record as memory holds it, with its text parsed. It does not change.
type entry struct {
	origin robots.Origin
	rec    store.Record
	parsed *parsedText // nil if the last answer was no text, or if it is listed without its text

	cached atomic.Pointer[cachedAssessment] // nil until there is one that holds for a while
}

// A cachedAssessment holds for a while by the same options.
type cachedAssessment struct {
	assessment
	opts *Options
}

// assess is Options.assess, with the origin and its rules. Every request calls it, so
// it caches an assessment that holds for a while.
func (e *entry) assess(opts *Options, now time.Time) *assessment {
	now = now.Round(0) // wall time, as in Options.assess
	if c := e.cached.Load(); c != nil && c.opts == opts && now.Before(c.until) && !now.Before(c.policy.FetchedAt) {
		return &c.assessment
	}
	return e.assessAnew(opts, now)
}

func (e *entry) assessAnew(opts *Options, now time.Time) *assessment {
	c := &cachedAssessment{opts.assess(e.rec, now), opts}
	c.policy.Origin = e.origin
	if c.policy.Outcome == Rules && e.parsed != nil {
		c.policy.File = e.parsed.file
	}
	if !c.until.IsZero() {
		e.cached.Store(c)
	}
	return &c.assessment
}

// entryOverhead is roughly what an entry costs besides its text and its rules: the
// structs with their strings, and what the cache itself needs.
const entryOverhead = 1024

// cost is twice the size of the entry: the garbage collector lets the heap grow to
// about twice what is in use, and the ceiling is on the process. A parsed text counts
// in full with each entry that shares it, since any of them may be the last to hold it.
func (e *entry) cost() int64 {
	size := int64(entryOverhead + cap(e.rec.Body))
	if e.parsed != nil {
		size += e.parsed.file.Size()
	}
	return 2 * size
}

// A parsedText is a robots.txt with its parsed form. It does not change.
type parsedText struct {
	text   []byte
	sha256 string // of text, as the record has it
	file   *robots.File
}

// An interner keeps one parsed copy in memory of a text that many origins serve, as the
// sites of one platform do. It keeps no text alive: a text goes with the last entry
// that holds it.
type interner struct {
	mu      sync.Mutex
	bySHA   map[string]weak.Pointer[parsedText]
	sweepAt int // the number of texts at which those that are gone are swept out
}

// minSweepAt is the least number of texts at which a sweep is worth its time.
const minSweepAt = 1000

// entry makes the entry of a record. It shares the text with all others that have it.
func (in *interner) entry(origin robots.Origin, rec store.Record) *entry {
	e := &entry{origin: origin, rec: rec, parsed: in.parse(rec)}
	if e.parsed != nil {
		e.rec.Body, e.rec.SHA256 = e.parsed.text, e.parsed.sha256
	}
	return e
}

// parse returns the parsed text of a record; nil if it has none.
func (in *interner) parse(rec store.Record) *parsedText {
	if rec.SHA256 == "" {
		return nil
	}
	if known := in.find(rec.SHA256); known.is(rec.Body) {
		return known
	}
	return in.add(&parsedText{rec.Body, rec.SHA256, robots.Parse(rec.Body)})
}

func (in *interner) find(sha256 string) *parsedText {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.bySHA[sha256].Value()
}

// add returns p, or the copy of the same text that was added while p was being parsed.
func (in *interner) add(p *parsedText) *parsedText {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch other := in.bySHA[p.sha256].Value(); {
	case other.is(p.text):
		return other
	case other == nil:
		in.sweep()
		in.bySHA[p.sha256] = weak.Make(p)
	}
	return p
}

// sweep makes room for another text. It makes a new map, since a map never shrinks.
func (in *interner) sweep() {
	if len(in.bySHA) < in.sweepAt {
		return
	}
	live := make(map[string]weak.Pointer[parsedText], len(in.bySHA)/2)
	for sha256, p := range in.bySHA {
		if p.Value() != nil {
			live[sha256] = p
		}
	}
	in.bySHA, in.sweepAt = live, max(2*len(live), minSweepAt)
}

// is reports whether p, which may be nil, is that very text. Its hash is not enough:
// whoever writes into a shared store may say anything of one origin, but must not change
// another by writing the hash of its text.
func (p *parsedText) is(text []byte) bool { return p != nil && bytes.Equal(p.text, text) }
