package cli

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

// The exit codes of run that are not its command's own. env(1) and shells use the same.
const (
	exitProxy         = 125 // the proxy could not start
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignalled     = 128 // and the signal's number
)

// notifySignals sends the signals that are for the command to a channel, until stop is
// called, instead of letting them end this process. Signals that this process was started
// to ignore, as by nohup, stay ignored, by the command too.
func notifySignals() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 16)
	signal.Notify(signals, slices.DeleteFunc(slices.Clone(forwardedSignals), signal.Ignored)...)
	// If the reader of standard error leaves, neither the proxy nor the exit code changes.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return signals, func() { signal.Stop(signals) }
}

// supervise runs a command to its end, and passes on to it the signals that come for this
// process. It returns the command's exit code, with an error if the command could not be
// started. If a signal came earlier, the command is not started.
func supervise(child *exec.Cmd, signals <-chan os.Signal) (code int, err error) {
	select {
	case s := <-signals:
		return exitSignalled + int(s.(syscall.Signal)), nil
	default:
	}
	// The kernel ties a child to the thread that started it (see isolateSignals).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	isolateSignals(child)
	if err := child.Start(); err != nil {
		return startCode(err), startError(child.Args[0], err)
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

func startError(name string, err error) error {
	err = fmt.Errorf("starting %s: %w", name, err)
	if errors.Is(err, syscall.ENOEXEC) {
		err = fmt.Errorf("%w; begin a shell script with the line #!/bin/sh", err)
	}
	return err
}

func endCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignalled + int(status.Signal())
	}
	return state.ExitCode()
}
