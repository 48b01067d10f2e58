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

// A logWriter takes the lines of the log and writes them from a goroutine of its own:
// who logs never waits for who reads the log, and does not die of their leaving.
// Lines that cannot be written, or for which there is no room because writing takes
// too long, are dropped, counted and told of when lines flow again.
//
// It saves calls to the system where lines come fast: the first is written at once,
// those that follow within logWriteInterval are written together after it. A warning or an
// error does not wait. Lines are never split or put in another order.
type logWriter struct {
	name   string // of the file; "" for standard error
	notice func(lost int) []byte
	more   chan struct{} // there are lines, or they are to go to another file
	now    chan struct{} // they do not wait for the rest to be over

	closing chan struct{}
	closed  chan struct{} // all is written

	mu      sync.Mutex
	waiting []byte   // whole lines
	lost    int      // lines that were dropped since it was last told
	next    *os.File // takes the place of out
	dropped atomic.Uint64

	// Of the goroutine that writes:
	out  io.Writer
	torn bool // the last line was written only in part
}

const (
	logWriteInterval = 10 * time.Millisecond // what a crash could cost
	logFlushSize     = 32 << 10              // octets that do not wait for the rest to be over
	logBufferSize    = 1 << 20               // octets that wait at most
	logCloseTimeout  = time.Second           // for what waits at the end
)

// openLogWriter begins to write to the file of that name, or to stderr if it is "".
// notice makes the line that says how many were lost. The caller closes the writer when
// all has been logged.
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

// openLogFile opens a file to append to. One that it makes is for its owner alone: it
// says who asked for what.
func openLogFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w; name another file with --log-file", err)
	}
	return f, nil
}

// Reopen goes on in a new file where the old one has been given another name. An error
// leaves all as it was.
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

// Write takes one line of no level, which does not wait.
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
	rest := time.NewTimer(logWriteInterval)
	defer rest.Stop()
	var spare []byte
	for {
		select {
		case <-l.more:
		case <-l.closing:
			l.write(spare)
			return
		}
		select { // what it was for is written now
		case <-l.now:
		default:
		}
		spare = l.write(spare)
		rest.Reset(logWriteInterval)
		select {
		case <-rest.C:
		case <-l.now:
		case <-l.closing:
		}
	}
}

// write writes what waits, and returns its room for what comes then.
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

// drop counts lines that could not be written. The last of them told of those that
// were lost before, if there were any.
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

// Close writes what waits, but leaves it if that takes too long.
func (l *logWriter) Close() error {
	close(l.closing)
	select {
	case <-l.closed:
	case <-time.After(logCloseTimeout):
		return nil // nobody can be told
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
