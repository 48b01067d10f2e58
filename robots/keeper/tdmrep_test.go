package keeper

import (
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
	"robotsproxy/robots/tdmrep"
)

const (
	tdmrepURL = "https://example.org/.well-known/tdmrep.json"

	allReserved = `[{"location": "/", "tdm-reservation": 1}]`
	allOpen     = `[{"location": "/", "tdm-reservation": 0}]`
)

// inTDMRepWorld is inWorld with a site that is asked for its tdmrep.json, in which it
// reserves all.
func inTDMRepWorld(t *testing.T, test func(t *testing.T, w *world)) {
	inWorld(t, func(t *testing.T, w *world) {
		w.kind = policy.TDMRep
		w.site.answers(200, allReserved)
		test(t, w)
	})
}

// expectReserved expects rules, and that they reserve a page or open it.
func (w *world) expectReserved(reserved bool, fetches int, waited bool) {
	w.t.Helper()
	p := w.expect(policy.Rules, fetches, waited)
	if p.TDMRep == nil || p.File != nil || p.Origin != exampleOrg {
		w.t.Fatalf("got %+v", p)
	}
	if r, found := p.TDMRep.Match("/page"); !found || r.Reserved != reserved {
		w.t.Errorf("%+v decides (%v), want reserved %v", r, found, reserved)
	}
}

func TestTDMRepIsFetchedOnceAndRefreshed(t *testing.T) {
	inTDMRepWorld(t, func(t *testing.T, w *world) {
		w.start()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { w.ask() })
		}
		all.Wait()
		if !slices.Equal(w.site.urls, []string{tdmrepURL}) {
			t.Errorf("fetched %q", w.site.urls)
		}
		w.expectReserved(true, 0, false)
		time.Sleep(17 * hour)
		w.expectReserved(true, 0, false)
		time.Sleep(hour)
		w.site.answers(200, allOpen)
		w.expectReserved(true, 1, false)  // from three quarters of its lifetime on, in the background
		w.expectReserved(false, 0, false) // which changes it
		time.Sleep(2 * day)
		w.site.answers(404, "")
		if p := w.expect(policy.Unavailable, 1, true); !p.AllowAll || p.TDMRep != nil || p.Status != 404 {
			t.Errorf("got %+v", p)
		}
		time.Sleep(day)
		w.site.answers(200, allReserved)
		w.expectReserved(true, 1, true)
	})
}

// While the file is unreachable its last copy counts, however old it is. Without a copy
// nothing is allowed, until allow_after.
func TestUnreachableTDMRep(t *testing.T) {
	for name, test := range map[string]struct {
		status int // of the first fetch
		copy   bool
	}{
		"with a copy":   {200, true},
		"after a 404":   {404, false},
		"never reached": {0, false},
	} {
		t.Run(name, func(t *testing.T) {
			inTDMRepWorld(t, func(t *testing.T, w *world) {
				w.start()
				w.site.answers(test.status, allReserved)
				w.ask()
				time.Sleep(day)
				w.site.answers(503, "")
				if test.copy {
					w.expectReserved(true, 1, true)
					w.expectReserved(true, 0, false)
					for range 45 { // restarts change nothing
						w.stop()
						time.Sleep(day)
						w.start()
						w.expectReserved(true, 1, false)
					}
					w.site.answers(200, allOpen)
					time.Sleep(hour)
					w.expectReserved(true, 1, false)
					w.expectReserved(false, 0, false)
					return
				}
				if p := w.expect(policy.Unreachable, 1, true); p.AllowAll || p.Status != 503 || p.Cause != "503 Service Unavailable" {
					t.Errorf("got %+v", p)
				}
				time.Sleep(28 * day)
				w.expect(policy.Unreachable, 1, true)
				time.Sleep(2 * day)
				if p := w.expect(policy.UnreachableExpired, 1, false); !p.AllowAll {
					t.Errorf("got %+v", p)
				}
			})
		})
	}
}

