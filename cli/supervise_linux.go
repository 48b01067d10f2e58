package cli

import "syscall"

// endsWithParent asks a child to end when this process is killed: its proxy is gone
// then.
func endsWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
