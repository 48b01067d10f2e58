package sealed

import (
	"cmp"
	"slices"
	"sync"

	"robotsproxy/proxy/upstream"
)

// A Report says what became of the connections that were not judged. Its lists are never nil.
type Report struct {
	Refused []Count `json:"refused"` // those that spoke neither TLS nor HTTP, by destination
	// Of those that may pass without being judged, by what allows them:
	Passed []Count `json:"passed"` // those that were connected
	Denied []Count `json:"denied"` // those whose address upstream.deny keeps from being dialled
	Failed []Count `json:"failed"` // those that could not be connected for another reason

	// Warnings are sentences about what the command could not be given.
	Warnings []string `json:"warnings"`
}

// A Count is how many connections led to a destination, HOST:PORT; "" stands for all others
// together.
type Count struct {
	Destination string `json:"destination"`
	Connections int    `json:"connections"`
}

// Report returns what has happened so far, the most frequent first.
func (n *Network) Report() Report {
	r := Report{Warnings: []string{}}
	if n.inside != nil {
		r.Warnings = append(r.Warnings, n.inside.Warnings...)
	}
	n.tally.mu.Lock()
	defer n.tally.mu.Unlock()
	r.Refused = sorted(n.tally.refused)
	r.Passed, r.Denied, r.Failed = sorted(n.tally.passed), sorted(n.tally.denied), sorted(n.tally.failed)
	return r
}

// maxDestinations bounds the destinations that are counted each for itself: a port scan has
// very many.
const maxDestinations = 1000

// A tally counts connections by destination. It is safe for concurrent use.
type tally struct {
	mu                              sync.Mutex
	refused, passed, denied, failed map[string]int
}

func (t *tally) addRefused(destination string) { t.add(&t.refused, destination) }

// addAllowed counts a connection that was dialled without being judged; err says how that went.
func (t *tally) addAllowed(destination string, err error) {
	if err == nil {
		t.add(&t.passed, destination)
	} else if _, kind := upstream.Failure(err); kind == upstream.Prohibited {
		t.add(&t.denied, destination)
	} else {
		t.add(&t.failed, destination)
	}
}

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
	all := make([]Count, 0, len(counts))
	for destination, n := range counts {
		all = append(all, Count{destination, n})
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Connections, a.Connections), cmp.Compare(a.Destination, b.Destination))
	})
	return all
}
