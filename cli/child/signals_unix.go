//go:build unix

package child

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

// prepare sets what Run needs in cmd.SysProcAttr. With a terminal, the child stays in our
// process group, so that Ctrl-Z and job control work. The terminal signals both, so Run
// doesn't pass its signals on. Without a terminal, the child gets a process group of its
// own: then a signal to our group reaches it once, by Run.
func prepare(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	endWithParent(cmd.SysProcAttr)
	cmd.SysProcAttr.Setpgid = foreground() < 0
}

// fromTerminal reports whether the terminal has sent the signal, in which case the child
// has it too. A signal that kill(1) sends to this process alone looks the same.
func fromTerminal(s os.Signal) bool {
	return (s == syscall.SIGINT || s == syscall.SIGQUIT) && foreground() == unix.Getpgrp()
}

// foreground is the process group to which the terminal sends its signals, or -1 if this
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
