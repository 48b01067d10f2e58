//go:build unix

package shortage

import (
	"math"
	"syscall"
)

// Descriptors is how many files and connections this process may have open at once; 0
// means that the system does not say. The Go runtime has raised it at start to as many as
// the process may ask for.
func Descriptors() int64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int64(min(uint64(limit.Cur), math.MaxInt32))
}
