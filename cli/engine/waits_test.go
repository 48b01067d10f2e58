package engine

import (
	"context"
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
			all := []pace.Wait{{Origin: "https://held.example", By: pace.ByRetryAfter, Until: begun.Add(time.Hour)}} // nobody waits there
			if now < 2*time.Second || now > 10*time.Second && now < 100*time.Second {
				all = append(all, pace.Wait{Origin: site, Identity: "default", By: pace.ByDelay, Until: time.Now().Add(20 * time.Second), Waiting: 3})
			}
			if now > 100*time.Second {
				all = append(all, pace.Wait{Origin: site, Identity: "default", By: pace.ByMaxInFlight, Waiting: 1})
			}
			return all, len(all)
		}
		type told struct {
			at   time.Duration
			line string
		}
		var got []told
		ctx, cancel := context.WithTimeout(t.Context(), 110*time.Second)
		defer cancel()
		tellWaits(ctx, waits, func(line string) { got = append(got, told{time.Since(begun), line}) })
		const many = "3 requests to " + site + " wait: the delay between two requests; the next one starts in 20s"
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
		"2 requests to https://a.example wait: the origin has asked for a pause; the next one starts in 1m30s":                      {Origin: "https://a.example", By: pace.ByRetryAfter, Until: now.Add(90 * time.Second), Waiting: 2},
	} {
		if got := describeWait(w, now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
