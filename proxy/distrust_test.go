package proxy

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
)

// A client that leaves when it sees the certificate is judged by whether it asks that
// host for something, before or soon after.
func TestWhoDistrustsTheCA(t *testing.T) {
	type event func(*distrust, pair)
	left, asked := (*distrust).left, (*distrust).asked
	pause := func(length time.Duration) event {
		return func(*distrust, pair) { time.Sleep(length) }
	}
	elsewhere := func(d *distrust, p pair) { d.asked(pair{p.client, "other.example"}) }
	another := func(d *distrust, p pair) { d.asked(pair{"192.0.2.2", p.host}) }
	for _, test := range []struct {
		name             string
		events           []event
		failures, unused float64
		warnings         int
		distrusted       string
	}{
		{"leaves", []event{left}, 1, 0, 1, "[a.example]"},
		{"leaves again and again", []event{left, left, pause(time.Minute), left}, 3, 0, 1, "[a.example]"},
		{"asks before", []event{asked, pause(time.Hour), left, left}, 0, 2, 0, "[]"},
		{"asks after", []event{left, left, pause(judgesAfter - 1), asked}, 0, 2, 0, "[]"},
		{"asks too late", []event{left, pause(judgesAfter + 1), asked, left}, 1, 1, 1, "[]"},
		{"asks another host", []event{elsewhere, left, elsewhere}, 1, 0, 1, "[a.example]"},
		{"another client asks", []event{another, left, another}, 1, 0, 1, "[a.example]"},
		{"only asks", []event{asked, asked}, 0, 0, 0, "[]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			d := newDistrust(zerolog.New(&log), prometheus.NewRegistry())
			for _, happens := range test.events {
				happens(d, pair{"192.0.2.1", "a.example"})
			}
			time.Sleep(judgesAfter + 1)
			synctest.Wait()
			if got := testutil.ToFloat64(d.failures); got != test.failures {
				t.Errorf("%s: %v failures, want %v", test.name, got, test.failures)
			}
			if got := testutil.ToFloat64(d.unused); got != test.unused {
				t.Errorf("%s: %v unused, want %v", test.name, got, test.unused)
			}
			if got := strings.Count(log.String(), "\n"); got != test.warnings {
				t.Errorf("%s: %d warnings, want %d:\n%s", test.name, got, test.warnings, &log)
			}
			s := &Server{distrust: d}
			if got := fmt.Sprint(s.Distrusted()); got != test.distrusted {
				t.Errorf("%s: distrusted are %s, want %s", test.name, got, test.distrusted)
			}
		})
	}
}

// At the end nobody waits to be judged, and nobody is who is left by the proxy itself.
func TestDistrustAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDistrust(zerolog.Nop(), prometheus.NewRegistry())
		d.left(pair{"192.0.2.1", "a.example"})
		d.close()
		d.left(pair{"192.0.2.1", "b.example"})
		s := &Server{distrust: d}
		if got := fmt.Sprint(s.Distrusted()); got != "[a.example]" {
			t.Errorf("distrusted are %s", got)
		}
		time.Sleep(2 * judgesAfter)
		if got := testutil.ToFloat64(d.failures); got != 1 {
			t.Errorf("%v failures", got)
		}
	})
}

// However many pairs there are, the room for them is bounded, and each is counted.
func TestDistrustIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDistrust(zerolog.Nop(), prometheus.NewRegistry())
		const many = 3 * maxPairs
		for i := range many {
			d.left(pair{"192.0.2.1", fmt.Sprint(i, ".example")})
		}
		if len(d.pairs) > maxPairs {
			t.Errorf("%d pairs are remembered", len(d.pairs))
		}
		time.Sleep(judgesAfter + 1)
		synctest.Wait()
		if got := testutil.ToFloat64(d.failures); got != many {
			t.Errorf("%v failures, want %d", got, many)
		}
	})
}
