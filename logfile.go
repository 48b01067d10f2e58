package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// A logFile saves calls to the system where lines come fast: the first is written
// at once, those that follow within a rest are written together after it. A warning
// or an error does not wait, nor does what came before it. Lines are never split
// or put in another order.
type logFile struct {
	file *os.File

	mu      sync.Mutex
	waiting []byte // whole lines
	rest    *time.Timer
	resting bool
	failed  error // why those that had waited were not written
}

const (
	rest        = 10 * time.Millisecond // what a crash could cost
	mostWaiting = 32 << 10              // octets
)

// openLogFile opens a file to append to. One that it makes is for its owner alone: it
// says who asked for what. The caller closes it when all has been logged.
func openLogFile(name string) (*logFile, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w; name another file with --log-file", err)
	}
	l := &logFile{file: f}
	l.rest = time.AfterFunc(rest, l.rested)
	return l, nil
}

// WriteLevel takes one line. An error may be about an earlier one.
func (l *logFile) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, line...)
	err := l.failed
	l.failed = nil
	if !l.resting || level >= zerolog.WarnLevel || len(l.waiting) >= mostWaiting {
		err = errors.Join(err, l.flush())
	}
	return len(line), err
}

// Write takes one line of no level, which does not wait.
func (l *logFile) Write(line []byte) (int, error) { return l.WriteLevel(zerolog.NoLevel, line) }

// flush writes what waits and begins a rest. The caller holds the lock.
func (l *logFile) flush() error {
	_, err := l.file.Write(l.waiting)
	l.waiting = l.waiting[:0]
	l.resting = true
	l.rest.Reset(rest)
	return err
}

func (l *logFile) rested() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resting = len(l.waiting) > 0; l.resting {
		l.failed = l.flush()
	}
}

// Close writes what waits.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.failed
	if len(l.waiting) > 0 {
		err = errors.Join(err, l.flush())
	}
	l.rest.Stop()
	return errors.Join(err, l.file.Close())
}
