package keeper

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
)

// deadSite never answers for hosts that are dead.
type deadSite struct {
	*site
	dead func(host string) bool
}

func (d deadSite) RoundTrip(req *http.Request) (*http.Response, error) {
	if d.dead(req.URL.Hostname()) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return d.site.RoundTrip(req)
}

// The first requests to 10,000 origins come at once, a tenth of which are dead.
// Then another bot comes, and all come again.
func TestBurst(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const origins = 10_000
		opts := &w.setup.Options
		w.setup.Transport = deadSite{w.site, func(host string) bool { return strings.HasSuffix(host, "7.example") }}
		w.setup.Memory = 64 << 20
		w.store = store.NewMemory(64 << 20)
		w.start()

		begun := time.Now()
		var all sync.WaitGroup
		var mu sync.Mutex
		took := make(map[policy.Outcome][]time.Duration)
		for i := range origins {
			all.Go(func() {
				p, err := w.keeper.Policy(t.Context(), someOrigin(i), Sender{Client: netip.MustParseAddr("192.0.2.1")})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				took[p.Outcome] = append(took[p.Outcome], time.Since(begun))
			})
		}
		synctest.Wait()
		asked := time.Now()
		if p := w.ask(); p.Outcome != policy.Rules { // as ExampleBot
			t.Errorf("got %+v", p)
		}
		if waited := time.Since(asked); waited > 2*w.site.takes {
			t.Errorf("another bot waited for %v", waited)
		}
		all.Wait()

		// Each slot is in use all the time: by a live origin for as long as it takes,
		// and by a dead one for fetch_timeout.
		dead, live := len(took[policy.Unreachable]), len(took[policy.Rules])
		if dead != origins/10 || live != origins-dead {
			t.Errorf("%d dead, %d live", dead, live)
		}
		work := time.Duration(dead)*opts.FetchTimeout + time.Duration(live)*w.site.takes
		if whole, least := time.Since(begun), work/time.Duration(opts.MaxFetches); whole > least+2*opts.FetchTimeout {
			t.Errorf("it took %v, and the slots could do it in %v", whole, least)
		}
		if w.site.most > opts.MaxFetches {
			t.Errorf("%d fetches at once", w.site.most)
		}
		slices.Sort(took[policy.Rules])
		t.Logf("live ones: median %v, last %v; all %v", took[policy.Rules][live/2], took[policy.Rules][live-1], time.Since(begun))

		w.site.fetched()
		for i := range origins {
			if p, err := w.keeper.Policy(t.Context(), someOrigin(i), Sender{Client: netip.MustParseAddr("192.0.2.1")}); err != nil || p.Outcome == policy.None {
				t.Errorf("got %+v, %v", p, err)
			}
		}
		if n := w.site.fetched(); n != 0 {
			t.Errorf("%d fetches of what is known", n)
		}
	})
}

// Clients whose fetches wait take turns, however many fetches each has, and whatever their
// User-Agents say.
func TestPartiesTakeTurns(t *testing.T) {
	from := func(client string, i int) Sender {
		return Sender{Client: netip.MustParseAddr(client), ClientAgent: fmt.Sprintf("Bot%d/1.0", i)}
	}
	as := func(identity string, i int) Sender {
		by := from("192.0.2.1", i)
		by.Identity = identity
		return by
	}
	for name, parties := range map[string][3]func(i int) Sender{
		"clients": {
			func(i int) Sender { return from("192.0.2.1", i) },
			func(i int) Sender { return from("192.0.2.2", i) },
			func(i int) Sender { return from("192.0.2.3", i) },
		},
		"identities": {
			func(i int) Sender { return as("images", i) },
			func(i int) Sender { return as("texts", i) },
			func(i int) Sender { return as("default", i) },
		},
		"networks": {
			func(i int) Sender { return from(fmt.Sprintf("2001:db8:0:1::%x", i), i) },
			func(i int) Sender { return from(fmt.Sprintf("2001:db8:0:2:%x::", i), i) },
			func(i int) Sender { return from("::ffff:192.0.2.1", i) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.setup.Options.MaxFetches = 2
				w.start()
				begun := time.Now()
				var all sync.WaitGroup
				var mu sync.Mutex
				ended := make([]time.Duration, 3)
				next := 0
				for party, origins := range []int{100, 10, 1} {
					for i := range origins {
						origin := someOrigin(next)
						next++
						all.Go(func() {
							w.keeper.Policy(t.Context(), origin, parties[party](i))
							mu.Lock()
							defer mu.Unlock()
							ended[party] = max(ended[party], time.Since(begun))
						})
					}
					synctest.Wait()
				}
				all.Wait()
				// Two at a time, a second each.
				if ended[0] != 56*time.Second || ended[1] > 12*time.Second || ended[2] > 3*time.Second {
					t.Errorf("ended after %v", ended)
				}
			})
		})
	}
}

// A policy that memory does not hold is never fetched a second time.
func TestTinyMemoryAndManyOrigins(t *testing.T) {
	for _, kind := range []store.Kind{store.SQLite, store.None} {
		t.Run(string(kind), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				const origins = 10_000
				if kind == store.None {
					w.store = store.NewMemory(1)
				}
				w.setup.Memory = 1
				w.setup.Options.MaxFetches = origins
				w.start()
				for round := range 2 {
					var all sync.WaitGroup
					for i := range origins {
						all.Go(func() {
							if p, err := w.keeper.Policy(t.Context(), someOrigin(i), Sender{}); err != nil || p.Outcome != policy.Rules || string(p.Text) != someRules {
								t.Errorf("got %+v, %v", p, err)
							}
						})
					}
					all.Wait()
					if n := w.site.fetched(); round == 0 && n != origins || round > 0 && n != 0 {
						t.Errorf("%d fetches in round %d", n, round)
					}
					time.Sleep(12 * hour)
				}
				if n := w.count("robotsproxy_policies"); n > 1 {
					t.Errorf("%v policies in memory, which is too small", n)
				}
			})
		})
	}
}
