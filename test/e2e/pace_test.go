package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"robotsproxy/proxy/pace"
)

// starts records when a site was asked for pages. by sorts the requests into kinds.
type starts struct {
	by    func(*http.Request) string
	begun time.Time

	mu  sync.Mutex
	all map[string][]time.Time
}

func (s *starts) page(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string][]time.Time{}
	}
	s.all[s.by(r)] = append(s.all[s.by(r)], time.Now())
	io.WriteString(w, "a page")
}

// span returns how many requests of one kind there were, and the time until the last one.
func (s *starts) span(kind string) (n int, length time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all[kind]
	if len(all) == 0 {
		return 0, 0
	}
	return len(all), all[len(all)-1].Sub(s.begun)
}

// spiders sends n requests at once, each with the client, URL and agent that ask returns for
// it. It returns when all have an answer.
func spiders(t *testing.T, n int, ask func(i int) (client *http.Client, url, agent string)) (statuses map[int]int) {
	t.Helper()
	statuses = map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			client, url, agent := ask(i)
			r, err := http.NewRequest(http.MethodGet, url, nil)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("User-Agent", agent)
			resp, err := client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			mu.Lock()
			statuses[resp.StatusCode]++
			mu.Unlock()
		})
	}
	all.Wait()
	return statuses
}

// Fifty spiders of three identities visit one site through one proxy. The spiders of one
// identity take turns.
func TestFiftySpiders(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	w := start(t, `identities:
  - {name: texts, match: {user_agents: ["Text*"]}, product_tokens: [TextBot], user_agent: TextBot/1.0}
  - {name: images, match: {user_agents: ["Image*"]}, product_tokens: [ImageBot], user_agent: ImageBot/1.0}
  - {name: news, match: {user_agents: ["News*"]}, product_tokens: [NewsBot], user_agent: NewsBot/1.0}`)
	s := &starts{by: (*http.Request).UserAgent, begun: time.Now()}
	site := newOrigin(t, "http", says("User-agent: *\nCrawl-delay: 0.2\nDisallow: /private\n"), s.page)
	agents := []string{"TextBot/1.0", "ImageBot/1.0", "NewsBot/1.0"}
	client := w.client(false)
	got := spiders(t, 50, func(i int) (*http.Client, string, string) {
		return client, fmt.Sprintf("%s/%d", site.URL, i), agents[i%3] + fmt.Sprint(i)
	})
	if got[200] != 50 {
		t.Errorf("statuses %v", got)
	}
	total := 0
	for _, agent := range agents {
		n, length := s.span(agent)
		total += n
		if want := time.Duration(n-1) * delay; n < 16 || length < want {
			t.Errorf("%s: %d requests in %v, want %v or more", agent, n, length, want)
		}
	}
	if total != 50 {
		t.Errorf("the site was asked %d times", total)
	}
	longest := 0.0
	requests := func() []string { return w.log.Lines(`"message":"request"`) }
	waitFor(t, func() bool { return len(requests()) == 50 }, // the last lines may come a little later
		func() string { return fmt.Sprintf("%d requests are logged", len(requests())) })
	for _, line := range requests() {
		var o object
		must(t, json.Unmarshal([]byte(line), &o))
		longest = max(longest, o["wait_ms"].(float64))
	}
	if longest == 0 {
		t.Errorf("the longest wait_ms is %v", longest)
	}
	w.wantMetric("robotsproxy_paced_waiting", "0")
	w.wantMetric("robotsproxy_paced_refused_total", "0")
	waited, _ := strconv.ParseFloat(w.metric("robotsproxy_paced_seconds_total"), 64)
	if waited < 50*1.2 { // a third of them wait for 1.6 s on average
		t.Errorf("robotsproxy_paced_seconds_total is %v", waited)
	}
	w.ask("/api/v1/verdict?url="+site.URL+"/&agent=TextBot").want(t, "crawl_delay", 0.2)
}

