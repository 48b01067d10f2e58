//go:build unix

package cli

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// forwardedSignals are the signals that people and programs send to control a process.
var forwardedSignals = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// isolateSignals ensures that each signal reaches the child once. With a terminal, the
// child is in our process group, so that Ctrl-Z and job control work; the terminal signals
// both, so we don't pass its signals on. Without one, the child has a process group of
// its own: a signal to our group is then passed on like one to this process alone.
func isolateSignals(child *exec.Cmd) {
	child.SysProcAttr = endsWithParent()
	child.SysProcAttr.Setpgid = foreground() < 0
}

// fromTerminal reports whether the terminal has sent the signal, and so to the child as
// well. A signal that kill(1) sent to this process alone looks the same.
func fromTerminal(s os.Signal) bool {
	return (s == syscall.SIGINT || s == syscall.SIGQUIT) && foreground() == unix.Getpgrp()
}

// foreground is the process group to which the terminal sends its signals; -1 if this
// process has no terminal.
func foreground() int {
	terminal, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return -1
	}
	defer terminal.Close()
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}
