package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestRefusalSaysWhy(t *testing.T) {
	t.Parallel()
	w := start(t, "name: front-1")
	for _, scheme := range []string{"http", "h2"} {
		o := newOrigin(t, scheme, shop(), nil)
		r := w.curl("-A", "ExampleBot/1.0", o.URL+"/products?sort=price")
		wantRefused(t, r, `"Disallow: /*?*sort="`)
		if got := r.header.Get("Proxy-Status"); !strings.HasPrefix(got, "front-1; error=") {
			t.Errorf("Proxy-Status %q does not name this proxy", got)
		}
		for _, part := range []string{o.URL + "/products?sort=price", "ExampleBot", o.URL + "/robots.txt", "Disallow: /*?*sort=", "Line 7:"} {
			if !strings.Contains(r.body, part) {
				t.Errorf("%q is not in the answer:\n%s", part, r.body)
			}
		}
		if r.header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
			t.Errorf("header %v", r.header)
		}
		wantSame(t, "pages", o.pages(), nil)
	}
}

func TestOriginsOwn403IsPassedOn(t *testing.T) {
	t.Parallel()
	w := start(t)
	o := newOrigin(t, "h2", shop(), func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "members only", http.StatusForbidden)
	})
	r := w.curl(o.URL + "/products/1")
	if r.status != 403 || r.header["Proxy-Status"] != nil || r.body != "members only\n" {
		t.Errorf("got %+v", r)
	}
}

func TestBodiesComeWhole(t *testing.T) {
	t.Parallel()
	w := start(t)
	body := []byte(strings.Repeat("0123456789abcdef\n", 300_000))
	file := filepath.Join(t.TempDir(), "upload")
	must(t, os.WriteFile(file, body, 0o600))
	want := fmt.Sprintf("%x", sha256.Sum256(body))
	for _, door := range doors {
		o := newOrigin(t, door.origin, shop(), func(w http.ResponseWriter, r *http.Request) {
			got, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%x\n%s", sha256.Sum256(got), got)
		})
		r := w.curl(door.option, "--data-binary", "@"+file, o.URL+"/products/1")
		if got, rest, _ := strings.Cut(r.body, "\n"); r.status != 200 || got != want || rest != string(body) {
			t.Errorf("%s: status %d, %d octets", door.name, r.status, len(r.body))
		}
	}
}

// shopPage is an HTML page of links to everything in the shop.
func shopPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	for _, path := range slices.Concat(shopAllowed, shopRefused) {
		fmt.Fprintf(w, "<a href=%q>%s</a>\n", path, path)
	}
}

var (
	shopAllowed = []string{"/", "/products/1", "/products/2?colour=red", "/account/help", "/search/tips"}
	shopRefused = []string{"/cart", "/checkout/pay", "/account/orders", "/products/2?sort=price", "/search?q=lamp", "/list.csv"}
)

func TestScrapyObeys(t *testing.T) {
	t.Parallel()
	w := start(t)
	plain, secure := newOrigin(t, "http", shop(), shopPage), newOrigin(t, "h2", shop(), shopPage)
	found := w.scrapy("ExampleBot/1.0 (+https://example.org/bot)", plain.URL+"/,"+secure.URL+"/")
	for _, o := range []*origin{plain, secure} {
		for _, path := range shopAllowed {
			if got := found[o.URL+path]; got.Status != 200 || got.Refused != "" {
				t.Errorf("%s: %+v, want 200", path, got)
			}
		}
		for _, path := range shopRefused {
			if got := found[o.URL+path]; got.Status != 403 || !strings.Contains(got.Refused, "http_request_denied") {
				t.Errorf("%s: %+v, want a refusal", path, got)
			}
		}
		if n := o.robotsFetches(); n != 1 {
			t.Errorf("robots.txt was fetched %d times, want once", n)
		}
	}
	wantSame(t, "pages over http", plain.pages(), shopAllowed)
	wantSame(t, "pages over https", secure.pages(), shopAllowed)
	if got := secure.last(t); got.Proto != "HTTP/1.1" || got.UserAgent() != "ExampleBot/1.0 (+https://example.org/bot)" {
		t.Errorf("the origin saw %s from %q", got.Proto, got.UserAgent())
	}
}

