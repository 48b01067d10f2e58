// Package memory holds parsed policies in memory. A [Memory] is a bounded cache of entries,
// [Texts] make entries that share the text that many origins serve, and an [Entry] answers
// for the file of its [Key] at any time.
package memory

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
	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
	"robotsproxy/robots/tdmrep"
)

// A Memory is a bounded cache in front of the store. It may drop an entry at any time, or
// refuse to take it. It is safe for concurrent use, and after Close too: it is empty then.
type Memory struct {
	seeds  [policy.KindCount]maphash.Seed
	counts [policy.KindCount]atomic.Int64

	// ristretto must not be used while it is being closed.
	mu     sync.RWMutex
	closed bool
	cache  *ristretto.Cache[uint64, *Entry]
}

// New returns a memory whose entries may take so much of the process's memory, in bytes.
// Callers must call Close.
func New(ceiling int64) (*Memory, error) {
	ceiling = max(ceiling, 1)
	m := new(Memory)
	for kind := range m.seeds {
		m.seeds[kind] = maphash.MakeSeed()
	}
	var err error
	m.cache, err = ristretto.NewCache(&ristretto.Config[uint64, *Entry]{
		// ristretto advises ten counters for each entry that fits. They cost about
		// three bytes each from the start, however few entries there are.
		NumCounters: min(max(ceiling/(2*entryOverhead)*10, 1000), 10_000_000),
		MaxCost:     ceiling,
		BufferItems: 64,
		OnExit: func(e *Entry) {
			if e != nil {
				m.counts[e.Kind].Add(-1)
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

// A Key is what one entry is about: a file of an origin.
type Key struct {
	Origin robots.Origin
	Kind   policy.Kind
}

// String is what store.Record has as its Origin.
func (k Key) String() string {
	if k.Kind == policy.RobotsTxt {
		return k.Origin.String()
	}
	return robots.Target{Origin: k.Origin, Path: k.Kind.Path()}.String()
}

func (m *Memory) hash(key Key) uint64 { return maphash.Comparable(m.seeds[key.Kind], key.Origin) }

// Get returns the entry of a key, or nil if it is not held. Two keys with one hash displace
// each other.
func (m *Memory) Get(key Key) *Entry {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil
	}
	e, ok := m.cache.Get(m.hash(key))
	if !ok || e.Key != key {
		return nil
	}
	return e
}

// Set has the memory hold an entry in place of its key's last one.
func (m *Memory) Set(e *Entry) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.closed && m.cache.Set(m.hash(e.Key), e, e.cost()) {
		m.counts[e.Kind].Add(1)
	}
}

// Count returns how many entries of a kind are held.
func (m *Memory) Count(kind policy.Kind) int64 { return m.counts[kind].Load() }

// Remove returns once Get no longer finds an entry of the key that was set before.
func (m *Memory) Remove(key Key) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.closed {
		m.cache.Del(m.hash(key))
		m.cache.Wait() // for an entry that the cache is still about to take
	}
}

// Close drops all entries.
func (m *Memory) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed = true
		m.cache.Close()
	}
}

// An Entry is the record of a file with its text parsed. It does not change. One that
// [Texts] have not made has a policy without rules, as for a list.
type Entry struct {
	Key
	Record store.Record
	parsed *parsedText // nil if the last answer was no text, or if it is listed without its text

	cached atomic.Pointer[cachedAssessment] // nil until there is one that holds for a while
}

// A cachedAssessment holds for a while with the same options.
type cachedAssessment struct {
	policy.Assessment
	opts *policy.Options
}

// Assess is [policy.Options.Assess] by the options for the entry's kind, with the origin and
// its rules. Every request calls it, so it caches an assessment that holds for a while. opts
// must not change.
func (e *Entry) Assess(opts *policy.Options, now time.Time) *policy.Assessment {
	now = now.Round(0) // wall time, as in Options.Assess
	if c := e.cached.Load(); c != nil && c.opts == opts && now.Before(c.Until) && !now.Before(c.Policy.FetchedAt) {
		return &c.Assessment
	}
	return e.assessAnew(opts, now)
}

