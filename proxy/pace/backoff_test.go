package pace

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"robotsproxy/proxy/pace/fleet"
)

// backingOff sets pauses of a minute, two and four after so many failures.
func backingOff(after int) func(*Options) {
	return func(o *Options) { o.BackOff = BackOff{after, time.Minute, 4 * time.Minute} }
}

// try makes a request wait for its turn and then end as report says, at once. It returns when it
// was answered, or the error of a request that was not started.
func (s *stand) try(r Request, report func(Permit)) (time.Duration, *Late) {
	s.t.Helper()
	permit, err := s.Wait(context.Background(), r)
	if late, ok := errors.AsType[*Late](err); ok {
		return 0, late
	} else if err != nil {
		s.t.Fatal(err)
	}
	report(permit)
	permit.Release()
	return time.Since(s.begun), nil
}

// wantPause checks that a pause of half the length to the whole length begins now.
func (s *stand) wantPause(r Request, length time.Duration) {
	s.t.Helper()
	hold := s.Held(r)
	if hold == nil {
		s.t.Fatalf("there is no pause of %v", length)
	}
	if left := time.Until(hold.Until); hold.By != ByBackOff || left < length/2 || left > length {
		s.t.Fatalf("held for %v by %s, want a pause of %v", left, hold.By, length)
	}
}

// The pauses double up to the longest. The first success ends them.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, backingOff(3))
		r := of(0)
		other := r
		other.Identity = "images"
		for range 2 {
			s.try(r, Permit.Failed)
			s.try(r, Permit.Failed)
			s.try(r, Permit.Succeeded)
		}
		for range 2 {
			if at, _ := s.try(r, Permit.Failed); at != 0 {
				t.Fatalf("a request waited until %v", at)
			}
		}
		for _, minutes := range []time.Duration{1, 2, 4, 4} {
			before := time.Now()
			s.try(r, Permit.Failed) // of the second one on, it is the probe after the pause
			s.wantPause(r, minutes*time.Minute)
			if minutes == 1 && time.Since(before) > 0 {
				t.Error("the third failure waited")
			}
			if at, _ := s.try(other, Permit.Succeeded); at != time.Since(s.begun) {
				t.Error("another identity is held")
			}
		}
		s.try(r, Permit.Succeeded)
		if s.Held(r) != nil {
			t.Error("a success does not end the pauses")
		}
		s.try(r, Permit.Failed)
		s.try(r, Permit.Failed)
		if s.Held(r) != nil {
			t.Error("the failures before the success count still")
		}
		s.try(r, Permit.Failed)
		s.wantPause(r, time.Minute)
		s.wantStarts()
	})
}

// After a pause, one request tries. The others wait for what comes of it, or until they have
// waited for too long.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, func(o *Options) {
			backingOff(1)(o)
			o.MaxWait = 10 * time.Minute
		})
		r := of(0)
		s.try(r, Permit.Failed)
		permits := make(chan Permit, 10)
		var late []*Late
		for i := range 5 {
			go func() {
				r := r
				r.Group = fmt.Sprint(i % 2)
				permit, err := s.Wait(context.Background(), r)
				if l, ok := errors.AsType[*Late](err); ok {
					late = append(late, l)
					return
				}
				permits <- permit
			}()
			synctest.Wait()
		}
		want := func(n int) {
			t.Helper()
			synctest.Wait()
			if len(permits) != n {
				t.Fatalf("%d requests try, want %d", len(permits), n)
			}
		}
		time.Sleep(time.Minute)
		want(1)
		(<-permits).Release() // its client has left
		want(1)
		probe := <-permits
		probe.Failed()
		probe.Release()
		s.wantPause(r, 2*time.Minute)
		want(0)
		time.Sleep(2 * time.Minute)
		want(1)
		probe = <-permits
		time.Sleep(fleet.ProbeLease / 3)
		want(0)
		probe.Succeeded()
		want(2) // while its body is read
		probe.Release()
		for range 2 {
			permit := <-permits
			permit.Failed()
			permit.Release()
		}
		if len(late) > 0 {
			t.Errorf("late are %v", late)
		}
		s.wantPause(r, time.Minute)
		s.wantStarts()
	})
}