// At every door, a request whose turn would come too late gets 429, and the site never sees
// it.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	w := start(t, "pace: {max_wait: 1s}")
	for _, door := range doors {
		site := newOrigin(t, door.origin, says("User-agent: OwnBot\nUser-agent: *\nRequest-rate: 1/1m\nDisallow: /private\n"), nil)
		get := func(path string, args ...string) reply { return w.curl(append(args, door.option, site.URL+path)...) }
		wantRefused(t, get("/private"), "Disallow: /private") // takes no turn
		if r := get("/robots.txt"); r.status != 200 {
			t.Errorf("%s: robots.txt: status %d", door.name, r.status)
		}
		if r := get("/1"); r.status != 200 {
			t.Errorf("%s: status %d", door.name, r.status)
		}
		r := get("/2", "-H", "Accept: application/problem+json")
		seconds, _ := strconv.Atoi(r.header.Get("Retry-After"))
		if r.status != 429 || !strings.Contains(r.header.Get("Proxy-Status"), "error=http_request_denied") || seconds < 40 || seconds > 60 || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %+v", door.name, r)
		}
		var problem object
		must(t, json.Unmarshal([]byte(r.body), &problem))
		problem.want(t, "status", 429, "title", "Too Many Requests", "verdict", "allowed", "crawl_delay", 60, "agent", "curl")
		wantRefused(t, get("/private"), "Disallow: /private")
		if r := get("/robots.txt"); r.status != 200 {
			t.Errorf("%s: robots.txt: status %d", door.name, r.status)
		}
		if r := get("/3", "-A", "Other/1"); r.status != 429 {
			t.Errorf("%s: another name: status %d", door.name, r.status)
		}
		if r := get("/3", "-A", "OwnBot/1"); r.status != 200 {
			t.Errorf("%s: another group: status %d", door.name, r.status)
		}
		wantSame(t, "pages", site.pages(), []string{"/1", "/3"})
		line := w.log.wait(t, w.exited, `"url":"`+site.URL+`/2"`)
		line.want(t, "status", 429, "verdict", "allowed")
		if why, _ := line["error"].(string); !strings.Contains(why, "within pace.max_wait (1s): the delay between two requests is 1m0s; ask again in") {
			t.Errorf("%s: logged %v", door.name, line)
		}
	}
	w.wantMetric("robotsproxy_paced_refused_total", fmt.Sprint(2*len(doors)))
}

// A 429 says what delays the request, and what helps.
func TestTooManyRequestsSaysWhy(t *testing.T) {
	t.Parallel()
	w := start(t, "pace: {max_wait: 1s}")
	if lines := w.log.Lines(`"level":"warn"`, "robotsproxy.yaml:1:18: pace.max_wait: 1s is shorter than max_crawl_delay (1m0s)"); len(lines) != 1 {
		t.Errorf("warned of a short max_wait: %q; the log:\n%s", lines, w.log)
	}
	slow := newOrigin(t, "http", says("User-agent: *\nCrawl-delay: 40\n"), nil)
	pausing := newOrigin(t, "http", shop(), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(503)
	})
	for site, wants := range map[string][]string{
		slow.URL + "/a":             {"the delay between two requests is 40s", "raise pace.max_wait to 40s or more"},
		pausing.URL + "/products/1": {"the origin has asked for a pause (Retry-After)", "Until then the origin wants no requests"},
	} {
		w.curl(site)
		r := w.curl(site)
		for _, want := range wants {
			if r.status != 429 || !strings.Contains(r.body, want) || strings.Contains(r.body, "Fewer requests") {
				t.Errorf("status %d; it says\n%s\nwant %q", r.status, r.body, want)
			}
		}
	}
}

// Scrapy asks for eight pages at once and, by default, retries a 429 at once, twice. It gets
// all pages of a site that states a Crawl-delay of 20 seconds. All times but Scrapy's own
// are a fiftieth of the real ones.
func TestScrapyWaitsForItsTurns(t *testing.T) {
	t.Parallel()
	w := start(t, fmt.Sprintf("pace: {max_wait: %v}", pace.Defaults().MaxWait/50))
	var links strings.Builder
	for i := range 7 {
		fmt.Fprintf(&links, "<a href=/%d>", i)
	}
	site := newOrigin(t, "http", says("User-agent: *\nCrawl-delay: 0.4\n"), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/" {
			io.WriteString(w, links.String())
		}
	})
	for url, page := range w.scrapy("ExampleBot/1.0", site.URL+"/", "-s", "RETRY_ENABLED=1") {
		if page.Status != 200 {
			t.Errorf("%s: status %d", url, page.Status)
		}
	}
	if got := site.pages(); len(got) != 8 {
		t.Errorf("the site was asked for %q, want all eight pages", got)
	}
}