func (e *Entry) assessAnew(opts *policy.Options, now time.Time) *policy.Assessment {
	c := &cachedAssessment{opts.For(e.Kind).Assess(e.Record, now), opts}
	c.Policy.Origin = e.Origin
	if c.Policy.Outcome == policy.Rules && e.parsed != nil {
		c.Policy.File, c.Policy.TDMRep = e.parsed.robots, e.parsed.tdmrep
	}
	if !c.Until.IsZero() {
		e.cached.Store(c)
	}
	return &c.Assessment
}

// entryOverhead is roughly what an entry costs besides its text and its rules: the
// structs with their strings, and what the cache itself needs.
const entryOverhead = 1024

// cost is twice the size of the entry: the garbage collector lets the heap grow to about
// twice what is in use, and the ceiling is the process's. A parsed text counts in full with
// each entry that shares it, since any of them may be the last to hold it.
func (e *Entry) cost() int64 {
	size := int64(entryOverhead + cap(e.Record.Body))
	if e.parsed != nil {
		size += e.parsed.size()
	}
	return 2 * size
}

// A parsedText is a text with its parsed form, by its kind. It does not change.
type parsedText struct {
	textID
	text   []byte
	robots *robots.File
	tdmrep *tdmrep.File
}

// A textID tells texts apart: what is one text as a robots.txt is another as a tdmrep.json.
type textID struct {
	kind   policy.Kind
	sha256 string // of the text, as the record has it
}

func parse(id textID, text []byte) *parsedText {
	p := &parsedText{textID: id, text: text}
	switch id.kind {
	case policy.RobotsTxt:
		p.robots = robots.Parse(text)
	case policy.TDMRep:
		p.tdmrep = tdmrep.Parse(text)
	}
	return p
}

func (p *parsedText) size() int64 {
	if p.tdmrep != nil {
		return p.tdmrep.Size()
	}
	return p.robots.Size()
}

// Texts know each parsed text that an entry holds, so that many origins that serve the same
// one, as the sites of a platform do, share one copy. They keep no text alive: a text goes
// with the last entry that holds it. The zero value is ready to use. Texts are safe for
// concurrent use.
type Texts struct {
	mu      sync.Mutex
	byID    map[textID]weak.Pointer[parsedText]
	sweepAt int // the number of texts at which those that are gone are swept out
}

// minSweepAt is the least number of texts that makes a sweep worth its time.
const minSweepAt = 1000

// Entry makes the entry of a record. It shares the text with all others that have it.
func (t *Texts) Entry(key Key, rec store.Record) *Entry {
	e := &Entry{Key: key, Record: rec, parsed: t.parse(key.Kind, rec)}
	if e.parsed != nil {
		e.Record.Body, e.Record.SHA256 = e.parsed.text, e.parsed.sha256
	}
	return e
}

// parse returns the parsed text of a record; nil if it has none.
func (t *Texts) parse(kind policy.Kind, rec store.Record) *parsedText {
	if rec.SHA256 == "" {
		return nil
	}
	id := textID{kind, rec.SHA256}
	if known := t.find(id); known.is(rec.Body) {
		return known
	}
	return t.add(parse(id, rec.Body))
}

func (t *Texts) find(id textID) *parsedText {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id].Value()
}

// add returns p, or the copy of the same text that was added while p was being parsed.
func (t *Texts) add(p *parsedText) *parsedText {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch other := t.byID[p.textID].Value(); {
	case other.is(p.text):
		return other
	case other == nil:
		t.sweep()
		t.byID[p.textID] = weak.Make(p)
	}
	return p
}

// sweep makes room for another text. It makes a new map, since a map never shrinks.
func (t *Texts) sweep() {
	if len(t.byID) < t.sweepAt {
		return
	}
	live := make(map[textID]weak.Pointer[parsedText], len(t.byID)/2)
	for id, p := range t.byID {
		if p.Value() != nil {
			live[id] = p
		}
	}
	t.byID, t.sweepAt = live, max(2*len(live), minSweepAt)
}

// is reports whether p, which may be nil, is that very text. Its hash is not enough: whoever
// writes into a shared store may say anything about one origin, but must not change another
// by writing the hash of its text.
func (p *parsedText) is(text []byte) bool { return p != nil && bytes.Equal(p.text, text) }
