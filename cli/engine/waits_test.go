package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"robotsproxy/proxy/pace"
)

// A wait is told once it has lasted for a few seconds, and again each minute.
func TestWaitsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		const site = "https://example.com"
		waits := func(limit int) ([]pace.Wait, int) {
			now := time.Since(begun)
			var all []pace.Wait
			for i := range 2 * maxTold { // nobody waits there
				all = append(all, pace.Wait{Origin: fmt.Sprintf("https://%d.held.example", i), By: pace.ByRetryAfter, Until: begun.Add(time.Hour)})
			}
			if now < 2*time.Second || now > 10*time.Second && now < 100*time.Second {
				all = append(all, pace.Wait{Origin: site, Identity: "default", By: pace.ByDelay, NextTurn: time.Now(), LastTurn: time.Now().Add(40 * time.Second), Waiting: 3})
			}
			if now > 20*time.Second { // about to start
				all = append(all, pace.Wait{Origin: "https://soon.example", By: pace.ByDelay, NextTurn: time.Now(), LastTurn: time.Now(), Waiting: 1})
			}
			if now > 100*time.Second {
				all = append(all, pace.Wait{Origin: site, Identity: "default", By: pace.ByMaxInFlight, Waiting: 1})
			}
			return all[:min(limit, len(all))], len(all)
		}
		type told struct {
			at   time.Duration
			line string
		}
		var got []told
		ctx, cancel := context.WithTimeout(t.Context(), 110*time.Second)
		defer cancel()
		tellWaits(ctx, waits, func(line string) { got = append(got, told{time.Since(begun), line}) })
		const many = "3 requests to " + site + " wait: the delay between two requests; the next one starts in 0s, the last in 40s"
		want := []told{{15 * time.Second, many}, {75 * time.Second, many}}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestWordsForAWait(t *testing.T) {
	now := time.Now()
	for want, w := range map[string]pace.Wait{
		"1 request to https://a.example waits: pace.max_in_flight requests at once; the next one starts when another one has ended": {Origin: "https://a.example", By: pace.ByMaxInFlight, Waiting: 1},
		"2 requests to https://a.example wait: the origin has asked for a pause; the next one starts in 1m30s":                      {Origin: "https://a.example", By: pace.ByRetryAfter, NextTurn: now.Add(90 * time.Second), Waiting: 2},
	} {
		if got := describeWait(w, now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