// A site that asks for a pause by Retry-After gets it.
func TestRetryAfterOfTheSite(t *testing.T) {
	t.Parallel()
	w := start(t, `identities: [{name: other, match: {user_agents: ["Other*"]}}]`)
	var answers atomic.Int64
	s := &starts{by: func(*http.Request) string { return "" }, begun: time.Now()}
	site := newOrigin(t, "h2", shop(), func(w http.ResponseWriter, r *http.Request) {
		switch answers.Add(1) {
		case 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(429)
		case 3:
			w.Header().Set("Retry-After", time.Now().Add(2*time.Hour).UTC().Format(http.TimeFormat))
			w.WriteHeader(503)
		}
		s.page(w, r)
	})
	get := func(args ...string) reply { return w.curl(append(args, site.URL+"/products/1")...) }
	if r := get(); r.status != 429 || r.header.Get("Proxy-Status") != "" {
		t.Errorf("got %+v", r)
	}
	if r := get(); r.status != 200 {
		t.Errorf("after the pause: status %d", r.status)
	}
	if _, length := s.span(""); length < time.Second {
		t.Errorf("the pause was %v", length)
	}
	if r := get(); r.status != 503 || r.header.Get("Proxy-Status") != "" {
		t.Errorf("got %+v", r)
	}
	r := get()
	if seconds, _ := strconv.Atoi(r.header.Get("Retry-After")); r.status != 429 || r.header.Get("Proxy-Status") == "" || seconds < 7000 || seconds > 7200 {
		t.Errorf("got %+v", r)
	}
	if r := get("-A", "Other/1"); r.status != 200 {
		t.Errorf("another identity: status %d", r.status)
	}
	wantRefused(t, w.curl(site.URL+"/cart"), "Disallow: /cart")
}

func TestMaxInFlight(t *testing.T) {
	t.Parallel()
	w := start(t, "pace: {max_in_flight: 2}")
	var now, most atomic.Int64
	two := make(chan struct{}) // closed when there are two at once
	met := sync.OnceFunc(func() { close(two) })
	site := newOrigin(t, "http", shop(), func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		if n == 2 {
			met()
		}
		<-two
		time.Sleep(50 * time.Millisecond) // time for a third request, which must not come
	})
	client := w.client(false)
	got := spiders(t, 12, func(i int) (*http.Client, string, string) {
		return client, site.URL + "/products/1", fmt.Sprint("Bot", i)
	})
	if got[200] != 12 || most.Load() != 2 {
		t.Errorf("statuses %v, %d at once", got, most.Load())
	}
}

// A tunnel that is not read takes a turn too, and counts as one request while it is open.
func TestPacedTunnels(t *testing.T) {
	t.Parallel()
	w := start(t, "https: {mode: tunnel}\npace: {max_wait: 1s}")
	site := newOrigin(t, "https", says("User-agent: *\nCrawl-delay: 50\n"), nil)
	if r := w.curl("--cacert", w.origins, site.URL+"/1"); r.status != 200 {
		t.Errorf("status %d, curl's exit code %d", r.status, r.exit)
	}
	w.curl("--cacert", w.origins, site.URL+"/2")
	w.log.wait(t, w.exited, `"method":"CONNECT"`, `"status":429`)
	wantSame(t, "pages", site.pages(), []string{"/1"})
}

// At every door, a waiting client that leaves gives up its turn at once, and is logged.
func TestClientLeavesWhileWaiting(t *testing.T) {
	t.Parallel()
	w := start(t, "pace: {max_crawl_delay: 40m, max_wait: 1h}") // room for one waiting request
	for scheme, h2 := range map[string]bool{"http": false, "https": false, "h2": true} {
		t.Run(scheme, func(t *testing.T) { leaveWhileWaiting(t, w.in(t), scheme, w.client(h2)) })
	}
}

