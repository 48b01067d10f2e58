package cli

import (
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// setMemory keeps the process within its container's memory, unless GOMEMLIMIT says
// otherwise, and sets how much room the garbage collector has, unless GOGC does:
// 16 MiB and half of what is in use. By Go's own measure, as much again as is in use,
// it would have too little when that is little, and run all the time, and when it is
// much, as with thousands of tunnels, twice of that would be taken.
//
// The 16 MiB are half of the ballast that it returns, which is to be held as long as
// the process runs. It counts for the collector alone: nothing is ever written
// there, so it takes no memory.
func setMemory() (ballast []byte) {
	limit, _ := memlimit.Set() // an error says that there is no container
	if os.Getenv("GOGC") != "" {
		return nil
	}
	debug.SetGCPercent(50)
	return make([]byte, min(32<<20, limit/8))
}