func TestScrapyIsRefusedAsAnotherBot(t *testing.T) {
	t.Parallel()
	w := start(t, "default_identity: {product_tokens: [GreedyBot]}")
	o := newOrigin(t, "https", shop(), nil)
	if got := w.scrapy("ExampleBot/1.0", o.URL+"/")[o.URL+"/"]; got.Status != 403 {
		t.Errorf("got %+v, want 403", got)
	}
	wantSame(t, "pages", o.pages(), nil)
}

func TestRobotsIsFetchedOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	o := newOrigin(t, "h2", shop(), nil)
	args := []string{"--parallel", "--parallel-max", "20", "-A", "ExampleBot/1.0"}
	for i := range 60 {
		args = append(args, "-o", os.DevNull, o.URL+"/products/"+strconv.Itoa(i))
	}
	for _, r := range w.curls(args...) {
		if r.status != 200 {
			t.Errorf("status %d", r.status)
		}
	}
	if n := o.robotsFetches(); n != 1 || len(o.pages()) != 60 {
		t.Errorf("robots.txt was fetched %d times and %d pages; want one and 60", n, len(o.pages()))
	}
	w.wantMetric(`robotsproxy_robots_fetches_total{outcome="rules"}`, "1")
	w.wantMetric(`robotsproxy_requests_total{identity="default",reason="no_rule",verdict="allowed"}`, "60")
}

func TestRestartFetchesNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	o := newOrigin(t, "https", shop(), nil)
	for range 3 {
		if r := w.curl(o.URL + "/products/1"); r.status != 200 {
			t.Errorf("status %d", r.status)
		}
		wantRefused(t, w.curl(o.URL+"/cart"), "Disallow: /cart")
		w.stop()
		w.run()
	}
	w.signal(syscall.SIGKILL)
	w.ended()
	w.run()
	wantRefused(t, w.curl(o.URL+"/cart"), "Disallow: /cart")
	if n := o.robotsFetches(); n != 1 {
		t.Errorf("robots.txt was fetched %d times, want once", n)
	}
}

func TestCheckSharesTheDataDirectory(t *testing.T) {
	t.Parallel()
	w := start(t)
	o := newOrigin(t, "http", shop(), nil)
	w.curl(o.URL + "/products/1")
	check := exec.Command(program, "check", "--data-dir", w.dir, o.URL+"/cart")
	out, _ := check.Output()
	if check.ProcessState.ExitCode() != 1 || !strings.HasPrefix(string(out), "disallowed ") || o.robotsFetches() != 1 {
		t.Errorf("check: %v: %s; robots.txt was fetched %d times", check.ProcessState, out, o.robotsFetches())
	}
}

func TestTwoProxiesShareTheDataDirectory(t *testing.T) {
	t.Parallel()
	first, second := start(t), start(t)
	second.stop()
	second.dir = first.dir
	second.run()
	o := newOrigin(t, "https", shop(), nil)
	for _, w := range []*world{first, second} {
		if r := w.curl(o.URL + "/products/1"); r.status != 200 {
			t.Errorf("status %d, curl's exit code %d", r.status, r.exit)
		}
	}
	if n := o.robotsFetches(); n != 1 {
		t.Errorf("robots.txt was fetched %d times, want once", n)
	}
}

