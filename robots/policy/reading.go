package policy

import (
	"bytes"
	"sync"
	"weak"

	"robotsproxy/robots"
	"robotsproxy/robots/store"
)

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
