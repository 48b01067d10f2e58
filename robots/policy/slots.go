package policy

import (
	"context"
	"net/netip"
	"slices"
	"sync"
)

// A party has one turn at a time for a slot: the requests of one identity from one
// address. Nothing that clients choose freely tells parties apart, or a client could
// take as many turns as it wants.
type party struct {
	client   netip.Prefix
	identity string
}

// party is the sender's party. An IPv6 client counts by its /64, since it may use all
// of that.
func (s *Sender) party() party {
	addr := s.Client.Unmap()
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	client, _ := addr.Prefix(bits) // of the zero Addr: the zero Prefix
	return party{client, s.Identity}
}

// slots bound how many fetches run at once. A slot that becomes free goes to the
// waiting parties in turn, so that a bot with thousands of new or dead origins does not
// make the others wait for all of them. Within a party it is first come, first served.
type slots struct {
	mu      sync.Mutex
	max     int
	free    int                       // at most 0 while anyone waits; negative while more than max are in use
	turns   []party                   // those that wait, the next one first
	waiting map[party][]chan struct{} // closed when a slot is granted
}

func newSlots(n int) *slots {
	return &slots{max: n, free: n, waiting: make(map[party][]chan struct{})}
}

// acquire waits for a slot, which the caller must release. The error is that of ctx, or
// errUnwanted if unwanted ends first.
func (s *slots) acquire(ctx, unwanted context.Context, by party) error {
	granted, ok := s.acquireOrQueue(by)
	if ok {
		return nil
	}
	var err error
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-unwanted.Done():
		err = errUnwanted
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting[by], granted)
	if i < 0 {
		s.handOver() // it was granted meanwhile
	} else if s.waiting[by] = slices.Delete(s.waiting[by], i, i+1); len(s.waiting[by]) == 0 {
		delete(s.waiting, by)
		s.turns = slices.DeleteFunc(s.turns, func(other party) bool { return other == by })
	}
	return err
}

// acquireOrQueue takes a slot if one is free; else it queues, and granted is closed when
// the party has a slot.
func (s *slots) acquireOrQueue(by party) (granted chan struct{}, ok bool) {
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

func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handOver()
}

// resize changes how many slots there are. Those in use stay so.
func (s *slots) resize(n int) {
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
func (s *slots) handOver() {
	if s.free < 0 || len(s.turns) == 0 {
		s.free++
		return
	}
	s.grant()
}

// grant gives a slot to the party whose turn it is. The caller holds the lock.
func (s *slots) grant() {
	by := s.turns[0]
	s.turns = s.turns[1:]
	close(s.waiting[by][0])
	if s.waiting[by] = s.waiting[by][1:]; len(s.waiting[by]) == 0 {
		delete(s.waiting, by)
	} else {
		s.turns = append(s.turns, by)
	}
}
