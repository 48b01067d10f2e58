package cli

import (
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// setMemory keeps the process within its container's memory, unless GOMEMLIMIT is set. It
// also sets how much the heap may grow between collections, unless GOGC is set: by 16 MiB
// and half of what is in use. Go's default lets the heap double. That is too little for a
// small heap, which would be collected all the time, and too much for a large one, as with
// thousands of tunnels.
//
// The 16 MiB are half of the ballast that it returns. Callers must hold the ballast as long
// as the process runs. It takes no memory, because nothing is ever written to it; only the
// collector counts it.
func setMemory() (ballast []byte) {
	limit, _ := memlimit.Set() // an error says that there is no container
	if os.Getenv("GOGC") != "" {
		return nil
	}
	debug.SetGCPercent(50)
	return make([]byte, min(32<<20, limit/8))
}
