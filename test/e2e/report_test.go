package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// report returns what robotsproxy report --json says of the world's data.
func (w *world) report(flags ...string) (r object) {
	w.t.Helper()
	out, err := w.reportText(append(flags, "--json")...)
	must(w.t, err)
	must(w.t, json.Unmarshal([]byte(out), &r))
	return r
}

func (w *world) reportText(flags ...string) (string, error) {
	command := exec.Command(program, append([]string{"report", "--config", w.config, "--data-dir", w.dir}, flags...)...)
	command.Env = []string{"HOME=" + w.dir}
	out, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return string(out), err
}

// reported is how many requests a report has.
func (r object) reported() float64 { return r["totals"].(map[string]any)["requests"].(float64) }

// A report of a server that runs has what its log says, number by number.
func TestReportIsTheLog(t *testing.T) {
	t.Parallel()
	testReport(t, "")
}

// So has one over the proxies of a fleet, which add to one count.
func TestReportOfAFleet(t *testing.T) {
	t.Parallel()
	testReport(t, newRedis(t).config())
}

// testReport compares the report about a crawl by all kinds of outcomes with the logs.
func testReport(t *testing.T, config string) {
	shopSite := newOrigin(t, "http", shop(), nil)
	secure := newOrigin(t, "h2", says("User-agent: *\nDisallow: /private/\nDisallow: /*?q=\n"), nil)
	slow := newOrigin(t, "http", says("User-agent: *\nCrawl-delay: 0.05\n"), nil)
	paid := newOrigin(t, "http", says("User-agent: *\n"), func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robot" {
			w.Header().Set("Cf-Mitigated", "challenge")
		}
		w.WriteHeader(map[string]int{"/page": 402, "/robot": 403}[r.URL.Path])
	})
	down := newOrigin(t, "http", func(w2 http.ResponseWriter, _ *http.Request) { w2.WriteHeader(503) }, nil)
	config += fmt.Sprintf(`
identities:
  - {name: newcomer, match: {user_agents: ["New*"]}, mode: report}
overrides:
  - {origin: %q, verdict: allow, reason: they gave us leave}
pace: {max_wait: 200ms}
`, shopSite.URL)
	worlds := []*world{start(t, config)}
	if strings.Contains(config, "redis") {
		worlds = append(worlds, start(t, config))
	}
	var clients sync.WaitGroup
	for _, w := range worlds {
		for _, agent := range []string{"ExampleBot/1.0", "NewBot/1.0"} {
			client := w.client(true)
			clients.Go(func() {
				for i := range 15 {
					for _, url := range []string{
						shopSite.URL + "/cart", secure.URL + "/private/1", secure.URL + fmt.Sprintf("/a?q=%d", i), secure.URL + "/",
						slow.URL + "/", down.URL + "/", slow.URL + "/robots.txt",
						paid.URL + "/page", paid.URL + "/robot",
					} {
						request, err := http.NewRequest(http.MethodGet, url, nil)
						must(t, err)
						request.Header.Set("User-Agent", agent)
						resp, err := client.Do(request)
						must(t, err)
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}
			})
		}
	}
	clients.Wait()
	asked := float64(len(worlds) * 2 * 15 * 9)
	var r object
	waitFor(t, func() bool { r = worlds[0].report(); return r.reported() == asked }, // while they run
		func() string { return fmt.Sprintf("%v requests are reported, want %v", r.reported(), asked) })

	want := map[string]float64{}
	for _, w := range worlds {
		for _, text := range w.log.Lines(`"message":"request"`) {
			var line object
			must(t, json.Unmarshal([]byte(text), &line))
			origin := strings.Join(strings.SplitN(line["url"].(string), "/", 4)[:3], "/")
			add := func(n float64, names ...any) { want[fmt.Sprint(names...)] += n }
			outcome := "allowed"
			switch {
			case line["status"] == 429.0:
				outcome = "refused_for_pace"
				add(1, "why ", origin, " pace ")
			case line["verdict"] == "disallowed":
				outcome = "refused"
				if line["identity"] == "newcomer" {
					outcome = "would_be_refused"
				}
				rule, _ := line["rule"].(string)
				add(1, "why ", origin, " ", line["reason"], " ", rule)
			}
			paced, _ := line["paced_ms"].(float64)
			for _, list := range []string{"totals", "identity " + line["identity"].(string), "origin " + origin} {
				add(1, list, " requests")
				add(1, list, " ", outcome)
				if paced > 0 {
					add(1, list, " paced")
					add(paced, list, " paced_ms")
				}
				if edge := line["edge"]; edge != nil {
					add(1, list, " ", edge)
				}
			}
			if reason := line["override_reason"]; reason != nil {
				add(1, "override ", origin, " ", line["verdict"], " ", reason)
			}
			if line["reason"] == "unreachable" {
				add(1, "unreachable ", origin)
			}
		}
	}
	got := map[string]float64{}
	totals := func(list string, t map[string]any) {
		for _, name := range []string{"requests", "allowed", "would_be_refused", "refused", "refused_for_pace", "paced", "challenged", "priced"} {
			got[list+" "+name] = t[name].(float64)
		}
		got[list+" paced_ms"] = math.Round(t["paced_seconds"].(float64) * 1000)
	}
	each := func(list string, do func(map[string]any)) {
		for _, o := range r[list].([]any) {
			do(o.(map[string]any))
		}
	}
	totals("totals", r["totals"].(map[string]any))
	each("identities", func(o map[string]any) { totals("identity "+o["identity"].(string), o) })
	each("origins", func(o map[string]any) { totals("origin "+o["origin"].(string), o) })
	each("refusals", func(o map[string]any) {
		rule, _ := o["rule"].(string)
		got[fmt.Sprint("why ", o["origin"], " ", o["reason"], " ", rule)] = o["refused"].(float64) + o["would_be_refused"].(float64)
	})
	each("overrides", func(o map[string]any) {
		got[fmt.Sprint("override ", o["origin"], " ", o["verdict"], " ", o["override_reason"])] = o["requests"].(float64)
	})
	each("unreachable", func(o map[string]any) { got[fmt.Sprint("unreachable ", o["origin"])] = o["requests"].(float64) })
	maps.DeleteFunc(got, func(_ string, n float64) bool { return n == 0 })
	if !maps.Equal(got, want) {
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if got[name] != want[name] {
				t.Errorf("%s: %v, the log has %v", name, got[name], want[name])
			}
		}
		t.Errorf("the report has %v", got)
	}
	if want["totals refused"] == 0 || want["totals would_be_refused"] == 0 || want["totals paced"] == 0 || want["totals priced"] == 0 || want["totals challenged"] == 0 {
		t.Errorf("nothing is tested: %v", want)
	}
}

