package pace

import (
	"testing"
	"testing/synctest"
	"time"
)

// The list has what is held, and what waits for its turn, those first that wait longest.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, func(o *Options) { o.MinDelay, o.MaxWait = 10*time.Second, time.Minute })
		held, spaced, free := of(0), of(0), of(0)
		held.Origin, spaced.Origin, free.Origin = "https://held.example", "https://spaced.example", "https://free.example"
		s.Hold(held, time.Hour)
		s.try(free, Permit.Succeeded)
		for range 3 {
			s.ask("spaced", spaced, 0)
		}
		now := time.Now()
		waits, all := s.Waits(10)
		want := []Wait{
			{Origin: held.Origin, Identity: held.Identity, Until: now.Add(time.Hour).UTC(), By: ByRetryAfter},
			{Origin: spaced.Origin, Identity: spaced.Identity, Until: now.Add(10 * time.Second).UTC(), By: ByDelay, Waiting: 2,
				Delay: 10, NextTurn: now.Add(10 * time.Second).UTC(), LastTurn: now.Add(20 * time.Second).UTC()},
		}
		if all != 2 || len(waits) != 2 || waits[0] != want[0] || waits[1] != want[1] {
			t.Errorf("got %+v of %d, want %+v", waits, all, want)
		}
		if waits, all := s.Waits(1); all != 2 || len(waits) != 1 || waits[0] != want[0] {
			t.Errorf("limited: %+v of %d", waits, all)
		}
		time.Sleep(2 * time.Hour)
		if waits, all := s.Waits(10); all != 0 || len(waits) != 0 {
			t.Errorf("later: %+v of %d", waits, all)
		}
	})
}
