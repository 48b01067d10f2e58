package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestHealthAndCA(t *testing.T) {
	t.Parallel()
	w := start(t)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/nothing": 404} {
		if status, body := w.get(path, "rebound.example"); status != want {
			t.Errorf("%s: status %d, want %d: %s", path, status, want, body)
		}
	}
	ca, err := os.ReadFile(w.caFile())
	must(t, err)
	if status, body := w.get("/ca.pem", "rebound.example"); status != 200 || body != string(ca) {
		t.Errorf("/ca.pem: status %d: %s", status, body)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, series := range []string{ // they exist from the start, so that rate() counts the first event too
		`robotsproxy_requests_total{identity="default",reason="rule",verdict="disallowed"}`,
		`robotsproxy_requests_total{identity="default",reason="tunnel",verdict="allowed"}`,
		`robotsproxy_request_duration_seconds_count`, `robotsproxy_robots_fetches_total{outcome="status"}`,
		`robotsproxy_robots_fetch_duration_seconds_count`, `robotsproxy_policy_lookups_total{tier="store"}`, `robotsproxy_policies`,
		`robotsproxy_paced_seconds_total`, `robotsproxy_connections`, `robotsproxy_tunnels`, `robotsproxy_client_tls_failures_total`, `robotsproxy_client_tls_unused_total`,
		`robotsproxy_upstream_errors_total{error="dns_error"}`, `robotsproxy_store_errors_total{operation="put"}`,
	} {
		w.wantMetric(series, "0")
	}
	w.configure("identities: [{name: later, match: {user_agents: [x]}}]")
	w.send("POST", "/api/v1/reload")
	w.wantMetric(`robotsproxy_requests_total{identity="later",reason="unreachable",verdict="disallowed"}`, "0")

	o := newOrigin(t, "http", shop(), nil)
	w.curl(o.URL + "/products/1")
	w.curl(o.URL + "/cart")
	w.curl("http://" + deadAddress + "/")
	for series, want := range map[string]string{
		`robotsproxy_requests_total{identity="default",reason="no_rule",verdict="allowed"}`:        "1",
		`robotsproxy_requests_total{identity="default",reason="rule",verdict="disallowed"}`:        "1",
		`robotsproxy_requests_total{identity="default",reason="unreachable",verdict="disallowed"}`: "1",
		`robotsproxy_request_duration_seconds_count`:                                               "3",
		`robotsproxy_robots_fetches_total{outcome="rules"}`:                                        "1",
		`robotsproxy_robots_fetches_total{outcome="unreachable"}`:                                  "1",
		`robotsproxy_robots_fetches_total{outcome="unavailable"}`:                                  "0",
		`robotsproxy_robots_fetch_duration_seconds_count`:                                          "2",
		`robotsproxy_policy_lookups_total{tier="fetch"}`:                                           "2",
		`robotsproxy_policy_lookups_total{tier="memory"}`:                                          "1",
		`robotsproxy_policy_lookups_total{tier="store"}`:                                           "0",
		`robotsproxy_policies`:                  "2",
		`robotsproxy_connections`:               "0",
		`robotsproxy_client_tls_failures_total`: "0",
	} {
		w.wantMetric(series, want)
	}
	for _, series := range []string{"go_goroutines", "process_cpu_seconds_total"} {
		if w.metric(series) == "" {
			t.Errorf("%s is missing", series)
		}
	}
	if _, text := w.get("/metrics"); !regexp.MustCompile(`(?m)^robotsproxy_build_info\{commit="\w+",goversion="` + regexp.QuoteMeta(runtime.Version()) + `",version="\S+"\} 1$`).MatchString(text) {
		t.Error("robotsproxy_build_info is missing")
	}
}

func TestMetricsOfErrors(t *testing.T) {
	t.Parallel()
	w := start(t, `overrides: [{origin: "*://*", verdict: allow}]
upstream: {deny: [192.0.2.1], response_header_timeout: 300ms, ca_file: ORIGINS}
https: {passthrough: [127.0.0.1]}
cache: {store: redis, redis_url: "redis://`+deadAddress+`"}`)
	o := newOrigin(t, "http", shop(), func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/late":
			<-r.Context().Done()
		case "/cut":
			io.WriteString(w, "some")
			http.NewResponseController(w).Flush()
			fallthrough
		default:
			panic(http.ErrAbortHandler)
		}
	})
	for _, url := range []string{
		o.URL + "/none", o.URL + "/cut", o.URL + "/late",
		"http://" + deadAddress + "/", "https://" + deadAddress + "/", "http://nobody.invalid/", "http://192.0.2.1/", "http://" + w.admin + "/",
	} {
		w.curl(url)
	}
	for kind, want := range map[string]string{
		"http_response_incomplete": "2", "http_response_timeout": "1", "connection_refused": "2", "dns_error": "1",
		"destination_ip_prohibited": "1", "proxy_loop_detected": "1", "tls_certificate_error": "0", "connection_timeout": "0",
	} {
		w.wantMetric(`robotsproxy_upstream_errors_total{error="`+kind+`"}`, want)
	}

	w.wantMetric(`robotsproxy_store_errors_total{operation="list"}`, "0")
	if status, _ := w.get("/api/v1/policies"); status != 500 {
		t.Errorf("with the store away: status %d", status)
	}
	w.wantMetric(`robotsproxy_store_errors_total{operation="list"}`, "1")
	w.get("/api/v1/policy?origin=http://a.example")
	w.wantMetric(`robotsproxy_store_errors_total{operation="get"}`, "1")
	w.wantMetric(`robotsproxy_store_errors_total{operation="put"}`, "0")
}