func leaveWhileWaiting(t *testing.T, w *world, scheme string, client *http.Client) {
	site := newOrigin(t, scheme, says("User-agent: *\nCrawl-delay: 2400\n"), nil)
	ask := func(ctx context.Context, path string) (int, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, site.URL+path, nil)
		must(t, err)
		resp, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		return resp.StatusCode, nil
	}
	if status, err := ask(t.Context(), "/1"); status != 200 {
		t.Fatalf("the first request: %d, %v", status, err)
	}
	for _, path := range []string{"/2", "/3"} {
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			status, err := ask(ctx, path)
			if status != 0 {
				t.Errorf("%s: status %d; it should have waited", path, status)
			}
			left <- err
		}()
		w.wantMetric("robotsproxy_paced_waiting", "1")
		leave()
		<-left
		if line := w.decision(site.URL + path); line["status"] != 0.0 || line["wait_ms"].(float64) <= 0 {
			t.Errorf("logged %v", line)
		}
	}
	wantSame(t, "pages", site.pages(), []string{"/1"})
}

// Two proxies that share a Redis pace their fifty clients together.
func TestFleetKeepsThePace(t *testing.T) {
	t.Parallel()
	server := newRedis(t)
	proxies := []*world{start(t, "name: first", server.config()), start(t, "name: second", server.config())}
	clients := []*http.Client{proxies[0].client(false), proxies[1].client(false)}
	const delay = 200 * time.Millisecond
	s := &starts{by: func(*http.Request) string { return "" }, begun: time.Now()}
	site := newOrigin(t, "http", says("User-agent: *\nCrawl-delay: 0.2\n"), s.page)
	got := spiders(t, 50, func(i int) (*http.Client, string, string) { return clients[i%2], site.URL + "/page", "ExampleBot/1.0" })
	n, length := s.span("")
	if got[200] != 50 || n != 50 {
		t.Errorf("statuses %v, %d requests", got, n)
	}
	if want := 49 * delay; length < want {
		t.Errorf("the site was asked 50 times in %v, want %v or more", length, want)
	}
}

// When Redis dies, each proxy paces alone, by what it knows of its own turns. As there are
// two proxies, each waits twice the delay.
func TestFleetSurvivesRedis(t *testing.T) {
	t.Parallel()
	server := newRedis(t)
	proxies := []*world{start(t, "name: first", server.config()), start(t, "name: second", server.config())}
	clients := []*http.Client{proxies[0].client(false), proxies[1].client(false)}
	const delay = 200 * time.Millisecond
	for _, w := range proxies {
		w.wantMetric("robotsproxy_paced_proxies", "2")
	}
	var asked atomic.Int64
	s := &starts{by: func(r *http.Request) string { return r.Header.Get("Via") + r.URL.Path }}
	site := newOrigin(t, "http", says("User-agent: *\nCrawl-delay: 0.2\n"), func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 5 {
			server.Kill()
		}
		s.page(w, r)
	})
	for _, page := range []string{"/shared", "/alone"} { // the first requests have their turns already
		s.begun = time.Now()
		got := spiders(t, 16, func(i int) (*http.Client, string, string) { return clients[i%2], site.URL + page, "ExampleBot/1.0" })
		if got[200] != 16 {
			t.Errorf("%s: statuses %v", page, got)
		}
	}
	for _, via := range []string{"1.1 first", "1.1 second"} {
		n, length := s.span(via + "/alone")
		if want := 7 * 2 * delay; n != 8 || length < want {
			t.Errorf("%s: %d requests in %v, want %v or more", via, n, length, want)
		}
	}
	for _, w := range proxies {
		if lines := w.log.Lines("turns cannot be shared"); len(lines) != 1 || !strings.Contains(lines[0], server.socket) {
			t.Errorf("logged %s", lines)
		}
	}
	server.Restart()
	for _, w := range proxies {
		waitFor(t, func() bool {
			w.curl("-A", "ExampleBot/1.0", site.URL+"/page") // a request has the proxy try
			return len(w.log.Lines("Redis is back: turns are shared again")) > 0
		}, func() string { return "the proxy does not notice that Redis is back; the log:\n" + w.log.String() })
		if lines := w.log.Lines("sesame"); len(lines) > 0 {
			t.Errorf("the password is in the log: %s", lines)
		}
	}
}