func TestDamagedPoliciesAreSetAside(t *testing.T) {
	t.Parallel()
	w := start(t)
	o := newOrigin(t, "http", shop(), nil)
	w.curl(o.URL + "/products/1")
	w.stop()
	file := filepath.Join(w.dir, "policies.db")
	must(t, os.WriteFile(file, []byte(strings.Repeat("this is no database ", 1000)), 0o600))
	w.run()
	line := w.log.wait(t, w.exited, "set_aside_as")
	line.want(t, "level", "error", "file", file)
	if _, err := os.Stat(fmt.Sprint(line["set_aside_as"])); err != nil {
		t.Error(err)
	}
	if r := w.curl(o.URL + "/products/1"); r.status != 200 || o.robotsFetches() != 2 {
		t.Errorf("status %d, robots.txt was fetched %d times", r.status, o.robotsFetches())
	}
	w.stop()
	w.run()
	w.curl(o.URL + "/products/1")
	if lines := w.log.Lines("set_aside_as"); len(lines) > 0 || o.robotsFetches() != 2 {
		t.Errorf("the new database does not last: %d fetches, %s", o.robotsFetches(), lines)
	}
}

func TestStoreNone(t *testing.T) {
	t.Parallel()
	w := start(t, "cache: {store: none}")
	o := newOrigin(t, "http", shop(), nil)
	w.curl(o.URL + "/products/1")
	wantRefused(t, w.curl(o.URL+"/cart"), "Disallow: /cart")
	w.stop()
	w.run()
	w.curl(o.URL + "/products/1")
	if _, err := os.Stat(filepath.Join(w.dir, "policies.db")); err == nil || o.robotsFetches() != 2 {
		t.Errorf("policies are kept on disk (%v), or fetched %d times instead of twice", err, o.robotsFetches())
	}
}

func TestUnreachableRobotsRefuseEverything(t *testing.T) {
	t.Parallel()
	w := start(t, "upstream: {connect_timeout: 5s}", "# ORIGINS is not trusted")
	fails := newOrigin(t, "http", func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "", http.StatusInternalServerError) }, nil)
	dies := newOrigin(t, "http", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil)
	untrusted := newOrigin(t, "https", shop(), nil)
	for _, test := range []struct{ site, cause string }{
		{fails.URL, "500 Internal Server Error"},
		{dies.URL, "connection closed"},
		{untrusted.URL, "certificate"},
		{"http://" + deadAddress, "connection refused"},
		{"https://" + deadAddress, "connection refused"},
	} {
		r := w.curl(test.site + "/products/1")
		wantRefused(t, r, test.cause)
		if after, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || after < 1 || after > 60 {
			t.Errorf("%s: Retry-After %q", test.site, r.header.Get("Retry-After"))
		}
		w.decision(test.site+"/products/1").want(t, "verdict", "disallowed", "reason", "unreachable", "status", 403)
		w.log.wait(t, w.exited, `"robots.txt unreachable"`, `"origin":"`+test.site+`"`, test.cause)
	}
	wantSame(t, "pages", append(fails.pages(), dies.pages()...), nil)
	if r := w.curl(fails.URL + "/robots.txt"); r.status != 500 || r.header["Proxy-Status"] != nil {
		t.Errorf("robots.txt itself: %+v, want the origin's own answer", r)
	}
}

func TestSiteWithoutRobotsAllowsEverything(t *testing.T) {
	t.Parallel()
	w := start(t)
	o := newOrigin(t, "h2", http.NotFound, nil)
	if r := w.curl(o.URL + "/cart"); r.status != 200 {
		t.Errorf("status %d", r.status)
	}
	w.decision(o.URL+"/cart").want(t, "verdict", "allowed", "reason", "unavailable")

	w = start(t, "robots: {statuses: {404: disallow}}")
	wantRefused(t, w.curl(o.URL+"/products/1"), "answers 404")
	w.decision(o.URL+"/products/1").want(t, "verdict", "disallowed", "reason", "status")
}

func TestRobotsTxtChanges(t *testing.T) {
	t.Parallel()
	w := start(t, "robots: {ttl: 100ms, min_ttl: 1ms}")
	var closed atomic.Bool
	o := newOrigin(t, "http", func(rw http.ResponseWriter, _ *http.Request) {
		if closed.Load() {
			io.WriteString(rw, "User-agent: *\nDisallow: /")
		}
	}, nil)
	if r := w.curl(o.URL + "/"); r.status != 200 {
		t.Errorf("status %d", r.status)
	}
	closed.Store(true)
	waitFor(t, func() bool { return w.curl(o.URL+"/").status == 403 }, func() string { return "the first robots.txt holds for ever" })
}