func TestVerdictOfTheAPI(t *testing.T) {
	t.Parallel()
	w := start(t)
	o := newOrigin(t, "https", shop(), nil)
	asked := "/api/v1/verdict?url=" + url.QueryEscape(o.URL+"/products/1")

	v := w.ask(asked)
	v.want(t, "url", o.URL+"/products/1", "origin", o.URL, "agent", "*", "identity", "default", "verdict", "allowed", "reason", "no_rule",
		"group", "*", "robots_url", o.URL+"/robots.txt", "robots_status", 200, "rule", nil, "line", nil, "crawl_delay", nil)
	for _, name := range []string{"robots_sha256", "fetched_at", "expires_at", "sitemaps"} {
		if v[name] == nil {
			t.Errorf("%s is missing in %v", name, v)
		}
	}
	w.ask(asked+"&agent=Unheard-Of&agent=GreedyBot").want(t, "agent", "GreedyBot", "verdict", "disallowed", "rule", "Disallow: /", "line", 21)
	w.ask(asked+"&agent=PartnerBot").want(t, "agent", "PartnerBot", "verdict", "allowed", "crawl_delay", 0.5)
	w.ask("/api/v1/verdict?url=http://"+deadAddress+"/x").want(t, "verdict", "disallowed", "reason", "unreachable")
	if o.robotsFetches() != 1 || len(o.pages()) != 0 {
		t.Errorf("robots.txt was fetched %d times, and pages %q", o.robotsFetches(), o.pages())
	}

	// A client gets the same judgment.
	wantRefused(t, w.curl("-A", "GreedyBot", o.URL+"/products/1"), `"Disallow: /" on line 21`)
}

func TestPolicyOfTheAPI(t *testing.T) {
	t.Parallel()
	w := start(t)
	o := newOrigin(t, "http", shop(), nil)
	asked := "/api/v1/policy?origin=" + url.QueryEscape(o.URL)
	if status, body := w.get(asked); status != 404 {
		t.Errorf("before any request: status %d: %s", status, body)
	}
	w.curl(o.URL + "/products/1")
	p := w.ask(asked)
	p.want(t, "origin", o.URL, "outcome", "rules", "status", 200, "text", readTestdata("robots/shop.txt"),
		"sitemaps", "[https://shop.example/sitemap.xml https://shop.example/sitemap-news.xml]", "cause", nil, "unreachable_since", nil, "next_try", nil)

	w.curl("http://" + deadAddress + "/")
	p = w.ask("/api/v1/policy?origin=http://" + deadAddress)
	p.want(t, "outcome", "unreachable", "cause", "connection refused", "status", nil, "fetched_at", nil, "expires_at", nil)
	if p["unreachable_since"] == nil || p["next_try"] == nil {
		t.Errorf("since when, and until when? %v", p)
	}
	w.ask("/api/v1/history?origin=http://"+deadAddress).want(t, "versions", "[]")
}

