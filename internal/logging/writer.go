package logging

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

// A Writer takes the lines of the log and writes them in a goroutine of its own, so that
// callers never wait for the log's reader, and outlive it. Lines that cannot be written, or
// that find the buffer full because writing is slow, are dropped and counted. When writing
// succeeds again, a notice in the log says how many were lost.
//
// A Writer saves system calls when lines come fast: it writes the first line at once, and
// those of the next 10 ms together. Warnings and errors don't wait. Lines are never split
// or reordered.
type Writer struct {
	name    string                // of the file; "" for standard error
	console bool                  // see Console
	notice  func(lost int) []byte // makes the line about lost lines
	more    chan struct{}         // signals that there are lines, or a file to change to
	now     chan struct{}         // signals that the lines don't wait for the interval to end

	closing chan struct{}
	closed  chan struct{} // closed when all lines are written

	mu      sync.Mutex
	waiting []byte        // whole lines
	lost    int           // lines dropped since the last notice
	next    *os.File      // replaces out; nil: no change
	dropped atomic.Uint64 // lines dropped so far

	// Only the goroutine that writes uses these.
	out  io.Writer
	torn bool // only a part of the last line was written
}

const (
	writeInterval = 10 * time.Millisecond // a crash loses the lines of this time at most
	flushSize     = 32 << 10              // octets that don't wait for the interval to end
	bufferSize    = 1 << 20               // octets that may wait
	closeTimeout  = time.Second           // how long Close waits for the last lines
)

// openWriter makes a Writer to the named file, or to stderr if name is "". Callers must
// call Close after the last line.
func openWriter(name string, stderr io.Writer, notice func(lost int) []byte) (*Writer, error) {
	w := &Writer{
		name: name, out: stderr, notice: notice,
		more: make(chan struct{}, 1), now: make(chan struct{}, 1),
		closing: make(chan struct{}), closed: make(chan struct{}),
	}
	if name != "" {
		f, err := openFile(name)
		if err != nil {
			return nil, err
		}
		w.out = f
	}
	go w.run()
	return w, nil
}

// openFile opens a file to append to. Only the owner may read a new file, because it says
// who asked for what.
func openFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w; name another file with --log-file", err)
	}
	return f, nil
}

// Reopen opens the file by its name again and continues there: a tool that rotates logs
// renames the old file and then has this called. On an error the old file stays in use.
// Reopen does nothing if the log goes to standard error.
func (w *Writer) Reopen() error {
	if w.name == "" {
		return nil
	}
	f, err := openFile(w.name)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next != nil {
		w.next.Close()
	}
	w.next = f
	signalOnce(w.more)
	signalOnce(w.now)
	return nil
}

// WriteLevel takes one line. It never waits, and returns no error.
func (w *Writer) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting)+len(line) > bufferSize {
		w.lost++
		w.dropped.Add(1)
		return len(line), nil
	}
	w.waiting = append(w.waiting, line...)
	signalOnce(w.more)
	if level >= zerolog.WarnLevel || len(w.waiting) >= flushSize {
		signalOnce(w.now)
	}
	return len(line), nil
}

// Write takes one line that has no level, like WriteLevel.
func (w *Writer) Write(line []byte) (int, error) { return w.WriteLevel(zerolog.NoLevel, line) }

// Console reports whether lines are written for people, not in JSON.
func (w *Writer) Console() bool { return w.console }

// Lost returns how many lines have been dropped so far.
func (w *Writer) Lost() uint64 { return w.dropped.Load() }

// signalOnce signals on a channel with room for one signal. If there is one already, it
// does nothing.
func signalOnce(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (w *Writer) run() {
	defer close(w.closed)
	interval := time.NewTimer(writeInterval)
	defer interval.Stop()
	var spare []byte
	for {
		select {
		case <-w.more:
		case <-w.closing:
			w.write(spare)
			return
		}
		select { // drop an earlier signal: its lines are written now
		case <-w.now:
		default:
		}
		spare = w.write(spare)
		interval.Reset(writeInterval)
		select {
		case <-interval.C:
		case <-w.now:
		case <-w.closing:
		}
	}
}

// write writes the waiting lines. It returns their buffer for reuse.
func (w *Writer) write(spare []byte) []byte {
	w.mu.Lock()
	lines, lost, next := w.waiting, w.lost, w.next
	w.waiting, w.lost, w.next = spare[:0], 0, nil
	w.mu.Unlock()
	if next != nil {
		w.closeFile()
		w.out, w.torn = next, false
	}
	if w.torn {
		lines = append([]byte{'\n'}, lines...)
	}
	if lost > 0 {
		lines = append(lines, w.notice(lost)...)
	}
	if len(lines) == 0 {
		return lines
	}
	n, err := w.out.Write(lines)
	w.torn = n > 0 && lines[n-1] != '\n' || n == 0 && w.torn
	if err != nil {
		w.drop(lines[n:], lost)
	}
	return lines
}

// drop counts lines that could not be written. If lines had been lost before, the last of
// lines is the notice about them, which does not count.
func (w *Writer) drop(lines []byte, before int) {
	dropped := bytes.Count(lines, []byte{'\n'})
	if before > 0 {
		dropped--
	}
	w.dropped.Add(uint64(max(dropped, 0)))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost += max(dropped, 0) + before
}

// Close writes the waiting lines and closes the file. It waits a second at most. If the log
// goes to a file, the error says how many of its last lines are lost.
func (w *Writer) Close() error {
	close(w.closing)
	select {
	case <-w.closed:
	case <-time.After(closeTimeout):
		return nil // there is no other place to report it
	}
	if w.lost > 0 && w.name != "" {
		return errors.Join(fmt.Errorf("writing the log: its last %d lines are lost", w.lost), w.closeFile())
	}
	return w.closeFile()
}

func (w *Writer) closeFile() error {
	if f, ok := w.out.(*os.File); ok && w.name != "" {
		return f.Close()
	}
	return nil
}
