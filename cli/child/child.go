// Package child looks after the command that `robotsproxy run` starts. Run starts it,
// passes signals on to it, waits for it and says how it has ended; it is the only place that
// does any of this. CommandUsers tells which connections come from the command's
// processes. A Folder holds the files that they read.
package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
)

// The exit codes of a command that did not end by itself. env(1) and shells use the same.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignalled     = 128 // and the signal's number
)

// Command returns the named command with its arguments, for Run. The caller may set its
// streams, its environment and its SysProcAttr.
func Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	if errors.Is(cmd.Err, exec.ErrDot) {
		cmd.Err = nil // the user has put "." in PATH
	}
	return cmd
}

// NotifySignals sends the signals that are meant for the command to a channel, until stop
// is called, instead of letting them end this process. A signal that this process was
// started to ignore, as by nohup, stays ignored, by the command too.
func NotifySignals() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 16)
	signal.Notify(c, slices.DeleteFunc(slices.Clone(forwardedSignals), signal.Ignored)...)
	// If the reader of standard error leaves, neither the proxy nor the exit code changes.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return c, func() { signal.Stop(c) }
}

// An Ending says how a command has ended.
type Ending struct {
	Code   int            // the exit code that tells of it
	Signal syscall.Signal // that ended it; 0: none
}

// BySignal is the ending of a command that signal s ended.
func BySignal(s syscall.Signal) Ending { return Ending{exitSignalled + int(s), s} }

// Run starts a command by start, which does what cmd.Start does, passes on to the command
// the signals that come, and waits for its end. If the command could not be started, it
// returns an error as well, and the code 127 if there is no such command, else 126. If a
// signal came earlier, the command is not started, and counts as ended by it.
func Run(cmd *exec.Cmd, start func() error, signals <-chan os.Signal) (Ending, error) {
	select {
	case s := <-signals:
		return BySignal(s.(syscall.Signal)), nil
	default:
	}
	// The kernel ties a child to the thread that started it (see endWithParent).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	prepare(cmd)
	name := cmd.Args[0] // start may change it
	if err := start(); err != nil {
		return Ending{Code: startCode(err)}, startError(name, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait() // its error says no more than cmd.ProcessState
	}()
	for {
		select {
		case s := <-signals:
			if !fromTerminal(s) {
				cmd.Process.Signal(s) // fails if the command has just ended
			}
		case <-ended:
			return ending(cmd.ProcessState), nil
		}
	}
}

// startCode is the exit code for a command that could not be started.
func startCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotExecutable
}

func startError(name string, err error) error {
	err = fmt.Errorf("starting %s: %w", name, err)
	if errors.Is(err, syscall.ENOEXEC) {
		err = fmt.Errorf("%w; begin a shell script with the line #!/bin/sh", err)
	}
	return err
}

func ending(state *os.ProcessState) Ending {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return BySignal(status.Signal())
	}
	return Ending{Code: state.ExitCode()}
}