func TestPoliciesOfTheAPI(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.ask("/api/v1/policies").want(t, "policies", "[]", "next", nil)
	var origins []string
	for range 5 {
		o := newOrigin(t, "http", shop(), nil)
		w.curl(o.URL + "/products/1")
		origins = append(origins, o.URL)
	}
	for limit, pages := range map[string]int{"": 1, "1": 5, "2": 3, "5": 1, "1000": 1} {
		var seen []string
		n := 0
		for after := ""; n == 0 || after != ""; n++ {
			page := w.ask("/api/v1/policies?limit=" + limit + "&after=" + url.QueryEscape(after))
			for _, p := range page["policies"].([]any) {
				policy := object(p.(map[string]any))
				policy.want(t, "outcome", "rules", "text", nil)
				seen = append(seen, policy["origin"].(string))
			}
			after, _ = page["next"].(string)
		}
		if n != pages {
			t.Errorf("limit %q: %d pages, want %d", limit, n, pages)
		}
		wantSame(t, "limit "+limit, seen, origins)
	}
	// A page begins where the one before ended, even if that origin has been deleted since.
	slices.Sort(origins)
	next := w.ask("/api/v1/policies?limit=2")["next"].(string)
	w.send("DELETE", "/api/v1/policy?origin="+url.QueryEscape(next))
	w.send("DELETE", "/api/v1/policy?origin="+url.QueryEscape(origins[0]))
	rest := w.ask("/api/v1/policies?limit=2&after=" + url.QueryEscape(next))["policies"].([]any)
	if next != origins[1] || len(rest) != 2 || rest[0].(map[string]any)["origin"] != origins[2] || rest[1].(map[string]any)["origin"] != origins[3] {
		t.Errorf("after %s of %q: %v", next, origins, rest)
	}
	w.curl(origins[0] + "/products/1")
	w.curl(origins[1] + "/products/1")

	part := strings.TrimPrefix(origins[3], "http://127.0.0.1")
	for query, want := range map[string]int{"q=" + part: 1, "q=HTTP://127": 5, "q=nobody": 0, "q=http&limit=2": 2, "after=" + url.QueryEscape(slices.Max(origins)): 0} {
		page := w.ask("/api/v1/policies?" + query)
		if found := page["policies"].([]any); len(found) != want || page["next"] != nil != (query == "q=http&limit=2") {
			t.Errorf("%s: %v", query, page)
		}
	}
	w.ask("/api/v1/policy?origin="+url.QueryEscape(origins[0])).want(t, "state", "fresh")
	w.curl("http://" + deadAddress + "/")
	w.ask("/api/v1/policy?origin=http://"+deadAddress).want(t, "state", "unreachable")
}

// A client that reads page by page sees every lasting origin once and in order, while others
// are added and deleted, with every kind of store.
func TestPagesWhileOriginsChange(t *testing.T) {
	t.Parallel()
	redis := newRedis(t)
	for name, config := range map[string]string{"sqlite": "", "none": "cache: {store: none}", "redis": redis.config()} {
		t.Run(name, func(t *testing.T) {
			w := start(t, config)
			know := func(i int) string {
				origin := fmt.Sprintf("http://127.0.8.%d:1", i)
				w.get("/api/v1/verdict?url=" + origin + "/")
				return origin
			}
			var stay []string
			for i := range 40 {
				stay = append(stay, know(3*i))
			}
			slices.Sort(stay)
			ctx, stop := context.WithCancel(t.Context())
			var group sync.WaitGroup
			for k := 1; k <= 2; k++ { // two changing origins lie between any two that stay
				group.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						w.send("DELETE", "/api/v1/policy?origin="+know(3*(i%40)+k))
						know(3*((i+20)%40) + k)
					}
				})
			}
			for round := range 20 {
				var seen []string
				for after, more := "", true; more; more = after != "" {
					page := w.ask(fmt.Sprintf("/api/v1/policies?limit=%d&after=%s", 2+round, url.QueryEscape(after)))
					for _, p := range page["policies"].([]any) {
						seen = append(seen, p.(map[string]any)["origin"].(string))
					}
					after, _ = page["next"].(string)
				}
				if !slices.IsSorted(seen) {
					t.Errorf("the origins are not in order: %q", seen)
				}
				seen = slices.DeleteFunc(seen, func(origin string) bool { return !slices.Contains(stay, origin) })
				if !slices.Equal(seen, stay) {
					t.Errorf("of the lasting origins, the pages have %q, want %q", seen, stay)
				}
			}
			stop()
			group.Wait()
		})
	}
}

func TestErrorsOfTheAPI(t *testing.T) {
	t.Parallel()
	w := start(t)
	for path, want := range map[string]int{
		"/api/v1/verdict":                               400,
		"/api/v1/verdict?url=products":                  400,
		"/api/v1/verdict?url=gopher://example.com/":     400,
		"/api/v1/verdict?url=http://example.com:99999/": 400,
		"/api/v1/policy":                                400,
		"/api/v1/policy?origin=http://example.com/x":    400,
		"/api/v1/policy?origin=https://nobody.example":  404,
		"/api/v1/history":                               400,
		"/api/v1/history?origin=https://nobody.example": 404,
		"/api/v1/policies?limit=0":                      400,
		"/api/v1/policies?limit=many":                   400,
		"/api/v1/policies?limit=100000":                 400,
		"/api/v1/nothing":                               404,
		"/api/v1/":                                      404,
	} {
		status, body := w.get(path)
		var problem struct {
			Title, Detail string
			Status        int
		}
		if err := json.Unmarshal([]byte(body), &problem); err != nil || status != want || problem.Status != want || problem.Title == "" || problem.Detail == "" {
			t.Errorf("%s: status %d, want %d: %s", path, status, want, body)
		}
	}
	for host, want := range map[string]int{
		"rebound.example": 403, "rebound.example:9090": 403, "localhost.example": 403, "": 200,
		"localhost": 200, "LocalHost:9090": 200, "192.0.2.1": 200, "[2001:db8::1]:9090": 200, "127.0.0.1:1": 200,
	} {
		if status, body := w.get("/api/v1/policies", host); status != want {
			t.Errorf("Host %q: status %d, want %d: %s", host, status, want, body)
		}
	}
	if _, body := w.get("/api/v1/policies", "rebound.example"); !strings.Contains(body, "rebound.example") {
		t.Errorf("the refusal does not name the host: %s", body)
	}
}

