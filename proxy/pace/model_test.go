package pace

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"robotsproxy/proxy/pace/fleet"
)

// visit is a request of the model, with all that it learned.
type visit struct {
	lane       string // what it takes turns with
	site       string
	delay      time.Duration
	start, end time.Duration
	failed     bool
	reported   time.Duration // when its outcome was reported; negative: never
}

// FuzzPacer has bots ask sites that fail at times, for days, under many options. Whatever
// happens, no two starts are nearer than the delay of the first, no day has too many, nothing
// starts in a pause, and after one, one request at a time tries.
func FuzzPacer(f *testing.F) {
	for seed := range uint64(12) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		pick := func(n int) bool { return random.IntN(n) == 0 }
		upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
		var opts Options
		synctest.Test(t, func(t *testing.T) {
			s := newStand(t, func(o *Options) {
				if o.Scope = PerOrigin; pick(2) {
					o.Scope = PerSite
				}
				if pick(2) {
					o.MinDelay = upTo(time.Minute)
				}
				if pick(2) {
					o.BackOff = BackOff{1 + random.IntN(4), time.Minute + upTo(time.Minute), 10*time.Minute + upTo(time.Hour)}
				}
				if pick(2) {
					o.MaxPerDay = 1 + random.IntN(100)
				}
				if pick(3) {
					o.MaxInFlight = 1 + random.IntN(4)
				}
				o.MaxWait = time.Second + upTo(time.Hour)
				opts = *o
			})
			const length = 60 * time.Hour
			var (
				mu     sync.Mutex
				visits []*visit
				all    sync.WaitGroup
			)
			hosts := []string{"https://example.com", "http://www.example.com", "https://img.example.com:8443", "https://example.org"}
			delays := []time.Duration{0, 5 * second, 40 * second, 20 * second}
			failing := upTo(length)
			for range 1500 {
				host := random.IntN(len(hosts))
				r := Request{Origin: hosts[host], Identity: []string{"a", "b"}[random.IntN(2)], Group: []string{"*", "bot"}[random.IntN(2)], Delay: delays[host], Stated: true}
				at, takes, leaves := upTo(length), upTo(20*time.Second), upTo(24*time.Hour)
				if pick(2) {
					at = at.Truncate(10 * time.Hour) // many at once
				}
				stays, reports, flaky := !pick(10), !pick(20), pick(10)
				all.Go(func() {
					time.Sleep(at)
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					if !stays {
						time.AfterFunc(leaves, cancel)
					}
					permit, err := s.Wait(ctx, r)
					if err != nil {
						return
					}
					v := &visit{delay: opts.delay(&r), start: time.Since(s.begun), reported: -1}
					v.site = r.Identity + " " + r.Origin
					v.lane = v.site + " " + r.Group
					if opts.Scope == PerSite {
						v.site = r.Identity + " " + registrable(r.Origin)
						v.lane = v.site
					}
					mu.Lock()
					visits = append(visits, v)
					mu.Unlock()
					time.Sleep(takes)
					mu.Lock()
					if v.reported = -1; reports {
						v.reported = time.Since(s.begun)
						if v.failed = flaky || v.start > failing && v.start < failing+3*time.Hour; v.failed {
							permit.Failed()
						} else {
							permit.Succeeded()
						}
					}
					mu.Unlock()
					time.Sleep(second)
					v.end = time.Since(s.begun)
					permit.Release()
				})
			}
			all.Wait()
			checkSpacing(t, visits)
			checkDays(t, visits, opts.MaxPerDay)
			checkPauses(t, visits, opts.BackOff)
			if len(visits) < 10 {
				t.Errorf("only %d started", len(visits))
			}
			time.Sleep(26 * time.Hour)
			s.wantNothingKnown()
		})
		if t.Failed() {
			t.Logf("options %+v", opts)
		}
	})
}

func by(visits []*visit, key func(*visit) string) map[string][]*visit {
	slices.SortStableFunc(visits, func(a, b *visit) int { return cmp.Compare(a.start, b.start) })
	sorted := map[string][]*visit{}
	for _, v := range visits {
		sorted[key(v)] = append(sorted[key(v)], v)
	}
	return sorted
}

func checkSpacing(t *testing.T, visits []*visit) {
	for lane, all := range by(visits, func(v *visit) string { return v.lane }) {
		for i, v := range all[1:] {
			// Of requests that start at the same moment, the one with a delay came last.
			if before := all[i]; v.start-before.start < before.delay && (v.start != before.start || v.delay > 0) {
				t.Errorf("%s: %v and %v are nearer than %v", lane, before.start, v.start, before.delay)
			}
		}
	}
}

func checkDays(t *testing.T, visits []*visit, limit int) {
	if limit == 0 {
		return
	}
	for site, all := range by(visits, func(v *visit) string { return v.site }) {
		for i, v := range all {
			if i >= limit && v.start-all[i-limit].start < 24*time.Hour {
				t.Errorf("%s: more than %d start in the day before %v", site, limit, v.start)
			}
		}
	}
}

// checkPauses goes through the outcomes in their order.
func checkPauses(t *testing.T, visits []*visit, b BackOff) {
	if b.After == 0 {
		return
	}
	for site, all := range by(visits, func(v *visit) string { return v.site }) {
		outcomes := slices.DeleteFunc(slices.Clone(all), func(v *visit) bool { return v.reported < 0 })
		slices.SortStableFunc(outcomes, func(a, b *visit) int { return cmp.Compare(a.reported, b.reported) })
		failures, pauses := 0, 0
		epoch, last := time.Duration(-1), time.Duration(-1)
		for i, v := range outcomes {
			if tie := i > 0 && outcomes[i-1].reported == v.reported || i+1 < len(outcomes) && outcomes[i+1].reported == v.reported; tie {
				return // the order is unknown
			}
			if v.start < epoch {
				continue // from before a pause, or before the end of one
			}
			if last >= 0 && v.reported-last > b.Max {
				return // the row may be forgotten
			}
			last = v.reported
			if !v.failed {
				if pauses > 0 {
					epoch = v.reported
				}
				failures, pauses = 0, 0
				continue
			}
			if failures++; pauses == 0 && failures < b.After {
				continue
			}
			least := min(b.Max, b.First<<pauses) / 2
			pauses++
			epoch = v.reported
			var tries []*visit
			for _, other := range all {
				if other.start > v.reported && other.start < v.reported+least {
					t.Errorf("%s: a request starts at %v, in the pause of at least %v from %v on", site, other.start, least, v.reported)
				}
				if other.start >= v.reported+least {
					tries = append(tries, other)
				}
			}
			// Until the probe is over, no other request starts, unless the row is forgotten.
			if len(tries) > 1 && tries[0].start < v.reported+b.Max {
				probe, next := tries[0], tries[1]
				over := probe.end
				if probe.reported >= 0 {
					over = probe.reported
				}
				if next.start < min(over, probe.start+fleet.ProbeLease) {
					t.Errorf("%s: a request starts at %v, while the one from %v to %v tries the site", site, next.start, probe.start, over)
				}
			}
		}
	}
}
