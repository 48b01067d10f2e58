package sealed

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"time"

	"robotsproxy/internal/hostname"
	"robotsproxy/proxy/seal/names"
)

const (
	// maxAddresses bounds the addresses that are remembered of one name.
	maxAddresses = 1000
	// lookupEvery is how long an answer for a name counts where its addresses are asked for
	// to compare them with another one.
	lookupEvery = 30 * time.Second
	// lookupTimeout bounds such a question, for which a connection waits.
	lookupTimeout = 2 * time.Second
)

// An allowList knows the addresses of the destinations that are allowed. Those of names
// change, and may be others in each answer, so it remembers all that the command was told.
type allowList struct {
	resolver names.Resolver
	standIns *names.StandIns // nil if no address stands for a name
	now      func() time.Time
	all      []*allowed
	told     told
}

type allowed struct {
	Destination

	mu        sync.Mutex
	addresses map[netip.Addr]bool
	lookedUp  time.Time
}

func newAllowList(destinations []Destination, resolver names.Resolver, standIns *names.StandIns) *allowList {
	l := &allowList{resolver: resolver, standIns: standIns, now: time.Now}
	for _, d := range destinations {
		a := &allowed{Destination: d, addresses: map[netip.Addr]bool{}}
		if d.addr.IsValid() {
			a.addresses[d.addr] = true
		}
		l.all = append(l.all, a)
	}
	return l
}

// find returns the destination that an address belongs to, and what is to be dialled for it:
// the address that the command has chosen or, of an address that only stands for a name, the
// name. It returns nil if no destination is there.
func (l *allowList) find(ctx context.Context, wanted netip.AddrPort) (d *allowed, dial string) {
	for _, a := range l.all {
		switch {
		case a.port != wanted.Port():
		case l.standsFor(wanted.Addr(), a.host):
			return a, a.String()
		case l.has(ctx, a, wanted.Addr()):
			return a, wanted.String()
		}
	}
	return nil, ""
}

func (l *allowList) standsFor(addr netip.Addr, host string) bool {
	if l.standIns == nil {
		return false
	}
	name, ok := l.standIns.Name(addr)
	return ok && name == host
}

// has reports whether a destination has an address. A command may have it from elsewhere
// than from the names served to it, such as /etc/hosts, so the resolver is asked too.
func (l *allowList) has(ctx context.Context, a *allowed, addr netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.addresses[addr] || a.addr.IsValid() || l.now().Sub(a.lookedUp) < lookupEvery {
		return a.addresses[addr]
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, _ := l.resolver.LookupNetIP(ctx, "ip", a.host) // a name without addresses has not this one
	a.lookedUp = l.now()
	a.remember(found)
	return a.addresses[addr]
}

// remember adds addresses. Callers must hold mu.
func (a *allowed) remember(addresses []netip.Addr) {
	for _, addr := range addresses {
		if len(a.addresses) == maxAddresses {
			clear(a.addresses)
		}
		a.addresses[addr.Unmap().WithZone("")] = true
	}
}

// LookupNetIP is the resolver for the command. It remembers what the command is told of names
// that are allowed.
func (l *allowList) LookupNetIP(ctx context.Context, network, name string) ([]netip.Addr, error) {
	found, err := l.resolver.LookupNetIP(ctx, network, name)
	name = strings.TrimSuffix(name, ".")
	l.told.add(name, found)
	for _, a := range l.all {
		if a.host == name {
			a.mu.Lock()
			a.remember(found)
			a.mu.Unlock()
		}
	}
	return found, err
}

// maxTold bounds the addresses whose names are remembered.
const maxTold = 10_000

// told remembers for which name the command was told an address, the last one of several. It
// is safe for concurrent use.
type told struct {
	mu    sync.Mutex
	names map[netip.Addr]string
}

func (t *told) add(name string, addresses []netip.Addr) {
	if host, err := hostname.Normal(name); err != nil || host != name {
		return // a question may hold any octets
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, addr := range addresses {
		if t.names == nil || len(t.names) == maxTold {
			t.names = map[netip.Addr]string{}
		}
		t.names[addr.Unmap().WithZone("")] = name
	}
}

// name is "" for an address that the command has from elsewhere.
func (t *told) name(addr netip.Addr) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names[addr]
}