func TestHistoryAndDeleteOfTheAPI(t *testing.T) {
	t.Parallel()
	w := start(t)
	var text atomic.Value
	text.Store("User-agent: *\nDisallow: /a\n")
	o := newOrigin(t, "http", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text.Load().(string)) }, nil)
	policy, history := "/api/v1/policy?origin="+url.QueryEscape(o.URL), "/api/v1/history?origin="+url.QueryEscape(o.URL)
	for method, path := range map[string]string{"GET": history, "DELETE": policy} {
		if status, body := w.send(method, path); status != 404 {
			t.Errorf("%s before any request: status %d: %s", method, status, body)
		}
	}
	wantRefused(t, w.curl(o.URL+"/a"), "Disallow: /a")
	text.Store("User-agent: *\nDisallow: /b\n")
	wantRefused(t, w.curl(o.URL+"/a"), "Disallow: /a") // still in memory

	if status, body := w.send("DELETE", policy); status != 204 || body != "" {
		t.Errorf("status %d: %s", status, body)
	}
	if status, body := w.get(policy); status != 404 {
		t.Errorf("after DELETE: status %d: %s", status, body)
	}
	w.ask(history).want(t, "origin", o.URL)
	wantRefused(t, w.curl(o.URL+"/b"), "Disallow: /b")
	if n := o.robotsFetches(); n != 2 {
		t.Errorf("%d fetches", n)
	}

	versions, _ := w.ask(history)["versions"].([]any)
	if len(versions) != 2 {
		t.Fatalf("versions %v", versions)
	}
	last, first := object(versions[0].(map[string]any)), object(versions[1].(map[string]any))
	last.want(t, "status", 200, "text", "User-agent: *\nDisallow: /b\n")
	first.want(t, "status", 200, "text", "User-agent: *\nDisallow: /a\n", "diff", nil)
	if diff, _ := last["diff"].(string); !strings.Contains(diff, " User-agent: *\n-Disallow: /a\n+Disallow: /b\n") {
		t.Errorf("diff %q", diff)
	}
	// The history has the SHA-256 that a decision names.
	sum := w.decision(o.URL + "/b")["robots_sha256"]
	if sum == nil || sum != last["sha256"] {
		t.Errorf("the log says %v, the history %v", sum, last["sha256"])
	}

	for origin, want := range map[string]int{
		"http://rebound.example": 403, "null": 403, "http://" + w.admin: 204,
	} {
		w.curl(o.URL + "/b")
		if status, body := w.send("DELETE", policy, "Origin", origin); status != want {
			t.Errorf("Origin %s: status %d: %s", origin, status, body)
		}
	}
}

func TestWrongMethods(t *testing.T) {
	t.Parallel()
	w := start(t)
	for request, allow := range map[string]string{
		"POST /api/v1/verdict?url=http://a.example/":     "GET, HEAD",
		"DELETE /api/v1/policies":                        "GET, HEAD",
		"PUT /api/v1/policy?origin=http://a.example":     "DELETE, GET, HEAD",
		"DELETE /api/v1/history?origin=http://a.example": "GET, HEAD",
	} {
		method, path, _ := strings.Cut(request, " ")
		r, err := http.NewRequest(method, "http://"+w.admin+path, nil)
		must(t, err)
		resp, err := http.DefaultClient.Do(r)
		must(t, err)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 405 || resp.Header.Get("Allow") != allow || resp.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(string(body), method) {
			t.Errorf("%s: status %d, header %v: %s", request, resp.StatusCode, resp.Header, body)
		}
	}
	for _, path := range []string{"/", "/metrics", "/healthz", "/dashboard/main.js"} {
		if status, body := w.send("POST", path); status != 405 {
			t.Errorf("POST %s: status %d: %s", path, status, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
