package pace

import (
	"testing"
	"testing/synctest"
	"time"
)

// As many requests start in a day as may. The next one starts when the hour of the first one is
// a day ago.
func TestMaxPerDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		s := newStand(t, func(o *Options) { o.MaxPerDay, o.MaxWait = 3, time.Hour })
		r := of(0)
		time.Sleep(30 * time.Minute)
		s.try(r, Permit.Failed) // counts too
		time.Sleep(time.Hour)
		s.try(r, Permit.Succeeded)
		other := r
		other.Identity = "images"
		other.Group = "other"
		for range 3 {
			s.try(other, Permit.Succeeded)
		}
		if s.Held(r) != nil {
			t.Error("held before all have started")
		}
		s.try(r, Permit.Succeeded)
		_, late := s.try(r, Permit.Succeeded)
		if want := 23*time.Hour + 30*time.Minute; late == nil || late.Wait != want || late.cause != dayOver {
			t.Fatalf("the fourth: %+v, want to wait %v", late, want)
		}
		if hold := s.Held(r); hold == nil || hold.By != ByMaxPerDay || hold.Until.Sub(s.begun) != 25*time.Hour {
			t.Errorf("held by %v", hold)
		}
		time.Sleep(23 * time.Hour)
		for i, want := range []time.Duration{25 * time.Hour, 26 * time.Hour, 26 * time.Hour} {
			for {
				at, late := s.try(r, Permit.Succeeded)
				if late != nil {
					time.Sleep(late.Wait)
					continue
				}
				if at != want {
					t.Errorf("number %d of the next day starts at %v, want %v", i+1, at, want)
				}
				break
			}
		}
		time.Sleep(25 * time.Hour)
		s.wantNothingKnown()
	})
}

// A reload with a larger number, or none, lets held requests go on.
func TestMaxPerDayChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, func(o *Options) { o.MaxPerDay, o.MaxWait = 1, 48*time.Hour })
		for _, who := range []string{"a", "b", "c", "d"} {
			s.ask(who, of(0), 0)
		}
		time.Sleep(second)
		opts := *s.opts.Load()
		opts.MaxPerDay = 2
		s.SetOptions(opts)
		synctest.Wait()
		time.Sleep(second)
		s.SetOptions(Defaults())
		s.wantStarts(start{"a", 0}, start{"b", second}, start{"c", 2 * second}, start{"d", 2 * second})
	})
}
