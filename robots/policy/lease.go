package policy

import (
	"context"
	"time"

	"robotsproxy/robots"
)

// A Leaser is a store that several machines share. It lets one of them at a
// time ask an origin: until release is called, or for so long if it never is.
// held is false while another has the lease.
type Leaser interface {
	Lease(ctx context.Context, origin string, length time.Duration) (release func(), held bool, err error)
}

// leaseMargin is what a lease has over fetch_timeout, to keep what was fetched.
const leaseMargin = 2 * time.Second

// How soon and how late a flight looks again for what another machine fetches.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

// lease takes the origin's lease; release is nil if another has it. Where there
// are no leases, or the store is away, each fetches for itself: shared is false.
func (k *Keeper) lease(ctx context.Context, origin robots.Origin) (release func(), shared bool) {
	l, ok := k.records.store.(Leaser)
	if !ok {
		return nil, false
	}
	release, held, err := l.Lease(ctx, origin.String(), k.opts().FetchTimeout+leaseMargin)
	switch {
	case k.records.tried(ctx, leasing, err) != nil:
		k.records.failed(ctx, err)
		return nil, false
	case !held:
		return nil, true
	}
	return release, true
}
