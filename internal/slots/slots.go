// Package slots bounds how many connections are open at once, and closes idle ones to make
// room for new ones.
package slots

import (
	"sync"
	"sync/atomic"

	"robotsproxy/internal/shortage"
)

// maxReserve is how many descriptors the connections to clients and origins leave at most
// to all else: the admin server, the store, the resolver, the log.
const maxReserve = 256

// ForFiles is how many connections to clients and origins there may be at once in a process
// that may open so many files. Of few files, half are left to all else.
func ForFiles(files int64) int64 { return files - min(files/2, maxReserve) }

// OfDescriptors are slots by the process's limit on open files, unbounded if the system
// tells none.
func OfDescriptors() *Slots { return &Slots{Max: ForFiles(shortage.Descriptors())} }

// Slots are for connections, of which only Max may be open at once. Callers must give
// back each slot that they take. Where none is free, idle connections give way. The zero
// value has no bound. Slots are safe for concurrent use; set the fields before.
type Slots struct {
	// Max is how many there are; 0 means no bound.
	Max int64
	// MakeRoom closes idle connections; each function is tried if those before it have
	// not made enough room.
	MakeRoom []func()
	// Reached is called each time that no slot is free. first is true if half of the slots
	// have been free since the last call. nil is allowed.
	Reached func(max int64, first bool)

	taken atomic.Int64
	full  atomic.Bool // max has been reached, and half of it not been free since

	mu      sync.Mutex
	waited  atomic.Bool   // there is changed
	changed chan struct{} // closed when there may be room; nil: nobody waits
}

// Take takes a slot and reports whether one was free or became so.
func (s *Slots) Take() bool {
	if s.takeFree() {
		return true
	}
	s.isFull()
	return s.takeIdle()
}

// Wait takes a slot as soon as one is free. It returns false if ended is closed before.
func (s *Slots) Wait(ended <-chan struct{}) bool {
	if s.Take() {
		return true
	}
	for {
		changed := s.change()
		if s.takeFree() || s.takeIdle() {
			return true
		}
		select {
		case <-changed:
		case <-ended:
			return false
		}
	}
}

func (s *Slots) takeFree() bool {
	for {
		n := s.taken.Load()
		if s.Max > 0 && n >= s.Max {
			return false
		}
		if s.taken.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// takeIdle takes the slot of a connection that is idle.
func (s *Slots) takeIdle() bool {
	for _, makeRoom := range s.MakeRoom {
		if makeRoom(); s.takeFree() {
			return true
		}
	}
	return false
}

// Exhausted closes idle connections of all kinds. Call it where the system has no room
// although a slot was free.
func (s *Slots) Exhausted() {
	s.isFull()
	for _, makeRoom := range s.MakeRoom {
		makeRoom()
	}
}

// isFull tells that no slot is free.
func (s *Slots) isFull() {
	first := s.full.CompareAndSwap(false, true)
	if s.Reached != nil {
		s.Reached(s.Max, first)
	}
}

// Give gives a slot back.
func (s *Slots) Give() {
	if s.taken.Add(-1) <= s.Max/2 && s.full.Load() {
		s.full.Store(false)
	}
	s.LookAgain()
}

// LookAgain has those who wait look for room again, as a connection has become idle.
func (s *Slots) LookAgain() {
	if !s.waited.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
		s.waited.Store(false)
	}
}

// change is closed when there may be room. Callers must look for room again before they
// Wait for it.
func (s *Slots) change() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
		s.waited.Store(true)
	}
	return s.changed
}
