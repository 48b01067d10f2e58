package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// A logWriter takes the lines of the log and writes them in a goroutine of its own, so
// that callers never wait for a reader of the log, and survive one that leaves. Lines that
// cannot be written, or that find the buffer full because writing is slow, are dropped
// and counted. When writing succeeds again, a notice in the log says how many were lost.
//
// It saves system calls when lines come fast: the first is written at once, and those that
// follow within logWriteInterval are written together after it. Warnings and errors don't
// wait. Lines are never split or reordered.
type logWriter struct {
	name   string // of the file; "" for standard error
	notice func(lost int) []byte
	more   chan struct{} // there are lines, or a file to change to
	now    chan struct{} // the lines don't wait for the interval to end

	closing chan struct{}
	closed  chan struct{} // all is written

	mu      sync.Mutex
	waiting []byte   // whole lines
	lost    int      // lines dropped since the last notice
	next    *os.File // replaces out; nil: no change
	dropped atomic.Uint64

	// Only the goroutine that writes uses these.
	out  io.Writer
	torn bool // the last line was written only in part
}

const (
	logWriteInterval = 10 * time.Millisecond // a crash may lose this much
	logFlushSize     = 32 << 10              // octets that are written before the interval ends
	logBufferSize    = 1 << 20               // octets that may wait
	logCloseTimeout  = time.Second           // for the last lines
)

// openLogWriter makes a writer to the named file, or to stderr if name is "". notice makes
// the line that says how many lines were lost. Callers must call Close after the last line.
func openLogWriter(name string, stderr io.Writer, notice func(lost int) []byte) (*logWriter, error) {
	l := &logWriter{
		name: name, out: stderr, notice: notice,
		more: make(chan struct{}, 1), now: make(chan struct{}, 1),
		closing: make(chan struct{}), closed: make(chan struct{}),
	}
	if name != "" {
		f, err := openLogFile(name)
		if err != nil {
			return nil, err
		}
		l.out = f
	}
	go l.run()
	return l, nil
}

// openLogFile opens a file to append to. A new file can be read by its owner alone,
// because it says who asked for what.
func openLogFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w; name another file with --log-file", err)
	}
	return f, nil
}

// Reopen opens the file of the same name again and continues there, for when the old
// file has been renamed. On an error the old file stays in use.
func (l *logWriter) Reopen() error {
	if l.name == "" {
		return nil
	}
	f, err := openLogFile(l.name)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next != nil {
		l.next.Close()
	}
	l.next = f
	signalOnce(l.more)
	signalOnce(l.now)
	return nil
}

// WriteLevel takes one line. It never waits, and returns no error.
func (l *logWriter) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting)+len(line) > logBufferSize {
		l.lost++
		l.dropped.Add(1)
		return len(line), nil
	}
	l.waiting = append(l.waiting, line...)
	signalOnce(l.more)
	if level >= zerolog.WarnLevel || len(l.waiting) >= logFlushSize {
		signalOnce(l.now)
	}
	return len(line), nil
}

// Write takes one line without a level.
func (l *logWriter) Write(line []byte) (int, error) { return l.WriteLevel(zerolog.NoLevel, line) }

// signalOnce signals on a channel with room for one.
func signalOnce(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (l *logWriter) run() {
	defer close(l.closed)
	interval := time.NewTimer(logWriteInterval)
	defer interval.Stop()
	var spare []byte
	for {
		select {
		case <-l.more:
		case <-l.closing:
			l.write(spare)
			return
		}
		select { // an earlier signal: its lines are written now
		case <-l.now:
		default:
		}
		spare = l.write(spare)
		interval.Reset(logWriteInterval)
		select {
		case <-interval.C:
		case <-l.now:
		case <-l.closing:
		}
	}
}

// write writes the waiting lines. It returns their buffer for reuse.
func (l *logWriter) write(spare []byte) []byte {
	l.mu.Lock()
	lines, lost, next := l.waiting, l.lost, l.next
	l.waiting, l.lost, l.next = spare[:0], 0, nil
	l.mu.Unlock()
	if next != nil {
		l.closeFile()
		l.out, l.torn = next, false
	}
	if l.torn {
		lines = append([]byte{'\n'}, lines...)
	}
	if lost > 0 {
		lines = append(lines, l.notice(lost)...)
	}
	if len(lines) == 0 {
		return lines
	}
	n, err := l.out.Write(lines)
	l.torn = n > 0 && lines[n-1] != '\n' || n == 0 && l.torn
	if err != nil {
		l.drop(lines[n:], lost)
	}
	return lines
}

// drop counts lines that could not be written. If lines were lost before, the last of
// these is the notice about them, which is no line of the log's own.
func (l *logWriter) drop(lines []byte, before int) {
	dropped := bytes.Count(lines, []byte{'\n'})
	if before > 0 {
		dropped--
	}
	l.dropped.Add(uint64(max(dropped, 0)))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += max(dropped, 0) + before
}

// Close writes the waiting lines, for logCloseTimeout at most.
func (l *logWriter) Close() error {
	close(l.closing)
	select {
	case <-l.closed:
	case <-time.After(logCloseTimeout):
		return nil // the log is the only place to report this
	}
	if l.lost > 0 && l.name != "" {
		return errors.Join(fmt.Errorf("writing the log: its last %d lines are lost", l.lost), l.closeFile())
	}
	return l.closeFile()
}

func (l *logWriter) closeFile() error {
	if f, ok := l.out.(*os.File); ok && l.name != "" {
		return f.Close()
	}
	return nil
}
