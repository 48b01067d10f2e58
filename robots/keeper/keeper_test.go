package keeper

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"robotsproxy/robots"
	"robotsproxy/robots/fetch"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
)

func TestFirstRequestsShareOneFetch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if p := w.ask(); p.Outcome != policy.Rules || p.File == nil || p.Origin != exampleOrg || string(p.Text) != someRules {
					t.Errorf("got %+v", p)
				}
			})
		}
		all.Wait()
		if n := w.site.fetched(); n != 1 {
			t.Errorf("%d fetches", n)
		}
		if got := w.site.agents[0]; got != "ExampleBot/2.0" {
			t.Errorf("fetched as %q", got)
		}
		if n := w.count("robotsproxy_policy_lookups_total", "fetch"); n != 100 {
			t.Errorf("%v lookups ended in a fetch", n)
		}
		w.expect(policy.Rules, 0, false)
		if n := w.count("robotsproxy_policy_lookups_total", "memory"); n != 1 {
			t.Errorf("%v lookups ended in memory", n)
		}
		if n := w.count("robotsproxy_robots_fetches_total", "rules"); n != 1 {
			t.Errorf("%v fetches counted", n)
		}
		if n := w.count("robotsproxy_robots_fetch_duration_seconds"); n != 1 {
			t.Errorf("%v fetches timed", n)
		}
		if n := w.count("robotsproxy_policies"); n != 1 {
			t.Errorf("%v policies in memory", n)
		}
	})
}

func TestWaiterLeaves(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.site.takes = 5 * time.Second
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if p, err := w.keeper.Policy(hurried, exampleOrg, Sender{UserAgent: "ExampleBot"}); !errors.Is(err, context.DeadlineExceeded) || p != nil {
			t.Errorf("got %+v, %v", p, err)
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("left after %v", took)
		}
		if p := w.ask(); p.Outcome != policy.Rules || time.Since(begun) != 5*time.Second {
			t.Errorf("%s after %v, want the fetch that was under way", p.Outcome, time.Since(begun))
		}
		if n := w.site.fetched(); n != 1 {
			t.Errorf("%d fetches", n)
		}
	})
}

func TestRefreshInTheBackground(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.expect(policy.Rules, 1, true)
		time.Sleep(18 * hour)
		w.site.answers(404, "")
		w.site.fetched()
		begun := time.Now()
		for range 50 {
			if p := w.ask(); p.Outcome != policy.Rules {
				t.Errorf("outcome %s while the refresh is under way", p.Outcome)
			}
		}
		if time.Since(begun) != 0 {
			t.Error("requests waited for a refresh")
		}
		time.Sleep(2 * time.Second)
		w.expect(policy.Unavailable, 0, false)
		if w.count("robotsproxy_robots_fetches_total", "unavailable") != 1 {
			t.Error("more than one refresh")
		}
	})
}

func TestFailedRefreshShowsOnlyAtTheEnd(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		first := w.expect(policy.Rules, 1, true)
		time.Sleep(18 * hour)
		w.site.answers(503, "")
		w.expect(policy.Rules, 1, false) // failure 1
		w.expect(policy.Rules, 0, false) // tried again 30 s later
		time.Sleep(30 * time.Second)
		w.expect(policy.Rules, 1, false) // failure 2, the next try 30 to 60 s later
		time.Sleep(35 * time.Second)
		w.expect(policy.Rules, 0, false)
		time.Sleep(10 * time.Second)
		w.expect(policy.Rules, 1, false)

		time.Sleep(time.Until(first.ExpiresAt))
		p := w.expect(policy.Unreachable, 1, true)
		if wait := time.Until(p.NextTry); wait <= 0 || wait > 10*minute || p.Status != 503 || p.Cause != "503 Service Unavailable" {
			t.Errorf("got %+v", p)
		}
		w.expect(policy.Unreachable, 0, false)
		time.Sleep(time.Until(p.NextTry))
		w.expect(policy.Unreachable, 1, true)

		w.site.answers(200, someRules)
		time.Sleep(10 * minute)
		if p := w.expect(policy.Rules, 1, true); !p.UnreachableSince.IsZero() || p.Cause != "" {
			t.Errorf("recovered, but %+v", p)
		}
	})
}

