package engine

import (
	"context"
	"fmt"
	"math"
	"time"

	"robotsproxy/proxy/pace"
)

const (
	// waitsEvery is how often what requests wait for is looked at. What is found twice in a row
	// has lasted long enough to be told.
	waitsEvery = 3 * time.Second
	// tellAgainAfter is how long until the same is told again.
	tellAgainAfter = time.Minute
	// maxTold is how many origins are told of at one look.
	maxTold = 5
)

// tellWaits calls tell until ctx ends: for each origin whose requests have waited for their turns
// for a few seconds, and again each minute while they do. waits is [pace.Pacer.Waits].
func tellWaits(ctx context.Context, waits func(limit int) ([]pace.Wait, int), tell func(line string)) {
	type place struct{ origin, identity string }
	told := map[place]time.Time{} // when; zero: seen and not told
	look := time.NewTicker(waitsEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		found := map[place]time.Time{}
		all, _ := waits(math.MaxInt)
		lines := 0
		for _, w := range all {
			if w.Waiting == 0 { // it is held, and nobody wants it
				continue
			}
			at := place{w.Origin, w.Identity}
			last, known := told[at]
			isOver := !w.LastTurn.IsZero() && w.LastTurn.Sub(now) < time.Second
			if known && !isOver && now.Sub(last) >= tellAgainAfter && lines < maxTold {
				tell(describeWait(w, now))
				last = now
				lines++
			}
			found[at] = last
		}
		told = found
	}
}

// describeWait says in a line what requests wait for.
func describeWait(w pace.Wait, now time.Time) string {
	requests, verb := fmt.Sprintf("%d requests", w.Waiting), "wait"
	if w.Waiting == 1 {
		requests, verb = "1 request", "waits"
	}
	in := func(t time.Time) string { return fmt.Sprintf("in %v", max(t.Sub(now), 0).Round(time.Second)) }
	next := "when another one has ended"
	if !w.NextTurn.IsZero() {
		next = in(w.NextTurn)
	}
	if w.Waiting > 1 && !w.LastTurn.IsZero() {
		next += ", the last " + in(w.LastTurn)
	}
	return fmt.Sprintf("%s to %s %s: %s; the next one starts %s", requests, w.Origin, verb, w.By.Phrase(), next)
}
