//go:build unix && !linux

package child

import "syscall"

// endWithParent does nothing: these systems can't end a child when its parent is killed.
func endWithParent(*syscall.SysProcAttr) {}