// What requests of a command wait for is said while they do, and whose delay it was at the end.
func TestRunSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	site := newOrigin(t, "http", says("User-agent: *\nCrawl-delay: 8\n"), nil)
	pages := []string{site.URL + "/1", site.URL + "/2"}
	e, quiet := w.errand(nil, curlCommand(pages...)...), w.errand(nil, append([]string{"--quiet"}, curlCommand(pages...)...)...)
	must(t, quiet.Start())
	if got := e.must(t); got != "200 200 " {
		t.Errorf("statuses %s", got)
	}
	must(t, quiet.Wait())
	for _, want := range []string{
		"robotsproxy: 1 request to " + site.URL + " waits: the delay between two requests; the next one starts in ",
		"robotsproxy:       1 paced    " + site.URL + "  waited 8s in all: the Crawl-delay of its robots.txt\n",
	} {
		if !strings.Contains(e.err.String(), want) {
			t.Errorf("no %q in\n%s", want, &e.err)
		}
	}
	if quiet.err.Len() > 0 {
		t.Errorf("with --quiet it says\n%s", &quiet.err)
	}
}

func TestRunTakesTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "pace: {max_wait: 1s}")
	site := newOrigin(t, "http", says("User-agent: *\nCrawl-delay: 50\n"), nil)
	e := w.errand(nil, curlCommand(site.URL+"/1", site.URL+"/2")...)
	if got := e.must(t); got != "200 429 " {
		t.Errorf("statuses %s", got)
	}
	want := "robotsproxy:       1 refused  " + site.URL + "  its turn would have come after pace.max_wait\n" + notSealedLine() + "robotsproxy: 2 requests, 1 refused\n"
	if e.err.String() != want {
		t.Errorf("the summary is\n%s", &e.err)
	}
}

// An origin that fails gets pauses that double. After each, one request tries, whichever proxy
// it is at, and when that succeeds the origin has its old pace again.
func TestBackOff(t *testing.T) {
	t.Parallel()
	server := newRedis(t)
	const first = 400 * time.Millisecond
	config := fmt.Sprintf("pace: {back_off: {after: 2, first: %v, max: 1h}}", first)
	proxies := []*world{start(t, "name: first", server.config(), config), start(t, "name: second", server.config(), config)}
	clients := []*http.Client{proxies[0].client(false), proxies[1].client(false)}
	const failures = 4 // the last two are probes
	var (
		mu       sync.Mutex
		asked    []time.Time
		inFlight atomic.Int64
	)
	site := newOrigin(t, "http", shop(), func(w http.ResponseWriter, r *http.Request) {
		most := inFlight.Add(1)
		defer inFlight.Add(-1)
		mu.Lock()
		asked = append(asked, time.Now())
		n := len(asked)
		mu.Unlock()
		if n > 2 && n <= failures+1 {
			time.Sleep(100 * time.Millisecond) // time for another request, which must not come
			if most > 1 {
				t.Errorf("request %d: %d at once", n, most)
			}
		}
		if n <= failures {
			w.WriteHeader(503)
		}
	})
	one := func(i int) int {
		return spiders(t, 1, func(int) (*http.Client, string, string) {
			return clients[i], site.URL + "/products/1", "ExampleBot/1.0"
		})[503]
	}
	if one(0)+one(1) != 2 {
		t.Fatal("the first two do not fail")
	}
	for _, w := range proxies {
		w.ask("/api/v1/verdict?url="+site.URL+"/products/1").want(t, "verdict", "allowed", "held_by", "back_off")
	}
	got := spiders(t, 20, func(i int) (*http.Client, string, string) {
		return clients[i%2], site.URL + "/products/1", "ExampleBot/1.0"
	})
	if got[503] != 2 || got[200] != 18 || len(asked) != 22 {
		t.Errorf("statuses %v, the site was asked %d times", got, len(asked))
	}
	for i, least := range []time.Duration{first / 2, first, 2 * first} {
		if gap := asked[2+i].Sub(asked[1+i]); gap < least {
			t.Errorf("pause %d is %v, want %v or more", i+1, gap, least)
		}
	}
}

