package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// leases are locks on single octets of a file, one for each origin by its hash. To write
// them to the database would cost more than all its other writes. The system releases the
// locks of a process when it ends, however it ends. Two origins with the same hash wait for
// each other.
type leases struct{ file *os.File }

// openLeases opens them at path. That may be a file that flock locks, which is another
// kind of lock.
func openLeases(path string) (leases, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	return leases{f}, err
}

func (l leases) Close() error { return l.file.Close() }

// Lease lets one process at a time ask an origin, until it calls release or ends.
func (s *Store) Lease(_ context.Context, origin string, _ time.Duration) (release func(), held bool, err error) {
	hash := fnv.New64a()
	io.WriteString(hash, origin)
	octet := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: int64(hash.Sum64() & math.MaxInt64 >> 1), Len: 1}
	lock := func() error { return syscall.FcntlFlock(s.leases.file.Fd(), unix.F_OFD_SETLK, &octet) }
	switch err := lock(); {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("taking the lease of %s: %w", origin, err)
	}
	return func() {
		octet.Type = syscall.F_UNLCK
		_ = lock() // it was ours
	}, true, nil
}
