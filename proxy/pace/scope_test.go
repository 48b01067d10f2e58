package pace

import (
	"testing"
	"testing/synctest"
	"time"

	"robotsproxy/proxy/pace/fleet"
)

func TestRegistrable(t *testing.T) {
	for origin, want := range map[string]string{
		"https://example.com":               "example.com",
		"http://www.example.com:8080":       "example.com",
		"https://a.b.example.co.uk":         "example.co.uk",
		"https://co.uk":                     "co.uk",
		"https://com":                       "com",
		"https://user.github.io":            "user.github.io", // its users share a suffix, not a site
		"https://www.xn--55qx5d.cn":         "www.xn--55qx5d.cn",
		"https://a.www.xn--55qx5d.cn":       "www.xn--55qx5d.cn",
		"http://localhost:3000":             "localhost",
		"http://db.internal":                "db.internal",
		"http://127.0.0.1:80":               "127.0.0.1",
		"http://[2001:db8::1]:8080":         "2001:db8::1",
		"ftp://ftp.example.org":             "example.org",
		"https://4.3.2.1.in-addr.arpa":      "1.in-addr.arpa",
		"https://a.b.some.city.kawasaki.jp": "city.kawasaki.jp",
	} {
		if got := registrable(origin); got != want {
			t.Errorf("%s: %s, want %s", origin, got, want)
		}
	}
}

func at(origin string, delay time.Duration) Request {
	return Request{Origin: origin, Identity: "default", Group: origin, Delay: delay, Stated: delay > 0}
}

// The hosts of a site share its turns. After each request, the delay that its own host states
// counts. Hosts under other domains have turns of their own.
func TestHostsShareASite(t *testing.T) {
	for scope, want := range map[Scope][]start{
		PerOrigin: {{"a", 0}, {"b", 0}, {"free", 0}, {"other", 0}, {"c", 3 * second}},
		PerSite:   {{"a", 0}, {"other", 0}, {"b", 3 * second}, {"c", 5 * second}, {"free", 8 * second}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStand(t, func(o *Options) { o.Scope = scope })
			s.ask("a", at("https://www.example.com", 3*second), 0)
			s.ask("b", at("http://img.example.com:8080", 2*second), 0)
			s.ask("c", at("https://www.example.com", 3*second), 0)
			s.ask("free", at("https://example.com", 0), 0)
			s.ask("other", at("https://www.example.org", 3*second), 0)
			s.wantStarts(want...)
		})
	}
}

// A hold on one host holds its site, if that is the scope.
func TestHostsShareHolds(t *testing.T) {
	for scope, held := range map[Scope]bool{PerOrigin: false, PerSite: true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStand(t, func(o *Options) { o.Scope, o.MaxPerDay = scope, 1 })
			www, img := at("https://www.example.com", 0), at("https://img.example.com", 0)
			s.Hold(www, time.Minute)
			if got := s.Held(img) != nil; got != held {
				t.Errorf("%s: another host is held: %v", scope, got)
			}
			time.Sleep(time.Minute)
			s.ask("www", www, 0)
			if _, late := s.try(img, Permit.Succeeded); (late != nil) != held {
				t.Errorf("%s: another host is counted: %v", scope, late)
			}
			if _, late := s.try(at("https://www.example.net", 0), Permit.Succeeded); late != nil {
				t.Errorf("%s: another domain is counted: %v", scope, late)
			}
			time.Sleep(25 * time.Hour)
			s.wantStarts(start{"www", time.Minute})
		})
	}
}

// Slots of different delays are not exchanged, since a slot has room for its own delay only.
func TestSlotsOfDifferentDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, func(o *Options) { o.Scope = PerSite })
		r := at("example.com", 0)
		r.Group = ""
		for _, given := range []struct {
			slot, delay time.Duration
		}{{9, 5}, {2, 1}, {3, 5}, {1, 1}} {
			w := &waiter{delay: given.delay * second, arrived: s.begun, maxWait: time.Minute, turn: make(chan error, 1)}
			w.slot = &fleet.Turn{At: s.begun.Add(given.slot * second)}
			s.join(&r, w)
			go func() {
				<-w.turn
				s.mu.Lock()
				defer s.mu.Unlock()
				s.started = append(s.started, start{w.delay.String(), time.Since(s.begun)})
			}()
		}
		s.wantStarts(start{"1s", 1 * second}, start{"1s", 2 * second}, start{"5s", 3 * second}, start{"5s", 9 * second})
	})
}
