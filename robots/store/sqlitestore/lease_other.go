//go:build !linux

package sqlitestore

// leases do not exist on these systems: each process fetches for itself.
type leases struct{}

func openLeases(string) (leases, error) { return leases{}, nil }

func (leases) Close() error { return nil }
