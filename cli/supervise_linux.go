package cli

import "syscall"

// endsWithParent has the kernel end a child when this process is killed, because its
// proxy is then gone.
func endsWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
