package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// maxUnwritten is how many policies may have decided requests without being on disk:
// maxPending in writebehind, and those that robots.max_fetches fetch at once.
const maxUnwritten = 256 + 256

// A crawl asks one page of each of many sites, which all answer through one parent proxy.
type crawl struct {
	w       *world
	parent  *origin
	next    atomic.Int64 // number of the next site
	mu      sync.Mutex
	decided map[string]time.Time // by origin: when the client had the page
}

func newCrawl(t *testing.T) *crawl {
	parent := newOrigin(t, "http", shop(), nil)
	w := newWorld(t, fmt.Sprintf("upstream: {proxy: %q, ca_file: ORIGINS}\nlog: {decisions: none}", parent.URL))
	return &crawl{w: w, parent: parent, decided: map[string]time.Time{}}
}

// visit asks for pages of so many new sites, or until the proxy is gone.
func (c *crawl) visit(sites int64) {
	last := c.next.Load() + sites
	var asking sync.WaitGroup
	for range 32 {
		asking.Go(func() {
			client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: c.w.proxy})}}
			defer client.CloseIdleConnections()
			for n := c.next.Add(1); n <= last; n = c.next.Add(1) {
				origin := fmt.Sprintf("http://site-%d.example", n)
				resp, err := client.Get(origin + "/products/1")
				if err != nil {
					return
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					c.w.t.Errorf("%s: %s", origin, resp.Status)
				}
				c.mu.Lock()
				c.decided[origin] = time.Now()
				c.mu.Unlock()
			}
		})
	}
	asking.Wait()
}

func (c *crawl) visited() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.decided)
}

// kept are the origins whose policies a proxy knows that shares nothing with the killed one
// but its disk.
func (c *crawl) kept(by *world) map[string]bool {
	kept, after := map[string]bool{}, ""
	for {
		page := by.ask("/api/v1/policies?limit=500&after=" + url.QueryEscape(after))
		policies, _ := page["policies"].([]any)
		for _, p := range policies {
			kept[p.(map[string]any)["origin"].(string)] = true
		}
		if after, _ = page["next"].(string); after == "" {
			return kept
		}
	}
}

// After kill -9 every policy that decided a request is on disk, but for the last few.
func TestKilledProxyLosesFewPolicies(t *testing.T) {
	t.Parallel()
	c := newCrawl(t)
	w := c.w
	w.run()
	t.Cleanup(w.stop)

	visiting := make(chan struct{})
	go func() {
		defer close(visiting)
		c.visit(1 << 20)
	}()
	waitFor(t, func() bool { return c.visited() >= 2000 }, func() string { return fmt.Sprintf("%d sites were visited", c.visited()) })
	w.signal(syscall.SIGKILL)
	killed := time.Now()
	w.ended()
	<-visiting
	w.run()
	kept, lost, oldest := c.kept(w), 0, time.Duration(0)
	for origin, decided := range c.decided {
		if !kept[origin] {
			lost++
			oldest = max(oldest, killed.Sub(decided))
		}
	}
	t.Logf("killed while it was busy: %d of %d policies were lost, the oldest %v after it had decided a request", lost, len(c.decided), oldest)
	if lost > maxUnwritten {
		t.Errorf("%d policies were lost, want %d at most", lost, maxUnwritten)
	}

	clear(c.decided)
	c.visit(1000)
	reader := newWorld(t)
	reader.dir = w.dir
	reader.run()
	t.Cleanup(reader.stop)
	allKept := func(by *world) bool {
		kept := c.kept(by)
		for origin := range c.decided {
			if !kept[origin] {
				return false
			}
		}
		return true
	}
	// They get there by themselves, not only at an orderly end.
	waitFor(t, func() bool { return allKept(reader) }, func() string { return "the policies do not get to the disk" })
	w.signal(syscall.SIGKILL)
	w.ended()
	w.run()
	if !allKept(w) {
		t.Error("policies were lost that were on disk")
	}
}
