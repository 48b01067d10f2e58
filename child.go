package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// The exit codes of run that are not its command's own, as env(1) and shells have
// them.
const (
	exitProxy         = 125 // the proxy could not start
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignalled     = 128 // and the signal's number
)

// supervise runs a command to its end with the signals that come for this process
// passed on to it. It returns its exit code, with an error where it could not be
// started.
func supervise(child *exec.Cmd) (code int, err error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedOn...)
	defer signal.Stop(signals)

	// The kernel ties a child to the thread that started it (see apart).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	apart(child)
	if err := child.Start(); err != nil {
		return startCode(err), fmt.Errorf("starting %s: %w", child.Args[0], err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		child.Wait() // the state says how it ended
	}()
	for {
		select {
		case s := <-signals:
			if !fromTerminal(s) {
				child.Process.Signal(s) // fails if it has just ended
			}
		case <-ended:
			return endCode(child.ProcessState), nil
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

func endCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignalled + int(status.Signal())
	}
	return state.ExitCode()
}
