// Package logtest captures logs for tests.
package logtest

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// lineTimeout ends a test whose line does not come. It is no measure of what is slow.
const lineTimeout = 2 * time.Minute

// Buffer holds what was written to a log. Any number of goroutines may write and
// read it. The zero Buffer is empty and ready.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed at the next Write, if somebody waits for it
}

// Write never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more != nil {
		close(b.more)
		b.more = nil
	}
	return b.text.Write(p)
}

// Read returns the whole text, and a channel that is closed when there is more.
func (b *Buffer) Read() (text string, more <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more == nil {
		b.more = make(chan struct{})
	}
	return b.text.String(), b.more
}

// String returns the whole text.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Count returns how often the text has these words.
func (b *Buffer) Count(words string) int { return strings.Count(b.String(), words) }

// Lines returns the complete lines that hold all parts.
func (b *Buffer) Lines(parts ...string) []string { return LinesWith(b.String(), parts...) }

// WaitLine waits for a line that holds all parts and returns the first one. When ended is
// closed there will be no more lines; nil stands for a log that does not end. The test
// fails if there is no such line.
func (b *Buffer) WaitLine(t testing.TB, ended <-chan struct{}, parts ...string) string {
	t.Helper()
	timeout := time.After(lineTimeout)
	for last := false; ; {
		text, more := b.Read()
		if found := LinesWith(text, parts...); len(found) > 0 {
			return found[0]
		}
		if last {
			t.Fatalf("no line with %q in the log:\n%s", parts, text)
		}
		select {
		case <-more:
		case <-ended:
			last = true
		case <-timeout:
			last = true
		}
	}
}

// LinesWith returns the complete lines of a text that hold all parts.
func LinesWith(text string, parts ...string) (found []string) {
	for line := range strings.Lines(text) {
		lacks := func(part string) bool { return !strings.Contains(line, part) }
		if strings.HasSuffix(line, "\n") && !slices.ContainsFunc(parts, lacks) {
			found = append(found, line)
		}
	}
	return found
}