func TestUnreachableForLong(t *testing.T) {
	for _, test := range []struct {
		name          string
		status        int // of the first fetch
		within, after policy.Outcome
	}{
		{"with a good copy", 200, policy.Unreachable, policy.Rules},
		{"after a 404", 404, policy.Unreachable, policy.UnreachableExpired},
		{"never reached", 0, policy.Unreachable, policy.UnreachableExpired},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.start()
				w.site.answers(test.status, someRules)
				w.ask()
				time.Sleep(day)
				w.site.answers(0, "")
				w.expect(test.within, 1, true)
				for range 28 { // restarts do not begin the time anew
					w.stop()
					time.Sleep(day)
					w.start()
					w.expect(test.within, 1, true)
				}
				time.Sleep(2 * day)
				p := w.expect(test.after, 1, false)
				if (p.File != nil) != (test.after == policy.Rules) || p.AllowAll != (test.after == policy.UnreachableExpired) {
					t.Errorf("got %+v", p)
				}
				time.Sleep(10 * minute)
				w.site.answers(200, someRules)
				w.expect(test.after, 1, false)
				if p := w.expect(policy.Rules, 0, false); !p.UnreachableSince.IsZero() {
					t.Errorf("recovered, but %+v", p)
				}
			})
		})
	}
}

func TestRestart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		before := w.expect(policy.Rules, 1, true)
		w.stop()
		time.Sleep(10 * hour)
		w.start()
		p := w.expect(policy.Rules, 0, false)
		if !p.FetchedAt.Equal(before.FetchedAt) || !p.ExpiresAt.Equal(before.ExpiresAt) || p.SHA256 != before.SHA256 || string(p.Text) != someRules {
			t.Errorf("got  %+v\nwant %+v", p, before)
		}
		if n := w.count("robotsproxy_policy_lookups_total", "store"); n != 1 {
			t.Errorf("%v lookups ended in the store", n)
		}
		w.stop()
		time.Sleep(9 * hour)
		w.start()
		w.expect(policy.Rules, 1, false) // due for a refresh, and nobody waits for it
	})
}

func TestAnotherProcessHasFetched(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.expect(policy.Rules, 1, true)
		time.Sleep(20 * hour)
		rec, _, err := w.store.Get(t.Context(), exampleOrg.String())
		if err != nil {
			t.Fatal(err)
		}
		rec.Status, rec.Body, rec.SHA256 = 404, nil, ""
		rec.FetchedAt, rec.ExpiresAt = time.Now(), time.Now().Add(day)
		if err := w.store.Put(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		w.expect(policy.Rules, 0, false)
		w.expect(policy.Unavailable, 0, false)
	})
}

func TestClockSetBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var back time.Duration
		w.setup.Now = func() time.Time { return time.Now().Add(-back) }
		w.start()
		w.expect(policy.Rules, 1, true)
		back = 100 * day
		w.expect(policy.Rules, 1, true)
		w.expect(policy.Rules, 0, false)
		w.site.answers(0, "")
		back = 200 * day
		p := w.expect(policy.Unreachable, 1, true)
		if !p.UnreachableSince.Before(time.Now().Add(-199 * day)) {
			t.Errorf("unreachable since %v, which is to come", p.UnreachableSince)
		}
		w.expect(policy.Unreachable, 0, false)
	})
}

// A policy that memory does not take must still be found.
func TestTinyMemory(t *testing.T) {
	for _, broken := range []bool{false, true} {
		t.Run(fmt.Sprintf("store broken %v", broken), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				kept := w.breakStore()
				kept.unreadable.Store(broken)
				kept.unwritable.Store(broken)
				w.setup.Memory = 1
				w.start()
				w.expect(policy.Rules, 1, true)
				for range 5 {
					w.expect(policy.Rules, 0, false)
				}
				// And requests do not wait for its refresh.
				time.Sleep(20 * hour)
				w.site.takes = 5 * time.Second
				begun := time.Now()
				for range 5 {
					w.ask()
					synctest.Wait()
				}
				if took := time.Since(begun); took != 0 {
					t.Errorf("requests took %v", took)
				}
				time.Sleep(10 * time.Second)
				if n := w.site.fetched(); n != 1 {
					t.Errorf("%d fetches for a refresh", n)
				}
			})
		})
	}
}

func TestFetchesAreBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.setup.Options.MaxFetches = 8
		w.setup.Options.FetchTimeout = 2 * time.Second // less than the whole takes
		w.start()
		var all sync.WaitGroup
		for i := range 80 {
			all.Go(func() {
				origin := someOrigin(i)
				if p, err := w.keeper.Policy(t.Context(), origin, Sender{}); err != nil || p.Outcome != policy.Rules {
					t.Errorf("got %+v, %v", p, err)
				}
			})
		}
		begun := time.Now()
		all.Wait()
		if w.site.most != 8 || time.Since(begun) != 10*time.Second {
			t.Errorf("%d fetches at once, %v in all", w.site.most, time.Since(begun))
		}
	})
}