func TestHostsAreComparedInNormalForm(t *testing.T) {
	t.Parallel()
	w := start(t)
	o := newOrigin(t, "http", shop(), nil)
	_, port, _ := net.SplitHostPort(o.Listener.Addr().String())
	for _, host := range []string{"localhost", "LocalHost", "localhost."} {
		site := "http://" + host + ":" + port
		if r := w.curl(site + "/products/1"); r.status != 200 {
			t.Errorf("%s: status %d", host, r.status)
		}
		wantRefused(t, w.curl(site+"/cart"), "Disallow: /cart")
	}
	if n := o.robotsFetches(); n != 1 {
		t.Errorf("robots.txt was fetched %d times, want once", n)
	}
}

func TestIPv6(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, scheme := range []string{"http", "h2"} {
		l, err := net.Listen("tcp6", "[::1]:0")
		if err != nil {
			t.Skipf("this machine has no IPv6: %v", err)
		}
		o := newOriginOn(t, l, scheme, shop(), nil)
		if r := w.curl(o.URL + "/products/1"); r.status != 200 {
			t.Errorf("%s: status %d, curl's exit code %d", o.URL, r.status, r.exit)
		}
		wantRefused(t, w.curl(o.URL+"/cart"), "Disallow: /cart")
		w.decision(o.URL + "/cart")
	}
}

