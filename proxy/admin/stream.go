package admin

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/admin/ledger"
	"robotsproxy/proxy/decision"
)

const (
	// streamPoll is how often a stream looks for new decisions. Streams poll the ledger, so
	// that the gate never waits for a watcher.
	streamPoll = 100 * time.Millisecond
	// heartbeat is the longest time for which a stream is silent.
	heartbeat = 15 * time.Second
	// watcherTimeout is how long a write to a watcher may take.
	watcherTimeout = 30 * time.Second
	// streamBatch is how many octets are collected before they are sent.
	streamBatch = 64 << 10
)

// stream sends decisions as they are made, as server-sent events. A watcher that comes back,
// or names an event in "after", first gets the decisions since then that the ledger still
// holds. A watcher that misses some, because it is slow or comes late, is told how many.
func (a *Admin) stream(w http.ResponseWriter, r *http.Request) {
	f, ok := filterOf(w, r)
	if !ok {
		return
	}
	at := a.ledger.Newest()
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = r.URL.Query().Get("after")
	}
	if last != "" {
		at = min(at, a.numberOf(last))
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // else nginx holds the events back
	if r.Method == http.MethodHead {
		return
	}
	s := &eventStream{Admin: a, filter: f, at: at, to: w}
	tick := time.NewTicker(streamPoll)
	defer tick.Stop()
	for s.send() == nil {
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-a.closed:
			return
		}
	}
}

// An eventStream sends decisions to one watcher.
type eventStream struct {
	*Admin
	filter ledger.Filter
	to     http.ResponseWriter

	at    uint64 // the number of the last decision that was taken from the ledger
	wrote time.Time
	buf   [64]decision.Decision
	text  bytes.Buffer
}

// send writes what is new. An error means that the watcher has left or takes nothing.
func (s *eventStream) send() error {
	if s.wrote.IsZero() {
		s.text.WriteString("retry: 1000\n\n")
	}
	for more := true; more; {
		for more && s.text.Len() < streamBatch {
			more = s.take()
		}
		if s.text.Len() == 0 && time.Since(s.wrote) > heartbeat {
			s.text.WriteString(":\n\n")
		}
		if s.text.Len() == 0 {
			return nil
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}

// take appends some of what is new to text, and reports whether there may be more.
func (s *eventStream) take() (more bool) {
	n, missed := s.ledger.After(s.at, s.buf[:])
	s.at += missed
	if missed > 0 {
		fmt.Fprintf(&s.text, "event: dropped\nid: %s\ndata: {\"dropped\":%d}\n\n", s.eventID(s.at), missed)
	}
	for i := range s.buf[:n] {
		s.at++
		if d := &s.buf[i]; s.filter.Selects(d) {
			line, _ := printable.Marshal(d)
			fmt.Fprintf(&s.text, "id: %s\ndata: %s\n", s.eventID(s.at), line)
		}
	}
	return n == len(s.buf)
}

func (s *eventStream) flush() error {
	s.wrote = time.Now()
	out := http.NewResponseController(s.to)
	out.SetWriteDeadline(s.wrote.Add(watcherTimeout))
	if _, err := s.text.WriteTo(s.to); err != nil {
		return err
	}
	return out.Flush()
}

// eventID returns the ID of a decision: its number, and when this process started counting.
func (a *Admin) eventID(number uint64) string {
	return strconv.FormatInt(a.began.UnixMilli(), 36) + "-" + strconv.FormatUint(number, 36)
}

// numberOf returns the number in an event's ID. It is 0, which precedes all decisions, if the
// ID is from another process.
func (a *Admin) numberOf(id string) uint64 {
	_, digits, _ := strings.Cut(id, "-")
	number, err := strconv.ParseUint(digits, 36, 64)
	if err != nil || a.eventID(number) != id {
		return 0
	}
	return number
}
