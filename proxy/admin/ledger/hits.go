package ledger

import (
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"robotsproxy/proxy/decision"
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
	counts *simplelru.LRU[Line, *uint64]
}

func newHits() *hits {
	counts, _ := simplelru.NewLRU[Line, *uint64](maxCountedLines, nil) // it fails if the size is not positive
	return &hits{counts}
}

// add counts a decision, if a line of a robots.txt made it.
func (h *hits) add(d *decision.Decision) {
	if d.Line == 0 || d.RobotsSHA256 == "" || d.Reason != decision.ByRule && d.Reason != decision.NoRule && d.Reason != decision.ByPreference {
		return
	}
	at := Line{d.Origin, d.RobotsSHA256, d.Line}
	if count, counted := h.counts.Get(at); counted {
		*count++
		return
	}
	h.counts.Add(at, new(uint64(1)))
}

// of returns how often a line has decided; 0 if it is no longer counted.
func (h *hits) of(at Line) uint64 {
	if count, counted := h.counts.Peek(at); counted {
		return *count
	}
	return 0
}