// Some clients send GET https:// to the proxy, without a tunnel.
func TestHTTPSWithoutATunnel(t *testing.T) {
	t.Parallel()
	w := start(t)
	o := newOrigin(t, "h2", shop(), nil)
	for path, want := range map[string]string{"/products/1": "HTTP/1.1 200 ", "/cart": "HTTP/1.1 403 "} {
		got := w.raw("GET " + o.URL + path + " HTTP/1.1\r\nHost: " + o.Listener.Addr().String() + "\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
	wantSame(t, "pages", o.pages(), []string{"/products/1"})
}

func TestInsecureHosts(t *testing.T) {
	t.Parallel()
	w := start(t, "upstream: {insecure: ['127.0.0.*']} # ORIGINS is not trusted")
	o := newOrigin(t, "h2", shop(), nil)
	if r := w.curl(o.URL + "/products/1"); r.status != 200 {
		t.Errorf("status %d", r.status)
	}
	wantRefused(t, w.curl(o.URL+"/cart"), "Disallow: /cart")
}

// What an origin sends reaches the client at once, even if the rest never follows.
func TestPiecesAreForwardedAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, door := range doors {
		for _, length := range []string{"", "10"} {
			t.Run(door.name+"/"+length, func(t *testing.T) {
				arrived := make(chan struct{})
				o := newOrigin(t, door.origin, shop(), func(rw http.ResponseWriter, r *http.Request) {
					if length != "" {
						rw.Header().Set("Content-Length", length)
					}
					io.WriteString(rw, "12345")
					http.NewResponseController(rw).Flush()
					select {
					case <-arrived:
					case <-time.After(testTimeout):
						t.Error("the first piece is kept back")
					}
					panic(http.ErrAbortHandler)
				})
				resp, err := w.in(t).client(door.version == "2").Get(o.URL + "/products/1")
				must(t, err)
				defer resp.Body.Close()
				piece := make([]byte, 5)
				if _, err := io.ReadFull(resp.Body, piece); err != nil || string(piece) != "12345" {
					t.Errorf("the first piece: %q, %v", piece, err)
				}
				close(arrived)
				if _, err := io.ReadAll(resp.Body); err == nil {
					t.Error("the body ends as if it were whole")
				}
			})
		}
	}
}

// The libraries log complaints of their own, for example about a response to HEAD that has
// a body.
func TestEveryLineOfTheLogIsJSON(t *testing.T) {
	t.Parallel()
	w := start(t, "log: {level: debug}", "limits: {header_timeout: 100ms}")
	o := newOrigin(t, "http", shop(), func(rw http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(rw).Hijack()
		must(t, err)
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
		io.Copy(io.Discard, conn)
	})
	for range 3 {
		w.curl("--head", o.URL+"/products/1")
	}
	w.raw("CONNECT " + o.Listener.Addr().String() + " HTTP/1.1\r\nHost: x\r\n\r\n\x16\x03\x01\x00\x01\x00")
	w.raw("\x16\x03\x01\x00\x01\x00\r\n\r\n")
	w.stop() // checks every line
}

func TestDecisionLine(t *testing.T) {
	t.Parallel()
	w := start(t)
	o := newOrigin(t, "https", shop(), nil)
	body := w.curl("-A", "ShopBot-Image/2.0", o.URL+"/products/7?x=<y>").body
	line := w.decision(o.URL + "/products/7?x=<y>")
	line.want(t, "level", "info", "client", "127.0.0.1", "identity", "default", "agent", "ShopBot-Image", "method", "GET",
		"verdict", "disallowed", "reason", "rule", "rule", "Disallow: /", "line", 17,
		"robots_sha256", fmt.Sprintf("%x", sha256.Sum256([]byte(readTestdata("robots/shop.txt")))),
		"status", 403, "bytes", len(body))
	for _, name := range []string{"time", "duration_ms", "wait_ms"} {
		if line[name] == nil {
			t.Errorf("%s is missing in %v", name, line)
		}
	}
	body = w.curl("-X", "PUT", "-d", "x", o.URL+"/products/8").body
	w.decision(o.URL+"/products/8").want(t, "method", "PUT", "agent", "curl", "verdict", "allowed", "reason", "no_rule",
		"status", 200, "bytes", len(body), "rule", nil, "line", nil)
}

func TestNoCredentialsInTheLog(t *testing.T) {
	t.Parallel()
	w := start(t, "log: {level: debug}")
	plain, secure := newOrigin(t, "http", shop(), nil), newOrigin(t, "h2", shop(), nil)
	for _, o := range []*origin{plain, secure} {
		for _, path := range []string{"/products/1", "/cart"} {
			w.curl("--proxy-user", "agent:sesame1", "--user", "member:sesame2", o.URL+path)
			w.curl("--proxy-user", "agent:sesame1", strings.Replace(o.URL, "://", "://member:sesame3@", 1)+path)
		}
		if got := o.last(t).Header; got["Proxy-Authorization"] != nil || got["Authorization"] == nil {
			t.Errorf("the origin got %v", got)
		}
	}
	for _, line := range []string{ // what curl would not send
		"GET " + strings.Replace(plain.URL, "://", "://member:sesame4@", 1) + "/products/2 HTTP/1.1",
		"GET " + strings.Replace(plain.URL, "://", "://member:sesame4@", 1) + "/cart HTTP/1.1",
		"GET http://member:sesame4@" + deadAddress + "/ HTTP/1.1",
		"GET http://member:sesame4@[::bad/ HTTP/1.1",
		"GET ftp://member:sesame4@ftp.example/ HTTP/1.1",
		"CONNECT member:sesame4@127.0.0.1:1 HTTP/1.1",
	} {
		w.raw(line + "\r\nHost: x\r\nProxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("agent:sesame5")) + "\r\nConnection: close\r\n\r\n")
	}
	w.decision(plain.URL + "/products/2")
	w.stop()
	for i := range 5 {
		secret := "sesame" + strconv.Itoa(i+1)
		encoded := base64.RawStdEncoding.EncodeToString([]byte("agent:" + secret))
		if lines := append(w.log.Lines(secret), w.log.Lines(encoded[:16])...); len(lines) > 0 {
			t.Errorf("%s is in the log: %s", secret, lines)
		}
	}
}

// raw sends octets to the proxy and returns everything that it sends back.
func (w *world) raw(text string) string {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.proxy)
	must(w.t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testTimeout))
	_, err = io.WriteString(conn, text)
	must(w.t, err)
	got, err := io.ReadAll(bufio.NewReader(conn))
	must(w.t, err)
	return string(got)
}

