package sealed

import (
	"cmp"
	"slices"
	"sync"
)

// A Report says what became of the connections that were not judged.
type Report struct {
	Refused []Count // those that spoke neither TLS nor HTTP, by destination
	Allowed []Count // those that were let through, by what allows them
	// Warnings are sentences about what the command could not be given.
	Warnings []string
}

// A Count is how many connections led to a destination, HOST:PORT; "" stands for all others
// together.
type Count struct {
	Destination string
	Connections int
}

// Report returns what has happened so far, the most frequent first.
func (n *Network) Report() Report {
	r := Report{}
	if n.inside != nil {
		r.Warnings = n.inside.Warnings
	}
	n.tally.mu.Lock()
	defer n.tally.mu.Unlock()
	r.Refused, r.Allowed = sorted(n.tally.refused), sorted(n.tally.allowed)
	return r
}

// maxDestinations bounds the destinations that are counted each for itself: a port scan has
// very many.
const maxDestinations = 1000

// A tally counts connections by destination. It is safe for concurrent use.
type tally struct {
	mu               sync.Mutex
	refused, allowed map[string]int
}

func (t *tally) addRefused(destination string) { t.add(&t.refused, destination) }
func (t *tally) addAllowed(destination string) { t.add(&t.allowed, destination) }

func (t *tally) add(counts *map[string]int, destination string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if *counts == nil {
		*counts = map[string]int{}
	}
	if _, known := (*counts)[destination]; !known && len(*counts) >= maxDestinations {
		destination = ""
	}
	(*counts)[destination]++
}

func sorted(counts map[string]int) []Count {
	var all []Count
	for destination, n := range counts {
		all = append(all, Count{destination, n})
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Connections, a.Connections), cmp.Compare(a.Destination, b.Destination))
	})
	return all
}