// A fetch that nobody waits for takes no slot from others.
func TestUnwantedFetchesGiveUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.setup.Options.MaxFetches = 1
		w.start()
		w.ask()
		time.Sleep(20 * hour) // example.org is due for a refresh
		w.site.fetched()
		w.site.takes = 5 * time.Second
		go w.keeper.Policy(t.Context(), someOrigin(0), Sender{})
		synctest.Wait()
		w.ask()
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if p, err := w.keeper.Policy(hurried, someOrigin(1+i%10), Sender{}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %+v, %v", p, err)
				}
			})
		}
		patient := make(chan *policy.Policy)
		go func() {
			p, _ := w.keeper.Policy(t.Context(), someOrigin(1), Sender{})
			patient <- p
		}()
		all.Wait()
		if p := <-patient; p == nil || p.Outcome != policy.Rules {
			t.Errorf("got %+v", p)
		}
		time.Sleep(minute)
		if n := w.site.fetched(); n != 3 { // the first, the one that is waited for, and the refresh
			t.Errorf("%d fetches", n)
		}
		if p, err := w.keeper.Policy(t.Context(), someOrigin(2), Sender{}); err != nil || p.Outcome != policy.Rules {
			t.Errorf("asked for again: got %+v, %v", p, err)
		}
	})
}

// A request that comes when nobody waits for a flight any more, but before the flight has
// ended, gets the result of the next one.
func TestLateWaiter(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.setup.Options.MaxFetches = 1
		w.store = lateStore{w.breakStore(), 5 * time.Second}
		w.site.takes = 8 * time.Second
		w.start()
		go w.keeper.Policy(t.Context(), someOrigin(0), Sender{}) // has the slot from 5 s to 13 s
		time.Sleep(time.Second)
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if p, err := w.keeper.Policy(hurried, someOrigin(1), Sender{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %+v, %v", p, err)
		}
		if p, err := w.keeper.Policy(t.Context(), someOrigin(1), Sender{}); err != nil || p.Outcome != policy.Rules {
			t.Errorf("got %+v, %v", p, err)
		}
		if n := w.site.fetched(); n != 2 {
			t.Errorf("%d fetches", n)
		}
	})
}

func TestFreshAlwaysFetches(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.expect(policy.Rules, 1, true)
		w.site.answers(404, "")
		for range 2 {
			if p, err := w.keeper.Fresh(t.Context(), exampleOrg, Sender{}); err != nil || p.Outcome != policy.Unavailable {
				t.Errorf("got %+v, %v", p, err)
			}
		}
		if n := w.site.fetched(); n != 2 {
			t.Errorf("%d fetches", n)
		}
		w.expect(policy.Unavailable, 0, false)
	})
}

func TestPeekAndPolicies(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		if p, err := w.keeper.Peek(t.Context(), exampleOrg); p != nil || err != nil {
			t.Errorf("got %+v, %v of an origin that is not known", p, err)
		}
		for _, host := range []string{"c.example", "a.example", "b.example"} {
			w.keeper.Policy(t.Context(), robots.Origin{Scheme: "http", Host: host, Port: "80"}, Sender{})
		}
		w.ask()
		w.site.fetched()
		time.Sleep(100 * day)
		p, err := w.keeper.Peek(t.Context(), exampleOrg)
		if err != nil || p.Outcome != policy.Rules || p.File == nil || !p.ExpiresAt.Before(time.Now()) {
			t.Errorf("got %+v, %v, want the last thing known", p, err)
		}
		first, err := w.keeper.Policies(t.Context(), "", "", 3)
		if err != nil || len(first) != 3 {
			t.Fatalf("got %v, %v", first, err)
		}
		rest, err := w.keeper.Policies(t.Context(), first[2].Origin.String(), "", 3)
		if err != nil || len(rest) != 1 {
			t.Fatalf("got %v, %v", rest, err)
		}
		var origins []string
		for _, p := range append(first, rest...) {
			origins = append(origins, p.Origin.String())
		}
		if got := strings.Join(origins, " "); got != "http://a.example http://b.example http://c.example https://example.org" {
			t.Errorf("got %s", got)
		}
		if n := w.site.fetched(); n != 0 {
			t.Errorf("%d fetches", n)
		}
	})
}

