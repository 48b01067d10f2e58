package distrust

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

// Whether a client that leaves when it sees the certificate trusts the CA shows by whether
// it asks that host for something, before or soon after.
func TestClientsThatLeave(t *testing.T) {
	type event func(*Detector, pair)
	left, asked := (*Detector).left, (*Detector).asked
	pause := func(length time.Duration) event {
		return func(*Detector, pair) { time.Sleep(length) }
	}
	elsewhere := func(d *Detector, p pair) { d.asked(pair{p.client, "other.example"}) }
	another := func(d *Detector, p pair) { d.asked(pair{"192.0.2.2", p.host}) }
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
		{"asks after", []event{left, left, pause(judgeDelay - 1), asked}, 0, 2, 0, "[]"},
		{"asks too late", []event{left, pause(judgeDelay + 1), asked, left}, 1, 1, 1, "[]"},
		{"asks another host", []event{elsewhere, left, elsewhere}, 1, 0, 1, "[a.example]"},
		{"another client asks", []event{another, left, another}, 1, 0, 1, "[a.example]"},
		{"only asks", []event{asked, asked}, 0, 0, 0, "[]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			d := New(zerolog.New(&log), prometheus.NewRegistry())
			for _, happens := range test.events {
				happens(d, pair{"192.0.2.1", "a.example"})
			}
			time.Sleep(judgeDelay + 1)
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
			if got := fmt.Sprint(d.Hosts()); got != test.distrusted {
				t.Errorf("%s: distrusted are %s, want %s", test.name, got, test.distrusted)
			}
		})
	}
}

// Close judges who is still to be judged. Later the proxy leaves its clients, and none of
// them is counted.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(zerolog.Nop(), prometheus.NewRegistry())
		d.left(pair{"192.0.2.1", "a.example"})
		d.Close()
		d.left(pair{"192.0.2.1", "b.example"})
		if got := fmt.Sprint(d.Hosts()); got != "[a.example]" {
			t.Errorf("distrusted are %s", got)
		}
		time.Sleep(2 * judgeDelay)
		if got := testutil.ToFloat64(d.failures); got != 1 {
			t.Errorf("%v failures", got)
		}
	})
}

// The number of remembered pairs is bounded, and every pair is counted.
func TestPairsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(zerolog.Nop(), prometheus.NewRegistry())
		const many = 3 * maxPairs
		for i := range many {
			d.left(pair{"192.0.2.1", fmt.Sprint(i, ".example")})
		}
		if len(d.pairs) > maxPairs {
			t.Errorf("%d pairs are remembered", len(d.pairs))
		}
		time.Sleep(judgeDelay + 1)
		synctest.Wait()
		if got := testutil.ToFloat64(d.failures); got != many {
			t.Errorf("%v failures, want %d", got, many)
		}
	})
}
