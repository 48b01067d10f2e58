package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/gate"
)

// A summary counts the outcomes of the requests of one run.
type summary struct {
	mu         sync.Mutex
	requests   int
	refused    int
	letThrough int // disallowed, but let through in mode report
	failed     int // allowed, but without a whole response: the origin's fault or the command's
	causes     map[cause]int
	others     int // refusals beyond maxCauses
}

// A cause is what refused a request, or would have refused it in mode enforce.
type cause struct {
	origin string
	why    string
	refuse bool
}

// Bounds of the memory for causes: a crawl may meet any number of origins, with rules of
// any length.
const (
	maxCauses       = 10_000
	maxReasonLength = 300 // octets
)

// maxDistrusted is how many of the distrusted hosts are named.
const maxDistrusted = 5

func newSummary() *summary { return &summary{causes: map[cause]int{}} }

// add counts one decision. It is safe for concurrent use.
func (s *summary) add(d gate.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if d.Judgment == gate.Allowed && !d.Refused {
		if d.Error != "" {
			s.failed++
		}
		return
	}
	if d.Refused {
		s.refused++
	} else {
		s.letThrough++
	}
	c := cause{d.Origin, printable.Cut(d.Why(), maxReasonLength), d.Refused}
	if _, known := s.causes[c]; !known && len(s.causes) == maxCauses {
		s.others++
		return
	}
	s.causes[c]++
}

// print writes a line with the totals, then one for each origin and cause, the most
// frequent first. exempt are the hosts that no_proxy excludes. distrusted are those that the
// command did not ask because it does not trust the CA.
func (s *summary) print(w io.Writer, exempt, distrusted []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	totals := []string{count(s.requests, "request"), fmt.Sprintf("%d refused", s.refused)}
	if s.letThrough > 0 {
		totals = append(totals, fmt.Sprintf("%d let through that robots.txt disallows (mode report)", s.letThrough))
	}
	if s.failed > 0 {
		totals = append(totals, fmt.Sprintf("%d broken off or not answered", s.failed))
	}
	if len(exempt) > 0 {
		totals = append(totals, "not judged, because of no_proxy: "+strings.Join(exempt, " "))
	}
	fmt.Fprintf(w, "robotsproxy: %s\n", strings.Join(totals, ", "))
	if n := len(distrusted); n > 0 {
		if n > maxDistrusted {
			distrusted = append(distrusted[:maxDistrusted:maxDistrusted], fmt.Sprintf("and %d more", n-maxDistrusted))
		}
		fmt.Fprintf(w, "robotsproxy: the command does not seem to trust the proxy's CA: it closed the connection when it saw the certificate for %s\n", strings.Join(distrusted, " "))
	} else if s.requests == 0 {
		fmt.Fprintln(w, "robotsproxy: the command sent no request through the proxy; robotsproxy run --help says what each client needs")
	}
	for _, c := range s.sorted() {
		verb := "refused"
		if !c.refuse {
			verb = "reported"
		}
		fmt.Fprintf(w, "robotsproxy: %7d %s  %s  %s\n", s.causes[c], verb, c.origin, printable.Line(c.why))
	}
	if s.others > 0 {
		fmt.Fprintf(w, "robotsproxy: %7d more, of other sites\n", s.others)
	}
}

// sorted returns the causes, the most frequent first.
func (s *summary) sorted() []cause {
	all := make([]cause, 0, len(s.causes))
	for c := range s.causes {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b cause) int {
		return cmp.Or(cmp.Compare(s.causes[b], s.causes[a]), cmp.Compare(a.origin, b.origin), cmp.Compare(a.why, b.why))
	})
	return all
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
