package pool

import (
	"context"
	"sync"
	"time"
)

// maxFirstDialWait is how long a request waits for another's connection before it dials
// itself. It is longer than a handshake with a distant origin takes.
const maxFirstDialWait = 2 * time.Second

// firstDial is the first connection to a cold origin, for which its requests wait.
type firstDial struct {
	ready chan struct{} // closed when nobody needs to wait any more
	open  func()        // closes ready
}

func newFirstDial() *firstDial {
	ready := make(chan struct{})
	return &firstDial{ready: ready, open: sync.OnceFunc(func() { close(ready) })}
}

// wait fails only if ctx ends.
func (d *firstDial) wait(ctx context.Context) error {
	select {
	case <-d.ready:
		return nil
	default:
	}
	late := time.NewTimer(maxFirstDialWait)
	defer late.Stop()
	select {
	case <-d.ready:
	case <-late.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
