package admin

import (
	"container/list"

	"robotsproxy/proxy/gate"
)

// maxCountedLines bounds the lines that are counted at once.
const maxCountedLines = 10_000

// A line is a line of one text of a robots.txt.
type line struct {
	origin, sha256 string
	number         int
}

// hits counts how often the lines of robots.txt files decided. When there are too many lines,
// it forgets the one whose last decision is the oldest.
type hits struct {
	counts map[line]*list.Element // of *hit
	order  list.List              // the last hit in front
}

type hit struct {
	line
	count uint64
}

func newHits() *hits { return &hits{counts: map[line]*list.Element{}} }

// add counts a decision, if a line of a robots.txt made it.
func (h *hits) add(d *gate.Decision) {
	if d.Line == 0 || d.RobotsSHA256 == "" || d.Reason != gate.ByRule && d.Reason != gate.NoRule {
		return
	}
	at := line{d.Origin, d.RobotsSHA256, d.Line}
	if e := h.counts[at]; e != nil {
		e.Value.(*hit).count++
		h.order.MoveToFront(e)
		return
	}
	if len(h.counts) >= maxCountedLines {
		oldest := h.order.Remove(h.order.Back()).(*hit)
		delete(h.counts, oldest.line)
	}
	h.counts[at] = h.order.PushFront(&hit{at, 1})
}

// of is how often a line has decided, if it is still counted; else 0.
func (h *hits) of(at line) uint64 {
	if e := h.counts[at]; e != nil {
		return e.Value.(*hit).count
	}
	return 0
}
