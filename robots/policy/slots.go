package policy

import (
	"context"
	"net/netip"
	"slices"
	"sync"
)

// A party is who has one turn at a time for places: the requests of one identity from
// one address. Nothing that clients choose freely tells parties apart, or one of them
// could have as many turns as it wants.
type party struct {
	client   netip.Prefix
	identity string
}

// party is that of a sender. An IPv6 client counts by its /64, all of which is its own.
func (s *Sender) party() party {
	addr := s.Client.Unmap()
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	client, _ := addr.Prefix(bits) // of no client, the zero Prefix
	return party{client, s.Identity}
}

// places bound how many fetches are under way. Each that becomes free goes to
// another of the parties that wait, in turn, so that a bot with thousands of new
// origins, or of dead ones, does not have the others wait for all of them. The
// fetches of one party are first come, first served.
type places struct {
	mu      sync.Mutex
	max     int
	free    int                       // not above 0 while anyone waits; below it while too many are taken
	turns   []party                   // those who wait, the next one in front
	waiting map[party][]chan struct{} // closed when there is a place
}

func newPlaces(n int) *places {
	return &places{max: n, free: n, waiting: make(map[party][]chan struct{})}
}

// enter takes a place, which leave gives back. The error is that of ctx, or
// errUnwanted if that has ended before there was a place.
func (p *places) enter(ctx, unwanted context.Context, by party) error {
	turn, ok := p.queue(by)
	if ok {
		return nil
	}
	var err error
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-unwanted.Done():
		err = errUnwanted
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting[by], turn)
	if i < 0 {
		p.pass() // it has come meanwhile
	} else if p.waiting[by] = slices.Delete(p.waiting[by], i, i+1); len(p.waiting[by]) == 0 {
		delete(p.waiting, by)
		p.turns = slices.DeleteFunc(p.turns, func(other party) bool { return other == by })
	}
	return err
}

// queue takes a place if one is free, or else a turn.
func (p *places) queue(by party) (turn chan struct{}, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free > 0 {
		p.free--
		return nil, true
	}
	turn = make(chan struct{})
	if len(p.waiting[by]) == 0 {
		p.turns = append(p.turns, by)
	}
	p.waiting[by] = append(p.waiting[by], turn)
	return turn, false
}

func (p *places) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pass()
}

// resize changes how many places there are. Those that are taken stay so.
func (p *places) resize(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += n - p.max
	p.max = n
	for p.free > 0 && len(p.turns) > 0 {
		p.free--
		p.next()
	}
}

// pass gives a place back, or to whose turn it is. The caller holds the lock.
func (p *places) pass() {
	if p.free < 0 || len(p.turns) == 0 {
		p.free++
		return
	}
	p.next()
}

// next gives a place to whose turn it is.
func (p *places) next() {
	by := p.turns[0]
	p.turns = p.turns[1:]
	close(p.waiting[by][0])
	if p.waiting[by] = p.waiting[by][1:]; len(p.waiting[by]) == 0 {
		delete(p.waiting, by)
	} else {
		p.turns = append(p.turns, by)
	}
}
