package slots

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

func TestSlotsTellOnceThatTheyAreTaken(t *testing.T) {
	var told []bool
	p := &Slots{Max: 4, Reached: func(_ int64, first bool) { told = append(told, first) }}
	for range 6 {
		p.Take()
	}
	p.Give()
	for range 2 {
		p.Take()
	}
	for range 2 {
		p.Give() // half of them are free
	}
	for range 3 {
		p.Take()
	}
	if want := []bool{true, false, false, true}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	if n := p.taken.Load(); n != 4 {
		t.Errorf("%d are taken", n)
	}
}

// Those who take a slot as soon as one is free never are more than there are slots,
// and none of them is forgotten.
func TestWaitingForSlots(t *testing.T) {
	const max, many = 3, 100
	p := &Slots{Max: max}
	var now atomic.Int64
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			if !p.Wait(nil) || now.Add(1) > max {
				t.Error("no place, or one too many")
			}
			runtime.Gosched()
			now.Add(-1)
			p.Give()
		})
	}
	all.Wait()
	ended := make(chan struct{})
	for range max {
		p.Take()
	}
	close(ended)
	if p.Wait(ended) {
		t.Error("a place that there was not")
	}
}