func TestDecisionsThatAreLogged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		decisions string
		want      []string
	}{{"all", []string{"allowed", "disallowed"}}, {"refused", []string{"disallowed"}}, {"none", nil}} {
		w := start(t, "log: {decisions: "+test.decisions+"}")
		o := newOrigin(t, "http", shop(), nil)
		w.curl(o.URL + "/products/1")
		w.curl(o.URL + "/cart")
		w.stop()
		var got []string
		for _, line := range w.log.Lines(`"message":"request"`) {
			_, after, _ := strings.Cut(line, `"verdict":"`)
			verdict, _, _ := strings.Cut(after, `"`)
			got = append(got, verdict)
		}
		wantSame(t, "decisions: "+test.decisions, got, test.want)
	}
}

func TestClientsAllow(t *testing.T) {
	t.Parallel()
	w := start(t, "clients: {allow: [192.0.2.0/24, '::1/128']}")
	o := newOrigin(t, "http", shop(), nil)
	r := w.curl(o.URL + "/products/1")
	if r.status != 403 || !strings.Contains(r.header.Get("Proxy-Status"), "error=http_request_denied") || !strings.Contains(r.body, "clients.allow") {
		t.Errorf("got %+v", r)
	}
	if got := w.raw("CONNECT " + deadAddress + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("CONNECT: %s", got)
	}
	if o.robotsFetches() != 0 {
		t.Error("a client that is not allowed made the proxy fetch")
	}
}

func TestDefaultIdentity(t *testing.T) {
	t.Parallel()
	const agent = "ShopBot/2.0 (+https://shopbot.example/)"
	w := start(t, "default_identity: {product_tokens: [ShopBot-Image, GreedyBot], user_agent: '"+agent+"', from: bot@shopbot.example}")
	robotsAgent := make(chan string, 1)
	o := newOrigin(t, "h2", func(rw http.ResponseWriter, r *http.Request) {
		robotsAgent <- r.UserAgent()
		shop()(rw, r)
	}, nil)
	if r := w.curl("-A", "curl-says-this", o.URL+"/products/1/photo.jpg"); r.status != 200 {
		t.Errorf("status %d", r.status)
	}
	wantRefused(t, w.curl("-A", "PartnerBot", o.URL+"/products/1"), "in the group of shopbot-image")
	w.decision(o.URL+"/products/1").want(t, "agent", "ShopBot-Image")
	if got := o.last(t).Header; got.Get("User-Agent") != agent || got.Get("From") != "bot@shopbot.example" {
		t.Errorf("the origin got %v", got)
	}
	if got := <-robotsAgent; got != agent {
		t.Errorf("robots.txt was asked for by %q", got)
	}
}

// A server like nginx refuses a request for its header or its bot's name, which says
// nothing about the site's robots.txt. So no client can make a site look unrestricted to
// others.
func TestNoClientLiftsRulesForOthers(t *testing.T) {
	t.Parallel()
	for name, client := range map[string][]string{
		"a long name":       {"-A", strings.Repeat("x", 20<<10)},
		"a name it bans":    {"-A", "BadBot/1.0"},
		"a long From":       {"-A", "curl/8", "-H", "From: " + strings.Repeat("x", 20<<10)},
		"octets of no name": {"-A", "b\xffd"},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			o := newOrigin(t, "http", func(rw http.ResponseWriter, r *http.Request) {
				switch agent := r.UserAgent(); {
				case len(agent)+len(r.Header.Get("From")) > 8<<10:
					rw.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
				case strings.Contains(agent, "\xff"):
					rw.WriteHeader(http.StatusBadRequest)
				case strings.HasPrefix(agent, "BadBot"):
					rw.WriteHeader(http.StatusForbidden)
				default:
					shop()(rw, r)
				}
			}, nil)
			w.curl(append(client, o.URL+"/cart")...)
			wantRefused(t, w.curl("-A", "ExampleBot", o.URL+"/cart"), "Disallow: /cart")
			if n := o.robotsFetches(); n != 1 {
				t.Errorf("robots.txt was fetched %d times", n)
			}
		})
	}
}