// The outcomes of requests that started before a pause began or ended change nothing.
func TestOutcomesFromBeforeThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, backingOff(2))
		r := of(0)
		var before [6]Permit
		for i := range before {
			before[i], _ = s.Wait(context.Background(), r)
		}
		before[0].Failed()
		before[1].Failed()
		s.wantPause(r, time.Minute)
		until := s.Held(r).Until
		before[2].Failed()
		before[3].Succeeded()
		if hold := s.Held(r); hold == nil || hold.Until != until {
			t.Errorf("the pause is %v", hold)
		}
		s.try(r, Permit.Succeeded)
		before[4].Failed()
		before[5].Failed()
		if hold := s.Held(r); hold != nil {
			t.Errorf("a new pause: %v", hold)
		}
		for _, permit := range before {
			permit.Release()
		}
		s.wantStarts()
	})
}

// A Retry-After that is longer than a pause counts, and a pause that is longer than a
// Retry-After.
func TestBackOffAndRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, backingOff(1))
		r := of(0)
		for by, length := range map[Holder]time.Duration{ByRetryAfter: 3 * time.Hour, ByBackOff: second} {
			s.try(r, func(p Permit) {
				s.Hold(r, length)
				p.Failed()
			})
			if hold := s.Held(r); hold == nil || hold.By != by || time.Until(hold.Until) < min(length, 30*second) {
				t.Errorf("held by %v", hold)
			}
			time.Sleep(3 * time.Hour)
			s.try(r, Permit.Succeeded)
		}
		s.wantStarts()
	})
}

// A row of failures is forgotten when none has come for as long as the longest pause.
func TestFailuresAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, backingOff(2))
		r := of(0)
		s.try(r, Permit.Failed)
		time.Sleep(4 * time.Minute)
		s.try(r, Permit.Failed)
		if s.Held(r) != nil {
			t.Error("two failures far apart begin a pause")
		}
		s.try(r, Permit.Failed)
		s.wantPause(r, time.Minute)
		s.wantStarts()
	})
}

func TestBackOffTurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, backingOff(1))
		r := of(0)
		s.try(r, Permit.Failed)
		time.Sleep(time.Minute)
		probe, _ := s.Wait(context.Background(), r)
		s.ask("waits for the probe", r, 0)
		elsewhere := r
		elsewhere.Origin = "http://example.com"
		s.try(elsewhere, Permit.Failed)
		s.ask("held", elsewhere, 0)
		s.SetOptions(Defaults())
		synctest.Wait()
		probe.Failed()
		probe.Release()
		s.wantStarts(start{"held", time.Minute}, start{"waits for the probe", time.Minute})
	})
}

// The memory for failures is bounded. A site that is forgotten is held no longer.
func TestManySitesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, backingOff(1))
		r := of(0)
		const most = 100_000
		for i := range most + 10 {
			r.Origin = fmt.Sprintf("https://%d.example", i)
			s.try(r, Permit.Failed)
		}
		s.Pacer.mu.Lock()
		if sites := len(s.sites); sites != most {
			t.Errorf("%d sites are known", sites)
		}
		s.Pacer.mu.Unlock()
		r.Origin = "https://3.example"
		if at, _ := s.try(r, Permit.Succeeded); at != 0 {
			t.Errorf("one that was forgotten is held until %v", at)
		}
		s.wantStarts()
	})
}

// A probe that takes too long, since its client sends slowly, holds up nobody any longer. Who can't
// wait for that is told what the wait is for.
func TestSlowProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, backingOff(1))
		patient := *s.opts.Load()
		patient.MaxWait = 10 * time.Minute
		hasty := patient
		hasty.MaxWait = time.Minute
		s.SetOptions(patient)
		r := of(0)
		s.try(r, Permit.Failed)
		slow, err := s.Wait(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		s.SetOptions(hasty)
		_, err = s.Wait(context.Background(), r)
		if late, ok := errors.AsType[*Late](err); !ok || late.cause != probing || time.Since(begun) != time.Minute {
			t.Errorf("who waits for a minute gets %v after %v", err, time.Since(begun))
		}
		s.SetOptions(patient)
		next, err := s.Wait(context.Background(), r)
		if waited := time.Since(begun); err != nil || waited != fleet.ProbeLease {
			t.Errorf("the next request tries after %v, error %v", waited, err)
		}
		slow.Succeeded()
		next.Succeeded()
		slow.Release()
		next.Release()
	})
}