// What has been counted is in the report after the proxy's end, and what was written is there
// after it was killed. The next start goes on from there.
func TestCountsOutliveTheProxy(t *testing.T) {
	t.Parallel()
	site := newOrigin(t, "http", shop(), nil)
	w := start(t)
	get := func(n int) {
		t.Helper()
		for range n {
			wantRefused(t, w.curl(site.URL+"/cart"), "Disallow: /cart")
		}
	}
	get(3)
	w.stop()
	if n := w.report().reported(); n != 3 {
		t.Errorf("after its end %v requests are reported, want 3", n)
	}
	w.run()
	get(4)
	waitFor(t, func() bool { return w.report().reported() == 7 }, func() string { return fmt.Sprint(w.report()) })
	get(1)
	w.signal(syscall.SIGKILL)
	w.ended()
	written := w.report().reported()
	if written < 7 || written > 8 {
		t.Errorf("after SIGKILL %v requests are reported", written)
	}
	w.run()
	get(2)
	w.stop()
	if n := w.report().reported(); n != written+2 {
		t.Errorf("after another start and end %v requests are reported, want %v", n, written+2)
	}
	days := w.report("--since", "2d")["days"].([]any) // the test may run over midnight
	if len(days) != 2 || days[1].(map[string]any)["proxy_ran"] != true && days[0].(map[string]any)["proxy_ran"] != true {
		t.Errorf("the days are %v", days)
	}
}

// askOn asks for pages of a shop, one after the other, until stop is closed, and counts them in n.
func (w *world) askOn(shop string, stop <-chan struct{}, n *atomic.Int64) {
	client := w.client(false)
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(10 * time.Millisecond): // so that the log remains short
		}
		path := []string{"/products/1", "/cart"}[i%2]
		resp, err := client.Get(shop + path)
		if err != nil || resp.StatusCode != []int{200, 403}[i%2] {
			w.t.Errorf("%s: %v, %v", path, resp, err)
			return
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		n.Add(1)
	}
}

// A Redis dies several times while requests go on. In the end each of them counts once.
func TestCountsSurviveRedis(t *testing.T) {
	t.Parallel()
	server := newRedis(t, "--appendonly", "yes")
	site := newOrigin(t, "http", shop(), nil)
	proxies := []*world{start(t, server.config()), start(t, server.config())}
	var (
		asked   atomic.Int64
		clients sync.WaitGroup
		over    = make(chan struct{})
	)
	for _, w := range proxies {
		clients.Go(func() { w.askOn(site.URL, over, &asked) })
	}
	const deaths = 3
	for range deaths {
		server.Kill()
		for _, w := range proxies {
			w.log.wait(t, w.exited, `"level":"warn"`, "counts of decisions cannot be kept", server.socket)
		}
		server.Restart()
		before := proxies[0].report().reported()
		waitFor(t, func() bool { return proxies[0].report().reported() > before }, func() string { return "no counts are kept any more" })
	}
	close(over)
	clients.Wait()
	want := float64(asked.Load())
	waitFor(t, func() bool { return proxies[0].report().reported() >= want },
		func() string {
			return fmt.Sprintf("%v requests are reported, want %v", proxies[0].report().reported(), want)
		})
	for _, w := range proxies {
		w.log.wait(t, w.exited, `"level":"info"`, "counts of decisions are kept again")
		w.stop()
		if n := len(w.log.Lines("counts of decisions")); n > 2*deaths {
			t.Errorf("%d lines about counts are logged, want two for each outage", n)
		}
	}
	if got := proxies[0].report().reported(); got != want {
		t.Errorf("%v requests are reported, want %v", got, want)
	}
}
