// Package summary says at the end of a run what became of its requests and connections. A
// [Summary] counts the proxy's decisions while the command runs; Print writes it, with what
// only the [End] shows.
package summary

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/sealed"
)

// A Summary counts the outcomes of the requests of one run.
type Summary struct {
	mu         sync.Mutex
	requests   int
	refused    int
	letThrough int // disallowed, but let through in mode report
	spared     int // allowed, but their use is refused, in preferences.mode report
	failed     int // allowed, but without a whole response: the origin's fault or the command's
	causes     map[cause]int
	others     int // refusals beyond maxCauses
}

// An End is what else is known when a run has ended.
type End struct {
	NoProxy    []string       // the hosts that no_proxy names
	Distrusted []string       // the hosts that the command did not ask because it does not trust the CA
	Sealed     *sealed.Report // nil if the command was not sealed
	Sealable   bool           // it was not, but could have been
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

// New returns an empty Summary.
func New() *Summary { return &Summary{causes: map[cause]int{}} }

// Add counts one decision. It is safe for concurrent use.
func (s *Summary) Add(d gate.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if d.Judgment == gate.Allowed && !d.Refused {
		if d.Error != "" {
			s.failed++
		}
		if !d.WouldRefuse {
			return
		}
	}
	switch {
	case d.Refused:
		s.refused++
	case d.WouldRefuse:
		s.spared++
	default:
		s.letThrough++
	}
	c := cause{d.Origin, printable.Cut(d.Why(), maxReasonLength), d.Refused}
	if _, known := s.causes[c]; !known && len(s.causes) == maxCauses {
		s.others++
		return
	}
	s.causes[c]++
}

// Print writes a line with the totals, then one for each origin and cause, the most
// frequent first, and then what is known of the connections that were not judged.
func (s *Summary) Print(w io.Writer, end End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	totals := []string{count(s.requests, "request"), fmt.Sprintf("%d refused", s.refused)}
	if s.letThrough > 0 {
		totals = append(totals, fmt.Sprintf("%d let through that robots.txt disallows (mode report)", s.letThrough))
	}
	if s.spared > 0 {
		totals = append(totals, fmt.Sprintf("%d let through whose use the site refuses (preferences.mode report)", s.spared))
	}
	if s.failed > 0 {
		totals = append(totals, fmt.Sprintf("%d broken off or not answered", s.failed))
	}
	if len(end.NoProxy) > 0 && end.Sealed == nil {
		totals = append(totals, "not judged, because of no_proxy: "+strings.Join(end.NoProxy, " "))
	}
	line := func(format string, args ...any) { fmt.Fprintf(w, "robotsproxy: "+format+"\n", args...) }
	line("%s", strings.Join(totals, ", "))
	if len(end.Distrusted) > 0 {
		line("the command does not seem to trust the proxy's CA: it closed the connection when it saw the certificate for %s", first(end.Distrusted, maxDistrusted))
	} else if s.requests == 0 && end.Sealed == nil {
		line("the command sent no request through the proxy; robotsproxy run --help says what each client needs")
	}
	for _, c := range s.sorted() {
		verb := "refused"
		if !c.refuse {
			verb = "reported"
		}
		line("%7d %s  %s  %s", s.causes[c], verb, c.origin, printable.Line(c.why))
	}
	if s.others > 0 {
		line("%7d more, of other sites", s.others)
	}
	if end.Sealed != nil {
		end.printSealed(line)
	}
	if end.Sealable {
		line("what went past the proxy was not seen; run --sealed leaves no way past it")
	}
}

// maxDestinations is how many destinations of connections are named each for itself.
const maxDestinations = 10

// printSealed says what became of connections that were not judged, and what the command
// could not be given.
func (end End) printSealed(line func(format string, args ...any)) {
	for _, c := range bounded(end.Sealed.Refused) {
		advice, verb := "", "were"
		if c.Destination != "" {
			advice = "; --allow " + c.Destination + " lets them pass"
		}
		if c.Connections == 1 {
			advice, verb = strings.Replace(advice, "them", "it", 1), "was"
		}
		line("%s to %s %s refused: only HTTP leads out%s", count(c.Connections, "connection"), cmp.Or(c.Destination, "other destinations"), verb, advice)
	}
	for _, allowed := range []struct {
		counts []sealed.Count
		format string
	}{
		{end.Sealed.Passed, "%s to %s passed without being judged, because of --allow"},
		{end.Sealed.Denied, "%s to %s refused: upstream.deny holds whatever --allow names"},
		{end.Sealed.Failed, "%s to %s failed, though --allow names it; --log-level warn says why"},
	} {
		for _, c := range bounded(allowed.counts) {
			line(allowed.format, count(c.Connections, "connection"), cmp.Or(c.Destination, "other destinations"))
		}
	}
	if len(end.NoProxy) > 0 {
		line("what no_proxy names was judged like all else: %s; --allow HOST:PORT lets a destination pass", strings.Join(end.NoProxy, " "))
	}
	for _, warning := range end.Sealed.Warnings {
		line("%s", printable.Line(warning))
	}
}

// bounded has the first of many counts, and at its end the others together.
func bounded(all []sealed.Count) (few []sealed.Count) {
	others := sealed.Count{}
	for _, c := range all {
		if c.Destination == "" || len(few) == maxDestinations {
			others.Connections += c.Connections
		} else {
			few = append(few, c)
		}
	}
	if others.Connections > 0 {
		few = append(few, others)
	}
	return few
}

// first names the first of many.
func first(names []string, most int) string {
	if n := len(names); n > most {
		names = append(names[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(names, " ")
}

// sorted returns the causes, the most frequent first.
func (s *Summary) sorted() []cause {
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
