package child

import "syscall"

// endWithParent has the kernel end the child when this process is killed, because its
// proxy is then gone.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }
