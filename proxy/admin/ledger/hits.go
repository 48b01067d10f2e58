package ledger

import (
	"container/list"

	"robotsproxy/proxy/gate"
)

// maxCountedLines bounds the lines that are counted at once.
const maxCountedLines = 10_000

// A Line is a line of one version of an origin's robots.txt.
type Line struct {
	Origin string
	SHA256 string // of the text, in hexadecimal
	Number int    // from 1
}

// hits counts how often the lines of robots.txt files have decided. When there are too many
// lines, it forgets the one whose last decision is the oldest.
type hits struct {
	counts map[Line]*list.Element // of *hit
	order  list.List              // the last hit in front
}

type hit struct {
	Line
	count uint64
}

func newHits() *hits { return &hits{counts: map[Line]*list.Element{}} }

// add counts a decision, if a line of a robots.txt made it.
func (h *hits) add(d *gate.Decision) {
	if d.Line == 0 || d.RobotsSHA256 == "" || d.Reason != gate.ByRule && d.Reason != gate.NoRule {
		return
	}
	at := Line{d.Origin, d.RobotsSHA256, d.Line}
	if e := h.counts[at]; e != nil {
		e.Value.(*hit).count++
		h.order.MoveToFront(e)
		return
	}
	if len(h.counts) >= maxCountedLines {
		oldest := h.order.Remove(h.order.Back()).(*hit)
		delete(h.counts, oldest.Line)
	}
	h.counts[at] = h.order.PushFront(&hit{at, 1})
}

// of returns how often a line has decided; 0 if it is no longer counted.
func (h *hits) of(at Line) uint64 {
	if e := h.counts[at]; e != nil {
		return e.Value.(*hit).count
	}
	return 0
}
