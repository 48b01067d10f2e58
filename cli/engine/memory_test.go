package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestMemoryIsReleasedOncePerFall(t *testing.T) {
	for _, test := range []struct {
		name        string
		connections []int // how many there are, for twice releaseQuiet polls each
		releases    int
	}{
		{"few", []int{0, 900, 0}, 0},
		{"many that stay", []int{0, 10000, 9000, 8000}, 0},
		{"many that leave", []int{0, 10000, 100, 0}, 1},
		{"many that leave slowly", []int{0, 10000, 8000, 6000, 4000, 3500, 3000, 0}, 2},
		{"twice", []int{0, 2000, 0, 2000, 0}, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(len(test.connections)*2*releaseQuiet)*releasePoll+releasePoll/2)
			defer cancel()
			polls, releases := 0, 0
			releaseMemory(ctx, func() int { polls++; return test.connections[(polls-1)/(2*releaseQuiet)] }, func() { releases++ })
			if releases != test.releases {
				t.Errorf("%s: released %d times, want %d", test.name, releases, test.releases)
			}
		})
	}
}