// Answers that begin well and break off are failures of the origin, however they break off. A
// client that leaves is none.
func TestBrokenAnswersBackOff(t *testing.T) {
	t.Parallel()
	w := start(t, "pace: {back_off: {after: 2, first: 1h}, max_wait: 1s}")
	breaksOff := func(header, body string, end func(*net.TCPConn)) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\n%s\r\n\r\n%s", header, body)
			rw.Flush()
			end(conn.(*net.TCPConn))
		}
	}
	part := func(w http.ResponseWriter) {
		io.WriteString(w, "part")
		http.NewResponseController(w).Flush()
	}
	closed := func(*net.TCPConn) {}
	for name, site := range map[string]*origin{
		"a length that is not reached": newOrigin(t, "http", shop(), breaksOff("Content-Length: 100", "part", closed)),
		"a chunk without an end":       newOrigin(t, "http", shop(), breaksOff("Transfer-Encoding: chunked", "40\r\npart", closed)),
		"chunks without the last":      newOrigin(t, "http", shop(), breaksOff("Transfer-Encoding: chunked", "4\r\npart\r\n", closed)),
		"a reset":                      newOrigin(t, "http", shop(), breaksOff("Content-Length: 100", "part", func(c *net.TCPConn) { c.SetLinger(0) })),
		"a reset stream": newOrigin(t, "h2", shop(), func(w http.ResponseWriter, _ *http.Request) {
			part(w)
			panic(http.ErrAbortHandler)
		}),
	} {
		for _, want := range []int{200, 200, 429} {
			if r := w.curl(site.URL + "/products/1"); r.status != want {
				t.Errorf("%s: status %d, want %d", name, r.status, want)
			}
		}
	}
	site := newOrigin(t, "http", shop(), func(w http.ResponseWriter, r *http.Request) {
		if part(w); r.URL.Path == "/products/left" {
			<-r.Context().Done()
		}
	})
	for range 2 {
		resp, err := w.client(false).Get(site.URL + "/products/left")
		must(t, err)
		resp.Body.Close()
	}
	waitFor(t, func() bool { return len(w.log.Lines(site.URL+"/products/left")) == 2 }, func() string { return w.log.String() })
	if r := w.curl(site.URL + "/products/1"); r.status != 200 {
		t.Errorf("after clients that left: status %d", r.status)
	}
}

// A client can't have an origin held for others by what it sends, or by leaving early.
func TestClientsCauseNoBackOff(t *testing.T) {
	t.Parallel()
	w := start(t, "pace: {back_off: {after: 2, first: 1h}, max_wait: 1s}")
	const path = "/products/1"
	const length, chunked = "Content-Length: 100\r\n\r\nbody", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n"
	answersFirst := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex()
			w.WriteHeader(status)
			http.NewResponseController(w).Flush()
			io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, test := range map[string]struct {
		page    http.HandlerFunc
		request string // from its method on
		header  string // and what the client sends of the body, until it has the answer
		answer  string
		then    string // what it sends then, slowly, before it leaves
	}{
		"a body that ends early, after the answer began": {answersFirst(200), "POST", length, "200 OK", ""},
		"a malformed body, after the answer began":       {answersFirst(200), "POST", chunked, "200 OK", "no chunk\r\n"},
		"a body that ends early":                         {answersFirst(200), "POST", length, "", ""},
		"a body that is too slow, and a 408":             {answersFirst(408), "POST", length, "408 Request Timeout", ""},
		"a body that is too slow, and no answer":         {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "POST", length, "", strings.Repeat("x", 90)},
		"early data":                                     {status(425), "GET", "Early-Data: 1\r\n\r\n", "425 Too Early", ""},
		"an unknown method":                              {status(501), "FETCH", "\r\n", "501 Not Implemented", ""},
	} {
		t.Run(name, func(t *testing.T) {
			site := newOrigin(t, "http", shop(), func(w http.ResponseWriter, r *http.Request) {
				if r.UserAgent() == "curl-like" {
					test.page(w, r)
				}
			})
			for range 3 {
				conn, err := net.Dial("tcp", w.proxy)
				must(t, err)
				conn.SetDeadline(time.Now().Add(testTimeout))
				fmt.Fprintf(conn, "%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: curl-like\r\nConnection: close\r\n%s", test.request, site.URL, path, site.Listener.Addr(), test.header)
				got := ""
				for piece := make([]byte, 4096); !strings.Contains(got, test.answer); {
					n, err := conn.Read(piece)
					got += string(piece[:n])
					if err != nil {
						t.Fatalf("the answer is %q: %v", got, err)
					}
				}
				for _, octet := range []byte(test.then) {
					time.Sleep(2 * time.Millisecond)
					conn.Write([]byte{octet}) // an error means that the proxy has had enough
				}
				conn.Close()
			}
			waitFor(t, func() bool { return len(w.log.Lines(site.URL+path)) == 3 }, func() string { return w.log.String() })
			if r := w.curl(site.URL + path); r.status != 200 {
				t.Errorf("the next client gets status %d: %s", r.status, r.body)
			}
		})
	}
}

