//go:build unix

package dbfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lock locks the file at path for this process alone. The system unlocks it when the
// process ends, however it ends.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("waiting for another process to let go of %s: %w", path, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
