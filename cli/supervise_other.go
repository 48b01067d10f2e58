//go:build unix && !linux

package cli

import "syscall"

// endsWithParent does nothing: these systems can't end a child when its parent is killed.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
