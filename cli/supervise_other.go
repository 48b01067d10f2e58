//go:build unix && !linux

package cli

import "syscall"

// endsWithParent is for systems that can't end a child when its parent is killed.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