// Some sites have rules for the bots that they know, and answer 403 to all others.
func TestSiteThatRefusesUnknownBots(t *testing.T) {
	t.Parallel()
	w := start(t, "robots: {ttl: 400ms, min_ttl: 1ms}")
	var known atomic.Bool
	known.Store(true)
	o := newOrigin(t, "https", func(rw http.ResponseWriter, r *http.Request) {
		if r.UserAgent() != "ExampleBot/2.0" || !known.Load() {
			rw.WriteHeader(http.StatusForbidden)
			return
		}
		shop()(rw, r)
	}, nil)
	wantRefused(t, w.curl("-A", "ExampleBot/2.0", o.URL+"/cart"), "Disallow: /cart")
	fetches := o.robotsFetches()
	waitFor(t, func() bool { // an unknown bot asks, over several lifetimes
		wantRefused(t, w.curl("-A", "curl/8", o.URL+"/cart"), "Disallow: /cart")
		return o.robotsFetches() >= fetches+8
	}, func() string { return "robots.txt is not fetched again" })
	w.stop()
	w.run()
	wantRefused(t, w.curl("-A", "curl/8", o.URL+"/cart"), "Disallow: /cart")
	known.Store(false)
	w.becomes(o.URL+"/cart", 200, "unavailable")
}

// The proxy soon stops reading a site that sends endless gzip with nothing in it.
func TestSiteThatSendsEmptyGzip(t *testing.T) {
	t.Parallel()
	w := start(t)
	var b bytes.Buffer
	must(t, gzip.NewWriter(&b).Close())
	empty := bytes.Repeat(b.Bytes(), 1000)
	var sent atomic.Int64
	o := newOrigin(t, "https", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip")
		for {
			n, err := rw.Write(empty)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}, nil)
	wantRefused(t, w.curl(o.URL+"/"), "gzip that yields next to nothing")
	if n := sent.Load(); n > 32<<20 { // the kernel holds some of it
		t.Errorf("the site could send %d octets", n)
	}
}

// A client that uses many names for many new sites has one turn at a time for a fetch, like
// any other client.
func TestManyNamesShareOneTurn(t *testing.T) {
	t.Parallel()
	const names = 30
	w := start(t, "robots: {max_fetches: 1, fetch_timeout: 2m}")
	fetches, next := make(chan string, names+2), make(chan struct{}, names+2)
	site := func(name string) string {
		return newOrigin(t, "http", func(rw http.ResponseWriter, r *http.Request) {
			fetches <- name
			<-next
		}, nil).URL + "/"
	}
	var all sync.WaitGroup
	all.Go(func() { w.curl("-A", "first", site("first")) })
	<-fetches // it takes the only place
	for i := range names {
		all.Go(func() { w.curl("-A", fmt.Sprint("Bot", i), site("greedy")) })
	}
	w.wantMetric("robotsproxy_connections", fmt.Sprint(names+1))
	time.Sleep(200 * time.Millisecond) // for the last ones to wait for their turns
	all.Go(func() { w.curl("--interface", "127.0.0.2", "-A", "HonestBot", site("honest")) })
	w.wantMetric("robotsproxy_connections", fmt.Sprint(names+2))
	time.Sleep(200 * time.Millisecond)
	turn := 0
	for i := range names + 1 {
		next <- struct{}{}
		if <-fetches == "honest" {
			turn = i + 1
		}
	}
	next <- struct{}{}
	all.Wait()
	if turn == 0 || turn > names/2 { // by its name alone it would be about the last
		t.Errorf("the honest bot had turn %d of %d", turn, names+1)
	}
}

