package policy

import (
	"context"
	"time"

	"robotsproxy/robots"
)

// A Leaser is a store that several processes share, on one machine or many. It lets one
// of them at a time ask an origin: until release is called or its process has ended,
// or for so long if neither happens. held is false while another has the lease.
type Leaser interface {
	Lease(ctx context.Context, origin string, length time.Duration) (release func(), held bool, err error)
}

// leaseMargin is what a lease has over fetch_timeout, to keep what was fetched.
const leaseMargin = 2 * time.Second

// How soon and how late a flight looks again for what another process fetches.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

// lease takes the origin's lease for a flight. release is nil if there is none to take:
// another has it, if taken; or there are no leases here or the store is away, so that
// each fetches for itself.
func (k *Keeper) lease(ctx context.Context, f *flight, origin robots.Origin) (release func(), taken bool) {
	l, ok := k.records.store.(Leaser)
	if !ok {
		return nil, false
	}
	length := k.opts().FetchTimeout + leaseMargin
	release, held, err := l.Lease(ctx, origin.String(), length)
	switch {
	case k.records.tried(ctx, leasing, err) != nil:
		k.records.failed(ctx, err)
		return nil, false
	case held:
		return release, true
	case f.refused.IsZero():
		f.refused = time.Now()
	case time.Since(f.refused) > length: // its process has been stopped, or its fetch is known to nobody
		return nil, false
	}
	return nil, true
}