// What is no tdmrep.json reserves nothing, and is not kept. One that is too long fails, and
// its copy counts.
func TestOddTDMReps(t *testing.T) {
	inTDMRepWorld(t, func(t *testing.T, w *world) {
		w.setup.Options.MaxBytes = 1000
		w.start()
		w.site.answers(200, "<!DOCTYPE html><title>Nothing here</title>"+strings.Repeat("x", 2000))
		p := w.expect(policy.Rules, 1, true)
		if r, found := p.TDMRep.Match("/"); found || len(p.Text) != 0 {
			t.Errorf("a page of HTML says %+v, and %d octets are kept", r, len(p.Text))
		}
		w.site.answers(200, allReserved)
		time.Sleep(day)
		w.expectReserved(true, 1, true)
		time.Sleep(day)
		w.site.answers(200, "["+strings.Repeat(`{"tdm-reservation":0},`, 100)+"]")
		w.expectReserved(true, 1, true)
		if p := w.ask(); p.Cause != "a tdmrep.json of more than 1000 octets" {
			t.Errorf("got %+v", p)
		}
	})
}

// redirecting sends a path elsewhere.
type redirecting struct {
	http.RoundTripper
	to map[string]string // by URL
}

func (r redirecting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.RoundTripper.RoundTrip(req)
	if to := r.to[req.URL.String()]; err == nil && to != "" {
		resp.StatusCode, resp.Header = 302, http.Header{"Location": {to}}
	}
	return resp, err
}

func TestRedirectedTDMRep(t *testing.T) {
	inTDMRepWorld(t, func(t *testing.T, w *world) {
		const elsewhere = "https://www.example.net/tdm.json"
		to := map[string]string{tdmrepURL: elsewhere}
		w.setup.Transport = redirecting{w.site, to}
		w.start()
		w.expectReserved(true, 2, true)
		to[elsewhere] = tdmrepURL
		time.Sleep(day)
		if p := w.expect(policy.Unavailable, 2, true); !p.AllowAll || p.Cause != "redirects in a loop" {
			t.Errorf("got %+v", p)
		}
	})
}

// The meanings that an operator gives to statuses are about robots.txt alone.
func TestStatusesAreAboutRobotsTxt(t *testing.T) {
	for _, meaning := range []fetch.Meaning{fetch.MeansDisallow, fetch.MeansUnreachable} {
		inTDMRepWorld(t, func(t *testing.T, w *world) {
			w.setup.Options.Statuses = map[int]fetch.Meaning{404: meaning}
			w.start()
			w.site.answers(404, "")
			w.expect(policy.Unavailable, 1, true)
			w.expect(policy.Unavailable, 0, false)
			w.kind = policy.RobotsTxt
			want, _ := policy.OutcomeOf(meaning)
			w.expect(want, 1, true)
		})
	}
}

// The two files of an origin are known by themselves, even where they have one text. They
// outlive the process, are fetched at the same time, counted and logged apart, and forgotten
// together. Only robots.txt is listed.
func TestFilesOfOneOrigin(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const both = `[{"tdm-reservation":1}]`
		w.site.answers(200, both)
		w.start()
		begun := time.Now()
		var all sync.WaitGroup
		for _, files := range []Files{w.keeper.Files, w.keeper.TDMRep} {
			all.Go(func() { files.Policy(t.Context(), exampleOrg, Sender{}) })
		}
		all.Wait()
		if took := time.Since(begun); took != w.site.takes {
			t.Errorf("took %v: one has waited for the other", took)
		}
		look := func() {
			t.Helper()
			for kind := range policy.Kind(policy.KindCount) {
				w.kind = kind
				p := w.expect(policy.Rules, 0, false)
				if string(p.Text) != both || (p.File != nil) != (kind == policy.RobotsTxt) || (p.TDMRep != nil) != (kind == policy.TDMRep) {
					t.Errorf("%s: got %+v", kind, p)
				}
				if peeked, err := w.files().Peek(t.Context(), exampleOrg); err != nil || (peeked.TDMRep != nil) != (kind == policy.TDMRep) {
					t.Errorf("%s: peeked %+v, %v", kind, peeked, err)
				}
			}
		}
		look()
		for _, name := range []string{
			"robotsproxy_robots_fetches_total", "robotsproxy_robots_fetch_duration_seconds", "robotsproxy_policies",
			"robotsproxy_tdmrep_fetches_total", "robotsproxy_tdmrep_fetch_duration_seconds", "robotsproxy_tdmreps",
		} {
			var labels []string
			if strings.HasSuffix(name, "_total") {
				labels = []string{"rules"}
			}
			if n := w.count(name, labels...); n != 1 {
				t.Errorf("%s is %v", name, n)
			}
		}
		w.stop()
		w.start()
		look()
		if n := w.count("robotsproxy_policy_lookups_total", "store") + w.count("robotsproxy_tdmrep_lookups_total", "store"); n != 2 {
			t.Errorf("%v lookups ended in the store", n)
		}
		if listed, err := w.keeper.Policies(t.Context(), "", "", 10); err != nil || len(listed) != 1 || listed[0].Origin != exampleOrg {
			t.Errorf("listed %+v, %v", listed, err)
		}

		w.site.answers(503, "")
		for _, files := range []Files{w.keeper.Files, w.keeper.TDMRep} {
			if _, err := files.Fresh(t.Context(), exampleOrg, Sender{}); err != nil {
				t.Error(err)
			}
		}
		if a, b := w.logged("robots.txt unreachable"), w.logged("tdmrep.json unreachable"); a != 1 || b != 1 {
			t.Errorf("logged %d and %d times:\n%s", a, b, w.log)
		}
		if n := w.logged(`"origin":"https://example.org"`); n != 4 {
			t.Errorf("logged\n%s", w.log)
		}
		if err := w.keeper.Forget(t.Context(), exampleOrg); err != nil {
			t.Error(err)
		}
		for _, files := range []Files{w.keeper.Files, w.keeper.TDMRep} {
			if p, err := files.Peek(t.Context(), exampleOrg); p != nil || err != nil {
				t.Errorf("forgotten, but %+v, %v", p, err)
			}
		}
		h, err := w.keeper.TDMRep.History(t.Context(), exampleOrg)
		if err != nil || h.Origin != tdmrepURL || len(h.Versions) != 1 || h.Versions[0].Text != both {
			t.Errorf("history: %+v, %v", h, err)
		}
	})
}

