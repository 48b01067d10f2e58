package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// becomes asks for a page until the answer has this status and this reason.
func (w *world) becomes(url string, status int, reason string) reply {
	w.t.Helper()
	requests := func() []string { return w.log.Lines(`"message":"request"`) }
	var r reply
	var last string
	waitFor(w.t, func() bool {
		seen := len(requests())
		r = w.curl(url)
		waitFor(w.t, func() bool { return len(requests()) > seen }, // the line may come a little after the answer
			func() string { return url + " is not logged" })
		lines := requests()
		last = lines[len(lines)-1]
		return r.status == status && strings.Contains(last, `"reason":"`+reason+`"`)
	}, func() string {
		return fmt.Sprintf("%s: status %d, want %d for reason %s; logged %s", url, r.status, status, reason, last)
	})
	return r
}

// Two sites fail for long, one with and one without a good copy, in milliseconds instead of
// days.
func TestSitesThatFailForLong(t *testing.T) {
	t.Parallel()
	const robots = "robots: {ttl: 500ms, min_ttl: 1ms, max_ttl: 500ms, retry_min: 20ms, retry_max: 40ms, "
	w := start(t, robots+"disallow_for: 1h, allow_after: 1h}")
	var text atomic.Value // "": the site fails
	text.Store("User-agent: *\nDisallow: /a\n")
	answer := func(rw http.ResponseWriter, _ *http.Request) {
		if text.Load() == "" {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
		io.WriteString(rw, text.Load().(string))
	}
	known, unknown := newOrigin(t, "http", answer, nil), newOrigin(t, "http", answer, nil)
	w.becomes(known.URL+"/a", 403, "rule")
	w.becomes(known.URL+"/b", 200, "no_rule")

	text.Store("")
	for _, o := range []*origin{known, unknown} {
		r := w.becomes(o.URL+"/b", 403, "unreachable")
		if r.header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
		}
	}
	since := func() (times []any) {
		for _, o := range []*origin{known, unknown} {
			p := w.ask("/api/v1/policy?origin=" + o.URL)
			p.want(t, "status", 503, "cause", "503 Service Unavailable")
			times = append(times, p["unreachable_since"])
		}
		return times
	}
	before := since()
	w.stop()
	w.run()
	if after := since(); before[0] == nil || before[1] == nil || after[0] != before[0] || after[1] != before[1] {
		t.Errorf("unreachable since %v, after a restart since %v", before, after)
	}

	w.stop()
	w.configure(robots + "disallow_for: 500ms, allow_after: 500ms}")
	w.run()
	w.becomes(known.URL+"/b", 200, "no_rule") // the last good copy holds again
	w.becomes(known.URL+"/a", 403, "rule")
	w.becomes(unknown.URL+"/a", 200, "unreachable_expired")

	text.Store("User-agent: *\nDisallow: /b\n")
	for _, o := range []*origin{known, unknown} {
		w.becomes(o.URL+"/b", 403, "rule")
		w.becomes(o.URL+"/a", 200, "no_rule")
	}
}
