// Package fair shares a bounded number of slots among parties, so that one with thousands
// of waiters does not make the others wait for all of them.
package fair

import (
	"context"
	"net/netip"
	"slices"
	"sync"
)

// Slots bound how much is done at once. A slot that becomes free goes to the waiting
// parties in turn. Within a party it is first come, first served. Slots are safe for
// concurrent use. Nothing that clients choose freely may tell parties apart, or a client
// could take as many turns as it wants.
type Slots[Party comparable] struct {
	mu      sync.Mutex
	max     int
	free    int                       // at most 0 while anyone waits; negative while more than max are in use
	turns   []Party                   // those that wait, the next one first
	waiting map[Party][]chan struct{} // closed when a slot is granted
}

// New returns n slots.
func New[Party comparable](n int) *Slots[Party] {
	return &Slots[Party]{max: n, free: n, waiting: make(map[Party][]chan struct{})}
}

// Acquire waits for a slot. The caller must release it, unless there is an error, which is
// the cause of ctx's end.
func (s *Slots[Party]) Acquire(ctx context.Context, by Party) error {
	granted, ok := s.acquireOrQueue(by)
	if ok {
		return nil
	}
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
		s.leave(by, granted)
		return context.Cause(ctx)
	}
}

// acquireOrQueue takes a slot if one is free. If not, it queues, and granted is closed when
// the party has a slot.
func (s *Slots[Party]) acquireOrQueue(by Party) (granted chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free > 0 {
		s.free--
		return nil, true
	}
	granted = make(chan struct{})
	if len(s.waiting[by]) == 0 {
		s.turns = append(s.turns, by)
	}
	s.waiting[by] = append(s.waiting[by], granted)
	return granted, false
}

// leave takes a waiter out of the queue, or passes on the slot that it has been granted.
func (s *Slots[Party]) leave(by Party, granted chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting[by], granted)
	if i < 0 {
		s.handOver()
	} else if s.waiting[by] = slices.Delete(s.waiting[by], i, i+1); len(s.waiting[by]) == 0 {
		delete(s.waiting, by)
		s.turns = slices.DeleteFunc(s.turns, func(other Party) bool { return other == by })
	}
}

// Release gives back a slot that Acquire has taken.
func (s *Slots[Party]) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handOver()
}

// Resize changes how many slots there are. Those in use stay so.
func (s *Slots[Party]) Resize(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += n - s.max
	s.max = n
	for s.free > 0 && len(s.turns) > 0 {
		s.free--
		s.grant()
	}
}

// handOver passes a slot on to the next party, or frees it. The caller holds the lock.
func (s *Slots[Party]) handOver() {
	if s.free < 0 || len(s.turns) == 0 {
		s.free++
		return
	}
	s.grant()
}

// grant gives a slot to the party whose turn it is. The caller holds the lock.
func (s *Slots[Party]) grant() {
	by := s.turns[0]
	s.turns = s.turns[1:]
	close(s.waiting[by][0])
	if s.waiting[by] = s.waiting[by][1:]; len(s.waiting[by]) == 0 {
		delete(s.waiting, by)
	} else {
		s.turns = append(s.turns, by)
	}
}

// Client tells clients apart by their addresses. IPv6 clients of one /64 are one, since a
// client that has one address has all of its /64. The zero Addr gives the zero Prefix.
func Client(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap()
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	client, _ := addr.Prefix(bits)
	return client
}