// 429 does not replace a good copy. Without one, it counts for a short time.
func TestSiteThatAnswersTooManyRequests(t *testing.T) {
	t.Parallel()
	w := start(t, "robots: {ttl: 300ms, min_ttl: 50ms, max_ttl: 1h, retry_min: 20ms, retry_max: 40ms}")
	var busy atomic.Bool
	answer := func(rw http.ResponseWriter, r *http.Request) {
		if busy.Load() {
			rw.Header().Set("Cache-Control", "max-age=3600")
			rw.WriteHeader(http.StatusTooManyRequests)
			return
		}
		shop()(rw, r)
	}
	known, unknown := newOrigin(t, "http", answer, nil), newOrigin(t, "http", answer, nil)
	w.becomes(known.URL+"/cart", 403, "rule")
	busy.Store(true)
	if r := w.becomes(known.URL+"/cart", 403, "unreachable"); r.header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %+v", r)
	}
	w.ask("/api/v1/policy?origin="+known.URL).want(t, "outcome", "unreachable", "status", 429, "cause", "429 Too Many Requests")
	w.becomes(unknown.URL+"/cart", 200, "unavailable")
	busy.Store(false)
	w.becomes(known.URL+"/cart", 403, "rule")
	w.becomes(unknown.URL+"/cart", 403, "rule")
}

func TestModes(t *testing.T) {
	t.Parallel()
	report := start(t, "default_identity: {mode: report}")
	o := newOrigin(t, "https", shop(), nil)
	if r := report.curl(o.URL + "/cart"); r.status != 200 || r.header["Proxy-Status"] != nil {
		t.Errorf("report: %+v", r)
	}
	report.decision(o.URL+"/cart").want(t, "verdict", "disallowed", "reason", "rule", "rule", "Disallow: /cart", "status", 200, "would_refuse", true)
	report.wantMetric(`robotsproxy_requests_total{identity="default",reason="rule",verdict="disallowed"}`, "1")

	off := start(t, "default_identity: {mode: off}")
	o = newOrigin(t, "https", shop(), nil)
	if r := off.curl(o.URL + "/cart"); r.status != 200 {
		t.Errorf("off: %+v", r)
	}
	off.decision(o.URL+"/cart").want(t, "verdict", "allowed", "reason", "exempt")
	if o.robotsFetches() != 0 {
		t.Error("mode off asks for robots.txt")
	}
}

func TestClientWithoutTheCA(t *testing.T) {
	t.Parallel()
	w := start(t)
	o := newOrigin(t, "https", shop(), nil)
	for range 3 {
		if r := w.curl("--cacert", originCertificate(t), o.URL+"/products/1"); r.exit != 60 {
			t.Errorf("curl's exit code is %d, want 60: the certificate is not trusted", r.exit)
		}
	}
	w.wantMetric("robotsproxy_client_tls_failures_total", "3")
	line := w.log.wait(t, w.exited, `"level":"warn"`, "does not trust")
	line.want(t, "client", "127.0.0.1", "host", "127.0.0.1")
	if lines := w.log.Lines(`"level":"warn"`); len(lines) != 1 {
		t.Errorf("%d warnings, want one for a client and host: %s", len(lines), lines)
	}
	w.wantMetric("robotsproxy_client_tls_unused_total", "0")

	if r := w.curl(o.URL + "/products/1"); r.status != 200 {
		t.Errorf("with the CA: status %d", r.status)
	}
}

func TestConnectionsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	w := start(t, "log: {decisions: none}")
	goroutines := func() int {
		t.Helper()
		n, err := strconv.Atoi(w.metric("go_goroutines"))
		must(t, err)
		return n
	}
	before := goroutines()
	for _, door := range doors {
		o := newOrigin(t, door.origin, shop(), nil)
		for range 5 {
			w.statuses(o.URL, "ExampleBot", []string{"/products/1", "/cart"}, door.option)
		}
		w.raw("CONNECT " + o.Listener.Addr().String() + " HTTP/1.1\r\nHost: x\r\n\r\nSSH-2.0-client\r\n")
		o.Close()
	}
	waitFor(t, func() bool { return goroutines() <= before+2 && w.metric("robotsproxy_connections") == "0" }, func() string {
		return fmt.Sprintf("%d goroutines before, %d after; %s connections are open", before, goroutines(), w.metric("robotsproxy_connections"))
	})
}
