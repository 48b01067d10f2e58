package policy

import (
	"bytes"
	"runtime"
	"sync"
	"weak"

	"robotsproxy/robots"
	"robotsproxy/robots/store"
)

// A reading is a robots.txt and what it says. It does not change.
type reading struct {
	text   []byte
	sha256 string // of the text, in hex
	file   *robots.File
}

// readings has a text that many origins serve, as those of one platform do, read and
// in memory once. It keeps none alive: a reading goes with the last entry that has it.
type readings struct {
	mu   sync.Mutex
	held map[string]weak.Pointer[reading] // by the text's SHA-256
}

func newReadings() *readings { return &readings{held: map[string]weak.Pointer[reading]{}} }

// of returns the reading of a record's text; nil if it has none.
func (rs *readings) of(rec store.Record) *reading {
	if rec.SHA256 == "" {
		return nil
	}
	if r := rs.find(rec); r != nil {
		return r
	}
	r := &reading{rec.Body, rec.SHA256, robots.Parse(rec.Body)} // other texts need not wait for that
	rs.mu.Lock()
	defer rs.mu.Unlock()
	switch held := rs.held[rec.SHA256].Value(); {
	case held == nil:
		rs.held[rec.SHA256] = weak.Make(r)
		runtime.AddCleanup(r, rs.forget, rec.SHA256)
	case held.is(rec):
		return held // another flight was faster
	}
	return r
}

func (rs *readings) find(rec store.Record) *reading {
	rs.mu.Lock()
	held := rs.held[rec.SHA256].Value()
	rs.mu.Unlock()
	if held == nil || !held.is(rec) {
		return nil
	}
	return held
}

// is reports whether it is the record's text that was read. A store that others
// write may say anything of one origin, but nothing of another by a wrong hash.
func (r *reading) is(rec store.Record) bool { return bytes.Equal(r.text, rec.Body) }

func (rs *readings) forget(sha256 string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.held[sha256].Value() == nil { // else the text has been read again
		delete(rs.held, sha256)
	}
}
