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
	mu        sync.Mutex
	requests  int
	refused   int
	disobeyed int // let through in mode report
	failed    int // allowed, but without a whole response: the origin's fault or the command's
	causes    map[cause]int
	others    int // refusals beyond maxCauses
}

// A cause is what refused a request, or would have in mode enforce.
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

// maxDistrusted is how many hosts are named that the command distrusts.
const maxDistrusted = 5

func newSummary() *summary { return &summary{causes: map[cause]int{}} }

// add counts one decision. It is safe for concurrent use.
func (t *summary) add(d gate.Decision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests++
	if d.Judgment == gate.Allowed && !d.Refused {
		if d.Error != "" {
			t.failed++
		}
		return
	}
	if d.Refused {
		t.refused++
	} else {
		t.disobeyed++
	}
	c := cause{d.Origin, printable.Cut(d.Why(), maxReasonLength), d.Refused}
	if _, known := t.causes[c]; !known && len(t.causes) == maxCauses {
		t.others++
		return
	}
	t.causes[c]++
}

// print writes a line with the totals, then one for each origin and cause, the most
// frequent first. exempt are the hosts that no_proxy excludes, distrusted those that the
// command did not ask because it does not trust the CA.
func (t *summary) print(w io.Writer, exempt, distrusted []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	totals := []string{count(t.requests, "request"), fmt.Sprintf("%d refused", t.refused)}
	if t.disobeyed > 0 {
		totals = append(totals, fmt.Sprintf("%d let through that robots.txt disallows (mode report)", t.disobeyed))
	}
	if t.failed > 0 {
		totals = append(totals, fmt.Sprintf("%d broken off or not answered", t.failed))
	}
	if len(exempt) > 0 {
		totals = append(totals, "not judged, because of no_proxy: "+strings.Join(exempt, " "))
	}
	fmt.Fprintf(w, "robotsproxy: %s\n", strings.Join(totals, ", "))
	if n := len(distrusted); n > 0 {
		if n > maxDistrusted {
			distrusted = append(distrusted[:maxDistrusted:maxDistrusted], fmt.Sprintf("and %d more", n-maxDistrusted))
		}
		fmt.Fprintf(w, "robotsproxy: the command does not trust the proxy's CA, as it seems; it left when it saw the certificate for %s\n", strings.Join(distrusted, " "))
	} else if t.requests == 0 {
		fmt.Fprintln(w, "robotsproxy: the command asked for nothing through the proxy; what each client needs: robotsproxy run --help")
	}
	for _, c := range t.sorted() {
		verb := "refused"
		if !c.refuse {
			verb = "reported"
		}
		fmt.Fprintf(w, "robotsproxy: %7d %s  %s  %s\n", t.causes[c], verb, c.origin, printable.Line(c.why))
	}
	if t.others > 0 {
		fmt.Fprintf(w, "robotsproxy: %7d more, of other sites\n", t.others)
	}
}

// sorted are the causes, the most frequent first.
func (t *summary) sorted() []cause {
	all := make([]cause, 0, len(t.causes))
	for c := range t.causes {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b cause) int {
		return cmp.Or(cmp.Compare(t.causes[b], t.causes[a]), cmp.Compare(a.origin, b.origin), cmp.Compare(a.why, b.why))
	})
	return all
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
