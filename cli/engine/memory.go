package engine

import (
	"context"
	"time"
)

const (
	// releaseAfterFall is by how many the connections must have become fewer: what they held,
	// 6 to 40 KB each, is then worth a collection of garbage.
	releaseAfterFall = 1000
	// releasePoll is how often the connections are counted.
	releasePoll = time.Second
	// releaseQuiet is for how many polls they must have stayed few.
	releaseQuiet = 10
)

// releaseMemory calls release ten seconds after many connections have been closed, until ctx
// ends. A proxy that has little to do allocates little, so that Go would collect what the
// connections held after two minutes, and give it back to the system slowly.
func releaseMemory(ctx context.Context, connections func() int, release func()) {
	poll := time.NewTicker(releasePoll)
	defer poll.Stop()
	for peak, quiet := 0, 0; ; {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
		n := connections()
		peak = max(peak, n)
		if peak-n < releaseAfterFall || n > peak/2 {
			quiet = 0
			continue
		}
		if quiet++; quiet == releaseQuiet {
			release()
			peak, quiet = n, 0
		}
	}
}