func TestClose(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.site.takes = hour
		waiting := make(chan error)
		go func() {
			_, err := w.keeper.Policy(context.Background(), exampleOrg, Sender{UserAgent: "ExampleBot"})
			waiting <- err
		}()
		synctest.Wait()
		begun := time.Now()
		go w.keeper.Close()
		if err := <-waiting; !errors.Is(err, errClosed) {
			t.Errorf("got %v", err)
		}
		if _, err := w.keeper.Policy(t.Context(), exampleOrg, Sender{}); !errors.Is(err, errClosed) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if time.Since(begun) != 0 {
			t.Errorf("closing took %v", time.Since(begun))
		}
		if _, known, err := w.store.Get(t.Context(), exampleOrg.String()); known || err != nil {
			t.Errorf("a fetch that was ended is kept: %v", err)
		}
	})
}

// New options count from the next lookup on, for what is known already too.
func TestSetOptions(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.expect(policy.Rules, 1, true)
		opts := w.setup.Options
		opts.Statuses = map[int]fetch.Meaning{200: fetch.MeansDisallow}
		w.keeper.SetOptions(opts)
		w.expect(policy.Status, 0, false)
		w.keeper.SetOptions(w.setup.Options)
		w.expect(policy.Rules, 0, false)
	})
}

// A site turns the program away and has rules for a bot that it knows. Other clients do not
// free the site, whatever their User-Agents say.
func TestOtherUserAgentsDoNotFreeASite(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.site.knows = "ExampleBot/2.0"
		w.start()
		ask := func(clientAgent string, want policy.Outcome) {
			t.Helper()
			p, err := w.keeper.Policy(t.Context(), exampleOrg, Sender{ClientAgent: clientAgent})
			if err != nil || p.Outcome != want {
				t.Errorf("%s got %+v, %v; want %s", clientAgent, p, err, want)
			}
			time.Sleep(5 * time.Second) // for a refresh
			synctest.Wait()
		}
		ask("ExampleBot/2.0", policy.Rules)
		for range 3 {
			time.Sleep(19 * hour)
			ask("Unwelcome/1.0", policy.Rules) // refreshes
			ask("Unwelcome/1.0", policy.Rules)
			w.stop()
			w.start()
			time.Sleep(25 * hour)
			ask(strings.Repeat("x", 20<<10), policy.Rules) // nothing is fresh
			ask("", policy.Rules)
		}
		w.site.knows = "nobody"
		time.Sleep(25 * hour)
		ask("Unwelcome/1.0", policy.Unavailable)
	})
}

// A site that answers 429 or rejects the request keeps its rules, as one that is down does.
func TestRateLimitingDoesNotFreeASite(t *testing.T) {
	for _, status := range []int{400, 414, 429, 431} {
		inWorld(t, func(t *testing.T, w *world) {
			w.start()
			w.expect(policy.Rules, 1, true)
			w.site.answers(status, "")
			time.Sleep(19 * hour)
			w.expect(policy.Rules, 1, false)
			time.Sleep(6 * hour)
			if p := w.expect(policy.Unreachable, 1, true); p.Status != status || p.NextTry.IsZero() {
				t.Errorf("got %+v", p)
			}
			h, err := w.keeper.History(t.Context(), exampleOrg)
			if err != nil || len(h.Versions) != 1 || h.Versions[0].Status != 200 {
				t.Errorf("history %+v, %v", h, err)
			}
			if n := w.count("robotsproxy_robots_fetches_total", "unreachable"); n != 2 {
				t.Errorf("%v fetches are counted as unreachable", n)
			}
			time.Sleep(31 * day)
			w.expect(policy.Rules, 1, false) // the last good copy
			w.site.answers(200, someRules)
			time.Sleep(hour)
			w.expect(policy.Rules, 1, false)
		})
		inWorld(t, func(t *testing.T, w *world) { // which has given none
			w.site.answers(status, "")
			w.start()
			w.expect(policy.Unavailable, 2, true) // by the identity's name, then by the program's
			time.Sleep(3 * minute)
			w.expect(policy.Unavailable, 0, false)
			time.Sleep(minute)
			w.expect(policy.Unavailable, 2, false)
			w.site.answers(200, someRules)
			time.Sleep(5 * minute)
			w.expect(policy.Rules, 1, true)
		})
	}
}