func TestTDMRepHistory(t *testing.T) {
	inTDMRepWorld(t, func(t *testing.T, w *world) {
		w.start()
		for _, text := range []string{allReserved, allOpen} {
			w.site.answers(200, text)
			w.ask()
			time.Sleep(2 * day)
		}
		h, err := w.keeper.TDMRep.History(t.Context(), exampleOrg)
		if err != nil || len(h.Versions) != 2 || h.Versions[0].Text != allOpen || !strings.Contains(h.Versions[0].Diff, "-"+allReserved) {
			t.Errorf("got %+v, %v", h, err)
		}
		if h, err := w.keeper.History(t.Context(), exampleOrg); err != nil || len(h.Versions) != 0 {
			t.Errorf("robots.txt: got %+v, %v", h, err)
		}
	})
}

// Fetches of a tdmrep.json are signed, for the network that robots.txt came by.
func TestTDMRepFetchesAreSigned(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.site.header = http.Header{"Server": {"cloudflare"}, "Cf-Ray": {"1"}}
		w.start()
		var signed []string
		by := Sender{Sign: func(_ http.Header, target robots.Target, cdn string) {
			signed = append(signed, fmt.Sprintf("%s %q", target, cdn))
		}}
		w.keeper.Policy(t.Context(), exampleOrg, by)
		synctest.Wait()
		w.keeper.TDMRep.Policy(t.Context(), exampleOrg, by)
		if want := []string{`https://example.org/robots.txt ""`, tdmrepURL + ` "cloudflare"`}; !slices.Equal(signed, want) {
			t.Errorf("signed %q, want %q", signed, want)
		}
	})
}

// What panics while a tdmrep.json is looked up ends no process, and leaves no waiter.
func TestCrashOfTDMRepIsItsOwn(t *testing.T) {
	inTDMRepWorld(t, func(t *testing.T, w *world) {
		w.setup.Transport = panicking{w.site}
		w.start()
		if p := w.ask(); p.Outcome != policy.Unreachable {
			t.Errorf("got %+v", p)
		}
		w.kind = policy.RobotsTxt
		w.site.answers(200, someRules)
		w.expect(policy.Rules, 1, true)
		if w.logged("from fetching a tdmrep.json; please report this") != 1 {
			t.Errorf("logged %s", w.log)
		}
	})
}

// panicking panics when a tdmrep.json is asked for.
type panicking struct{ http.RoundTripper }

func (p panicking) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path == tdmrep.Path {
		panic("a fault")
	}
	return p.RoundTripper.RoundTrip(req)
}