// What holds an origin is in the 429, in the verdict of the API and, with a Redis, in that of
// check.
func TestWhatHoldsAnOrigin(t *testing.T) {
	t.Parallel()
	server := newRedis(t)
	w := start(t, server.config(), "pace: {back_off: {after: 1, first: 1h, max: 2h}, max_per_day: 3}")
	failing := newOrigin(t, "http", shop(), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	busy := newOrigin(t, "http", shop(), nil)
	w.curl(failing.URL + "/products/1")
	for range 3 {
		if r := w.curl(busy.URL + "/products/1"); r.status != 200 {
			t.Errorf("status %d", r.status)
		}
	}
	for _, held := range []struct{ url, by, says string }{
		{failing.URL + "/products/1", "back_off", "the origin has failed pace.back_off.after times in a row or more"},
		{busy.URL + "/products/1", "max_per_day", "pace.max_per_day requests have started in the last 24 hours"},
	} {
		r := w.curl(held.url, "-H", "Accept: application/problem+json")
		seconds, _ := strconv.Atoi(r.header.Get("Retry-After"))
		var problem object
		must(t, json.Unmarshal([]byte(r.body), &problem))
		problem.want(t, "status", 429, "verdict", "allowed", "held_by", held.by)
		if until, err := time.Parse(time.RFC3339, problem["held_until"].(string)); err != nil || time.Until(until) < 29*time.Minute || seconds < 29*60 {
			t.Errorf("%s: held until %v, Retry-After %d", held.url, problem["held_until"], seconds)
		}
		if detail, _ := problem["detail"].(string); !strings.Contains(detail, held.says) {
			t.Errorf("%s: it says %q, want %q", held.url, detail, held.says)
		}
		if r := w.curl(held.url); !strings.Contains(r.body, "\nHeld: ") {
			t.Errorf("%s: the text is\n%s", held.url, r.body)
		}
		w.ask("/api/v1/verdict?url="+held.url).want(t, "verdict", "allowed", "held_by", held.by)
		var checked object
		must(t, json.Unmarshal([]byte(w.runCommand("check", "--json", held.url)), &checked))
		checked.want(t, "verdict", "allowed", "held_by", held.by)
		wantRefused(t, w.curl(strings.Replace(held.url, "/products/1", "/cart", 1)), "Disallow: /cart")
	}
}

// The origins of one site share its delay, under scope site. Under scope origin each has its own.
func TestScope(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	paced := says("User-agent: *\nCrawl-delay: 50\n")
	newOriginAt(t, "192.0.2.1:80", "http", paced, nil)
	newOriginAt(t, "192.0.2.1:8080", "http", paced, nil)
	newOriginAt(t, "192.0.2.7:80", "http", says("User-agent: *\nAllow: /\n"), nil)
	for scope, want := range map[string]int{"origin": 200, "site": 429} {
		w := start(t, "pace: {max_wait: 1s, scope: "+scope+"}")
		for _, ask := range []struct {
			url  string
			want int
		}{
			{"http://shop.example.com/", 200},
			{"http://192.0.2.7/", 200}, // an address is no part of a site
			{"http://cache.example.com/", want},
			{"http://shop.example.com:8080/", want},
		} {
			if r := w.curl(ask.url); r.status != ask.want {
				t.Errorf("scope %s: %s: status %d, want %d", scope, ask.url, r.status, ask.want)
			}
		}
	}
}