// Fetches are signed with the network by which the origin last answered. It is kept beyond the
// process, and when the origin does not answer.
func TestFetchesAreSignedForTheNetworkOfTheOrigin(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var signed []string
		by := Sender{Sign: func(header http.Header, target robots.Target, cdn string) {
			signed = append(signed, target.String()+" "+cdn)
		}}
		expect := func(outcome policy.Outcome, knew, knows string) {
			t.Helper()
			p, err := w.keeper.Fresh(t.Context(), exampleOrg, by)
			if err != nil || p.Outcome != outcome || p.CDN != knows {
				t.Errorf("got %+v, %v, want %s by %q", p, err, outcome, knows)
			}
			if want := []string{"https://example.org/robots.txt " + knew}; !slices.Equal(signed, want) {
				t.Errorf("signed %q, want %q", signed, want)
			}
			signed = nil
		}
		transport := &crashing{site: w.site}
		w.setup.Transport = transport
		w.start()
		w.site.header = http.Header{"Server": {"cloudflare"}}
		expect(policy.Rules, "", "cloudflare")
		w.stop()
		w.start()
		w.site.answers(0, "")
		expect(policy.Rules, "cloudflare", "cloudflare")
		transport.asked = true
		expect(policy.Rules, "cloudflare", "cloudflare")
		transport.asked = false
		w.site.answers(404, "")
		expect(policy.Unavailable, "cloudflare", "cloudflare")
		w.site.header = nil
		w.site.answers(503, "")
		expect(policy.Unavailable, "cloudflare", "")
		w.site.header = http.Header{"Cf-Ray": {"230b030023ae2822-SJC"}}
		expect(policy.Unavailable, "", "cloudflare")
		if known, err := w.keeper.Policies(t.Context(), "", "", 1); err != nil || len(known) != 1 || known[0].CDN != "cloudflare" {
			t.Errorf("listed %+v, %v", known, err)
		}
	})
}

// crashing answers, or panics, when it is asked or when its text is read.
type crashing struct {
	*site
	asked, read bool
}

func (c *crashing) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.site.RoundTrip(req)
	if c.asked {
		panic("asked " + req.URL.Host)
	}
	if c.read {
		resp.Body = c
	}
	return resp, err
}

func (c *crashing) Read([]byte) (int, error) { panic("read") }
func (c *crashing) Close() error             { return nil }

// If what a site sends makes the program panic, its robots.txt is unreachable for all who
// wait for it, and everything else goes on.
func TestPanicInAFetchIsUnreachable(t *testing.T) {
	for _, transport := range []*crashing{{asked: true}, {read: true}} {
		inWorld(t, func(t *testing.T, w *world) {
			transport.site = w.site
			w.setup.Transport = transport
			w.setup.Options.MaxFetches = 1 // so that the next fetch shows whether the slot was given back
			w.start()
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					if p := w.ask(); p.Outcome != policy.Unreachable || p.Cause == "" || p.NextTry.IsZero() {
						t.Errorf("got %+v", p)
					}
				})
			}
			all.Wait()
			if w.site.fetched() != 1 || w.logged(`"level":"error"`) != 1 || w.logged("robots/fetch.(*visit)") == 0 {
				t.Errorf("logged %s", w.log)
			}
			w.expect(policy.Unreachable, 0, false)
			time.Sleep(minute)
			transport.asked, transport.read = false, false
			w.expect(policy.Rules, 1, true)

			transport.asked = true
			time.Sleep(19 * hour)
			w.expect(policy.Rules, 1, false) // what is known is not lost
			w.expect(policy.Rules, 0, false)
			time.Sleep(6 * hour)
			w.expect(policy.Unreachable, 1, true)
			if p, err := w.keeper.Fresh(t.Context(), exampleOrg, Sender{}); err != nil || p.Outcome != policy.Unreachable {
				t.Errorf("got %+v, %v", p, err)
			}
			transport.asked = false
			time.Sleep(hour)
			w.expect(policy.Rules, 1, true)
		})
	}
}

// crashingStore panics when a record is put.
type crashingStore struct{ store.Store }

func (crashingStore) Put(context.Context, ...store.Record) error { panic("put") }
func (crashingStore) Forget(context.Context, string) error       { panic("forget") }

func TestPanicInTheStoreEndsNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.store = crashingStore{store.NewMemory(0)}
		w.start()
		w.expect(policy.Rules, 1, true)
		if w.logged("put") == 0 {
			t.Error("nobody is told")
		}
		if err := w.keeper.Forget(t.Context(), exampleOrg); err == nil {
			t.Error("it is said to be forgotten")
		}
	})
}
