package main

import (
	"bufio"
	"bytes"
	"strings"
	"sync"
)

// A journal is the log of a proxy. It keeps the end, and looks for what must not be in it.
type journal struct {
	checker *checker
	name    string // of the proxy

	mu    sync.Mutex
	limit int // in octets, of what is kept
	text  []byte
}

func newJournal(name string, check *checker) *journal {
	return &journal{checker: check, name: name, limit: 16 << 10}
}

// calamities are parts of lines that no log may have.
var calamities = []string{`"panic":`, "panic: ", "fatal error: ", "WARNING: DATA RACE"}

func (j *journal) Write(p []byte) (int, error) {
	for lines := bufio.NewScanner(bytes.NewReader(p)); lines.Scan(); {
		for _, calamity := range calamities {
			if strings.Contains(lines.Text(), calamity) {
				j.checker.fail("%s logs: %.2000s", j.name, lines.Text())
			}
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text = append(j.text, p...)
	if len(j.text) > 2*j.limit {
		j.text = append([]byte(nil), j.text[len(j.text)-j.limit:]...)
	}
	return len(p), nil
}

// keep has the journal keep more.
func (j *journal) keep(limit int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.limit = limit
}

func (j *journal) tail() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return string(j.text)
}
