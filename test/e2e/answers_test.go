package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// entry is a way to send requests to the proxy, for URLs of one scheme.
type entry struct {
	name, scheme string
	tunnel       bool
	client       func(w *world) *http.Client
}

var entries = []entry{
	{"http", "http", false, func(w *world) *http.Client { return w.client(false) }},
	{"https without a tunnel", "https", false, func(w *world) *http.Client {
		client := w.through(nil)
		client.Transport = absoluteForm{w.proxy, client.Transport}
		return client
	}},
	{"tunnelled http", "http", true, func(w *world) *http.Client { return w.through(w.connect) }},
	{"tunnelled https, h1", "https", true, func(w *world) *http.Client { return w.client(false) }},
	{"tunnelled https, h2", "https", true, func(w *world) *http.Client { return w.client(true) }},
}

// through returns a client that uses no proxy and connects by dial.
func (w *world) through(dial func(context.Context, string, string) (net.Conn, error)) *http.Client {
	transport := &http.Transport{DialContext: dial}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: testTimeout}
}

// connect opens a tunnel to host; a client can use it to dial.
func (w *world) connect(_ context.Context, _, host string) (net.Conn, error) {
	conn, r := w.connectTo(host)
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil || resp.StatusCode != http.StatusOK {
		conn.Close()
		return nil, fmt.Errorf("CONNECT %s: %v, %v", host, resp, err)
	}
	return conn, nil
}

func (w *world) connectTo(host string, header ...string) (net.Conn, *bufio.Reader) {
	conn := w.dial()
	io.WriteString(conn, strings.Join(append([]string{"CONNECT " + host + " HTTP/1.1", "Host: " + host}, header...), "\r\n")+"\r\n\r\n")
	return conn, bufio.NewReader(conn)
}

// absoluteForm sends requests for https:// to a proxy in absolute form, without a tunnel.
type absoluteForm struct {
	proxy string
	next  http.RoundTripper
}

func (a absoluteForm) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	if out.Host == "" {
		out.Host = r.URL.Host
	}
	out.URL = &url.URL{Scheme: "http", Host: a.proxy, Opaque: r.URL.String()}
	return a.next.RoundTrip(out)
}

// mishap is a failure or refusal that the proxy reports to a client.
type mishap struct {
	name   string
	status int
	kind   string // the error type of RFC 9209
	url    string // SCHEME stands for the entry's, SITE for the site
	scheme string // of the entries where it can happen; "" means all
	tunnel bool   // it happens only in tunnels
	header http.Header
	host   string // the request's Host, if it is not the URL's
}

var mishaps = []mishap{
	{name: "a refused page", status: 403, kind: "http_request_denied", url: "SITE/private/a?b=c"},
	{name: "a bad URL", status: 400, kind: "http_request_error", url: "http://127.0.0.1:99999/", scheme: "http"},
	{name: "a bad Host", status: 400, kind: "http_request_error", url: "SITE/", tunnel: true, host: "127.0.0.1:99999"},
	{name: "another host", status: 421, kind: "http_request_error", url: "SITE/", tunnel: true, host: "other.example"},
	{name: "another port", status: 421, kind: "http_request_error", url: "SITE/", tunnel: true, host: "127.0.0.1:1"},
	{name: "no such name", status: 502, kind: "dns_error", url: "SCHEME://nobody.invalid/robots.txt"},
	{name: "nobody listens", status: 502, kind: "connection_refused", url: "SCHEME://" + deadAddress + "/robots.txt"},
	{name: "a wrong certificate", status: 502, kind: "tls_certificate_error", url: "https://localhost:PORT/robots.txt", scheme: "https"},
	{name: "no answer", status: 502, kind: "http_response_incomplete", url: "SITE/dies"},
	{name: "a loop", status: 502, kind: "proxy_loop_detected", url: "SITE/", header: http.Header{"Via": {"1.1 other, 1.1 front-1"}}},
	{name: "a denied address", status: 502, kind: "destination_ip_prohibited", url: "SCHEME://169.254.1.1/page"},
	{name: "a denied address's robots.txt", status: 502, kind: "destination_ip_prohibited", url: "SCHEME://[fe80::1]/robots.txt"},
	{name: "the proxy itself", status: 502, kind: "proxy_loop_detected", url: "SCHEME://PROXY/page"},
	{name: "a robots.txt that cannot be had", status: 403, kind: "http_request_denied", url: "SCHEME://" + deadAddress + "/page"},
}

const answersRobots = `Sitemap: https://example.com/sitemap.xml
User-agent: *
Crawl-delay: 0.5
Disallow: /private
`

// Whatever goes wrong, at every door, the client gets an answer in the format that it
// accepts.
func TestAnswers(t *testing.T) {
	t.Parallel()
	w := start(t, "name: front-1")
	page := func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/dies" {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(rw, "the page "+r.RequestURI)
	}
	sites := map[string]*origin{
		"http":  newOrigin(t, "http", says(answersRobots), page),
		"https": newOrigin(t, "h2", says(answersRobots), page),
	}
	for _, e := range entries {
		site := sites[e.scheme]
		for _, m := range mishaps {
			if m.scheme != "" && m.scheme != e.scheme || m.tunnel && !e.tunnel || m.name == "a bad URL" && e.tunnel {
				continue
			}
			m.url = strings.NewReplacer("SCHEME", e.scheme, "SITE", site.URL, "PORT", site.port(), "PROXY", w.proxy).Replace(m.url)
			t.Run(e.name+"/"+m.name, func(t *testing.T) {
				w.in(t).wantAnswers(e, m)
			})
		}
	}
	for _, site := range sites {
		if pages := site.pages(); slices.ContainsFunc(pages, func(p string) bool { return p != "/dies" }) {
			t.Errorf("the site was asked for %q", pages)
		}
	}
}

func (o *origin) port() string {
	_, port, _ := net.SplitHostPort(o.Listener.Addr().String())
	return port
}

// Timeouts are reported too.
func TestAnswersAfterTimeouts(t *testing.T) {
	t.Parallel()
	w := start(t, "name: front-1", "upstream: {connect_timeout: 1s, response_header_timeout: 300ms, insecure: ['127.0.0.1']}", "# ORIGINS")
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	sites := map[string]*origin{"http": newOrigin(t, "http", hang, nil), "https": newOrigin(t, "https", hang, nil)}
	for _, e := range entries {
		for _, m := range []mishap{
			{name: "no response", status: 504, kind: "http_response_timeout", url: sites[e.scheme].URL + "/robots.txt"},
			{name: "no connection", status: 504, kind: "connection_timeout", url: e.scheme + "://" + fullListener(t) + "/robots.txt"},
			{name: "no handshake", status: 504, kind: "connection_timeout", url: "https://" + deafListener(t) + "/robots.txt", scheme: "https"},
		} {
			if m.scheme != "" && m.scheme != e.scheme {
				continue
			}
			t.Run(e.name+"/"+m.name, func(t *testing.T) {
				t.Parallel()
				w.in(t).wantAnswers(e, m)
			})
		}
	}
}

// deafListener returns an address that accepts connections and sends nothing.
func deafListener(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// fullListener returns an address where connection attempts hang, because the listener's
// queue is full.
func fullListener(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	conn, err := l.(*net.TCPListener).SyscallConn()
	must(t, err)
	must(t, conn.Control(func(fd uintptr) { err = syscall.Listen(int(fd), 0) }))
	must(t, err)
	for range 10 {
		conn, err := net.DialTimeout("tcp", l.Addr().String(), time.Second)
		if err != nil {
			return l.Addr().String()
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Skip("this system accepts connections beyond a listener's queue")
	return ""
}

// wantAnswers checks what an entry answers to a mishap, in each format and to HEAD.
func (w *world) wantAnswers(e entry, m mishap) {
	t := w.t
	client := e.client(w)
	ask := func(method, accept string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequest(method, m.url, nil)
		must(t, err)
		r.Header = m.header.Clone()
		if r.Header == nil {
			r.Header = http.Header{}
		}
		r.Header.Set("User-Agent", "ExampleBot/1.0")
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		r.Host = m.host
		resp, err := client.Do(r)
		must(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp, string(body)
	}
	for accept, want := range map[string]func(*testing.T, mishap, *http.Response, string){
		"":                         wantText,
		"text/html, */*;q=0.8":     wantHTML,
		"application/problem+json": wantProblem,
	} {
		resp, body := ask(http.MethodGet, accept)
		wantAnswer(t, m, resp)
		want(t, m, resp, body)
		if length := resp.Header.Get("Content-Length"); length != strconv.Itoa(len(body)) {
			t.Errorf("Accept %q: Content-Length is %q and the body has %d octets", accept, length, len(body))
		}
		if e.name == "tunnelled https, h2" && resp.ProtoMajor != 2 {
			t.Errorf("spoke %s", resp.Proto)
		}
	}
	resp, body := ask(http.MethodHead, "")
	wantAnswer(t, m, resp)
	if length, err := strconv.Atoi(resp.Header.Get("Content-Length")); body != "" || err != nil || length == 0 {
		t.Errorf("HEAD: Content-Length %q, body %q", resp.Header.Get("Content-Length"), body)
	}
}

var proxyStatusField = regexp.MustCompile(`^front-1; error=([a-z_]+); details="(?:[ !#-\[\]-~]|\\["\\])+"$`)

// wantAnswer checks what all formats have in common.
func wantAnswer(t *testing.T, m mishap, resp *http.Response) {
	t.Helper()
	field := proxyStatusField.FindStringSubmatch(resp.Header.Get("Proxy-Status"))
	if resp.StatusCode != m.status || field == nil || field[1] != m.kind {
		t.Errorf("%s, Proxy-Status %q; want %d, %s", resp.Status, resp.Header["Proxy-Status"], m.status, m.kind)
	}
	if resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Date") == "" {
		t.Errorf("header %v", resp.Header)
	}
	if after := resp.Header.Get("Retry-After"); (after != "") != strings.HasPrefix(m.name, "a robots.txt") {
		t.Errorf("Retry-After %q", after)
	}
}

func wantText(t *testing.T, m mishap, resp *http.Response, body string) {
	t.Helper()
	if kind := resp.Header.Get("Content-Type"); kind != "text/plain; charset=utf-8" {
		t.Errorf("Content-Type %s", kind)
	}
	if start := fmt.Sprintf("%d %s: ", m.status, http.StatusText(m.status)); !strings.HasPrefix(body, start) {
		t.Errorf("the text does not begin with %q:\n%s", start, body)
	}
	wantFacts(t, m, body)
}

func wantHTML(t *testing.T, m mishap, resp *http.Response, body string) {
	t.Helper()
	if kind := resp.Header.Get("Content-Type"); kind != "text/html; charset=utf-8" {
		t.Errorf("Content-Type %s", kind)
	}
	if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") {
		t.Errorf("Content-Security-Policy %q", policy)
	}
	title := fmt.Sprintf("%d %s", m.status, http.StatusText(m.status))
	for _, part := range []string{"<!doctype html>", "<title>" + title + "</title>", "<h1>" + title + "</h1>", "front-1"} {
		if !strings.Contains(body, part) {
			t.Errorf("%s is not in the page:\n%s", part, body)
		}
	}
	wantFacts(t, m, body)
}

// wantFacts checks that a refusal says what a user needs to understand it.
func wantFacts(t *testing.T, m mishap, body string) {
	t.Helper()
	if m.status != 403 {
		return
	}
	robots := m.url[:strings.LastIndex(m.url, "/p")] + "/robots.txt" // /private/a, /page
	facts := []string{m.url, "ExampleBot", robots}
	if m.name == "a refused page" {
		facts[2] = strings.TrimSuffix(m.url, "/private/a?b=c") + "/robots.txt"
		facts = append(facts, "Line 4", "Disallow: /private")
	}
	for _, fact := range facts {
		if !strings.Contains(body, fact) {
			t.Errorf("%s is not in the answer:\n%s", fact, body)
		}
	}
}

func wantProblem(t *testing.T, m mishap, resp *http.Response, body string) {
	t.Helper()
	if kind := resp.Header.Get("Content-Type"); kind != "application/problem+json" {
		t.Errorf("Content-Type %s", kind)
	}
	var o object
	if err := json.Unmarshal([]byte(body), &o); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	o.want(t, "type", "about:blank", "title", http.StatusText(m.status), "status", m.status)
	if o["detail"] == nil {
		t.Errorf("detail is missing in %s", body)
	}
	if m.status != 403 {
		if len(o) != 4 {
			t.Errorf("the problem has more than four members: %s", body)
		}
		return
	}
	u, err := url.Parse(m.url)
	must(t, err)
	site := u.Scheme + "://" + u.Host
	o.want(t, "url", m.url, "origin", site, "agent", "ExampleBot", "identity", "default", "verdict", "disallowed", "robots_url", site+"/robots.txt")
	if m.name != "a refused page" {
		o.want(t, "reason", "unreachable")
		return
	}
	o.want(t, "reason", "rule", "rule", "Disallow: /private", "line", 4, "group", "*", "robots_status", 200,
		"robots_sha256", fmt.Sprintf("%x", sha256.Sum256([]byte(answersRobots))),
		"crawl_delay", 0.5, "sitemaps", "[https://example.com/sitemap.xml]")
	var times [2]time.Time
	for i, name := range []string{"fetched_at", "expires_at"} {
		text, _ := o[name].(string)
		if times[i], err = time.Parse(time.RFC3339, text); err != nil {
			t.Error(err)
		}
	}
	if !times[0].Before(times[1]) {
		t.Errorf("times: %v", times)
	}
}

// doorways are requests that the proxy answers itself: bad CONNECTs and URLs, and requests
// for its own pages.
var doorways = []struct {
	name, request string
	status        int
	kind          string
}{
	{"CONNECT without a port", "CONNECT 127.0.0.1 HTTP/1.1", 400, "http_request_error"},
	{"CONNECT with a bad port", "CONNECT 127.0.0.1:99999 HTTP/1.1", 400, "http_request_error"},
	{"CONNECT with an empty port", "CONNECT 127.0.0.1: HTTP/1.1", 400, "http_request_error"},
	{"a URL without a host", "GET http:///path HTTP/1.1", 400, "http_request_error"},
	{"another scheme", "GET gopher://127.0.0.1/ HTTP/1.1", 400, "http_request_error"},
	{"a bad port, https", "GET https://127.0.0.1:99999/ HTTP/1.1", 400, "http_request_error"},
	{"GET *", "GET * HTTP/1.1", 400, "http_request_error"},
	{"no such page of the proxy", "GET /nothing HTTP/1.1", 404, "http_request_error"},
}

func TestAnswersAtTheDoor(t *testing.T) {
	t.Parallel()
	w := start(t, "name: front-1")
	for _, d := range doorways {
		t.Run(d.name, func(t *testing.T) {
			w.in(t).wantDoorAnswers(d.request, mishap{name: d.name, status: d.status, kind: d.kind})
		})
	}
}

// A client that may not use the proxy is told so at every door.
func TestAnswersToClientsThatAreNotAllowed(t *testing.T) {
	t.Parallel()
	w := start(t, "name: front-1", "clients: {allow: [127.0.0.2]}")
	site := newOrigin(t, "http", says(""), nil)
	for _, request := range []string{
		"GET " + site.URL + "/ HTTP/1.1",
		"GET https://127.0.0.1:1/ HTTP/1.1",
		"CONNECT " + site.Listener.Addr().String() + " HTTP/1.1",
		"CONNECT nonsense HTTP/1.1",
		"OPTIONS * HTTP/1.1",
		"GET / HTTP/1.1",
		"GET /ca.pem HTTP/1.1",
	} {
		t.Run(request, func(t *testing.T) {
			w.in(t).wantDoorAnswers(request, mishap{status: 403, kind: "http_request_denied"})
		})
	}
	if r := w.curl("--interface", "127.0.0.2", site.URL+"/"); r.status != 200 {
		t.Errorf("the client that is allowed got %+v", r)
	}
	if n := site.robotsFetches(); n != 1 || len(site.pages()) != 1 {
		t.Errorf("the site was asked %d times for robots.txt, and for %q", n, site.pages())
	}
}

// A client without the right password is told so at every door that leads to a site.
func TestAnswersWithoutCredentials(t *testing.T) {
	t.Parallel()
	hash, err := bcrypt.GenerateFromPassword([]byte("sesame"), bcrypt.MinCost)
	must(t, err)
	htpasswd := filepath.Join(t.TempDir(), "htpasswd")
	must(t, os.WriteFile(htpasswd, []byte("images:"+string(hash)+"\n"), 0o600))
	w := start(t, "name: front-1", "clients: {htpasswd: "+strconv.Quote(htpasswd)+"}")
	sites := []*origin{newOrigin(t, "http", says(""), nil), newOrigin(t, "h2", says(""), nil)}
	for _, request := range []string{
		"GET " + sites[0].URL + "/ HTTP/1.1",
		"GET " + sites[1].URL + "/ HTTP/1.1",
		"CONNECT " + sites[1].Listener.Addr().String() + " HTTP/1.1",
		"CONNECT nonsense HTTP/1.1",
	} {
		t.Run(request, func(t *testing.T) {
			w.in(t).wantDoorAnswers(request, mishap{status: 407, kind: "http_request_denied"})
		})
	}
	for _, site := range sites {
		r := w.curl("--proxy-user", "images:wrong", site.URL+"/")
		if connect := strings.HasPrefix(site.URL, "https"); connect && r.exit != 56 || !connect && (r.status != 407 || !strings.HasPrefix(r.header.Get("Proxy-Authenticate"), "Basic ")) {
			t.Errorf("with a wrong password: %+v", r)
		}
		if n := site.robotsFetches(); n != 0 || len(site.pages()) != 0 {
			t.Errorf("the site was asked %d times for robots.txt, and for %q", n, site.pages())
		}
		if r := w.curl("--proxy-user", "images:sesame", site.URL+"/"); r.status != 200 {
			t.Errorf("with the right password: %+v", r)
		}
	}
}

// wantDoorAnswers sends a request line and checks the answer in each format.
func (w *world) wantDoorAnswers(request string, m mishap) {
	t := w.t
	method, _, _ := strings.Cut(request, " ")
	for accept, kind := range map[string]string{"*/*": "text/plain; charset=utf-8", "text/html": "text/html; charset=utf-8", "application/json": "application/problem+json"} {
		conn := w.dial()
		io.WriteString(conn, request+"\r\nHost: x\r\nAccept: "+accept+"\r\nConnection: close\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		conn.Close()
		wantAnswer(t, m, resp)
		if challenge := resp.Header.Get("Proxy-Authenticate"); (challenge != "") != (m.status == 407) {
			t.Errorf("Proxy-Authenticate %q", challenge)
		}
		if got := resp.Header.Get("Content-Type"); got != kind || len(body) == 0 {
			t.Errorf("Accept %s: Content-Type %s, body %q", accept, got, body)
		}
		var o object
		if accept == "application/json" && (json.Unmarshal(body, &o) != nil || len(o) != 4 || fmt.Sprint(o["status"]) != strconv.Itoa(m.status)) {
			t.Errorf("problem+json: %s", body)
		}
	}
}

// Requests inside a tunnel can be invalid too.
func TestAnswersInsideTunnels(t *testing.T) {
	t.Parallel()
	w := start(t, "name: front-1")
	for scheme, site := range map[string]*origin{"http": newOrigin(t, "http", says(""), nil), "https": newOrigin(t, "https", says(""), nil)} {
		host := site.Listener.Addr().String()
		for request, want := range map[string]int{
			"CONNECT " + host:                     400,
			"GET *":                               400,
			"GET http://":                         400,
			"GET gopher://" + host + "/":          400,
			"GET " + scheme + "://other.example/": 421,
			"GET ftp://" + host + "/":             421,
			"GET " + map[string]string{"http": "https", "https": "http"}[scheme] + "://" + host + "/": 421,
		} {
			conn, err := w.connect(context.Background(), "tcp", host)
			must(t, err)
			if scheme == "https" {
				conn = w.secure(conn)
			}
			io.WriteString(conn, request+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("%s, %s: %v", scheme, request, err)
				conn.Close()
				continue
			}
			io.Copy(io.Discard, resp.Body)
			conn.Close()
			t.Run(scheme+"/"+request, func(t *testing.T) {
				wantAnswer(t, mishap{status: want, kind: "http_request_error"}, resp)
			})
		}
		if len(site.pages()) > 0 {
			t.Errorf("the site was asked for %q", site.pages())
		}
	}
}

// secure starts TLS in a tunnel to this machine.
func (w *world) secure(conn net.Conn) net.Conn {
	w.t.Helper()
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(w.caFile())
	must(w.t, err)
	roots.AppendCertsFromPEM(ca)
	secured := tls.Client(conn, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"})
	must(w.t, secured.Handshake())
	return secured
}

// After a refused request with a body, the connection is either usable or closed: the next
// request is answered, or the client sees the end.
func TestRefusedBodies(t *testing.T) {
	t.Parallel()
	w := start(t, "name: front-1")
	for _, scheme := range []string{"http", "https"} {
		site := newOrigin(t, scheme, shop(), nil)
		host := site.Listener.Addr().String()
		for name, open := range map[string]func() net.Conn{
			"absolute form": w.dial,
			"tunnel": func() net.Conn {
				conn, err := w.connect(context.Background(), "tcp", host)
				must(t, err)
				if scheme == "https" {
					conn = w.secure(conn)
				}
				return conn
			},
		} {
			for _, size := range []int{1, 1 << 10, 200 << 10, 1 << 20} {
				for _, framing := range []string{"stated", "chunked"} {
					t.Run(fmt.Sprintf("%s, %s, %d, %s", scheme, name, size, framing), func(t *testing.T) {
						conn := open()
						defer conn.Close()
						w.in(t).postRefused(conn, site.URL, size, framing == "chunked")
					})
				}
			}
		}
		wantSame(t, "pages", slices.DeleteFunc(site.pages(), func(p string) bool { return p == "/products/1" }), nil)
	}
}

// postRefused sends a POST that is refused, and then asks for a page on the same connection.
func (w *world) postRefused(conn net.Conn, site string, size int, chunked bool) {
	t := w.t
	host := strings.SplitN(site, "://", 2)[1]
	body := strings.Repeat("x", size)
	head := "POST " + site + "/cart HTTP/1.1\r\nHost: " + host + "\r\n"
	if chunked {
		head += "Transfer-Encoding: chunked\r\n\r\n"
		body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, body)
	} else {
		head += fmt.Sprintf("Content-Length: %d\r\n\r\n", size)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, head+body)
		sent <- err
	}()
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodPost})
	must(t, err)
	if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 403 {
		t.Errorf("%s, %v", resp.Status, err)
	}
	if resp.Close {
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("after Connection: close there is %v, want an end", err)
		}
		conn.Close()
		<-sent
		return
	}
	if err := <-sent; err != nil {
		t.Errorf("the connection stays open, but the body could not be sent: %v", err)
	}
	io.WriteString(conn, "GET "+site+"/products/1 HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
	resp, err = http.ReadResponse(r, nil)
	must(t, err)
	if page, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || string(page) != "the page /products/1" {
		t.Errorf("the second request: %s, %q, %v", resp.Status, page, err)
	}
}

// Over HTTP/2, a refused body ends only its stream.
func TestRefusedBodiesOverHTTP2(t *testing.T) {
	t.Parallel()
	w := start(t, "name: front-1")
	site := newOrigin(t, "h2", shop(), nil)
	client := w.client(true)
	reused := false
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
	for i, size := range []int{1, 1 << 20, 1 << 10, 1 << 20, 0} {
		path, want := "/cart", 403
		if size == 0 {
			path, want = "/products/1", 200
		}
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), "POST", site.URL+path, bytes.NewReader(make([]byte, size)))
		must(t, err)
		resp, err := client.Do(r)
		must(t, err)
		if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != want || resp.ProtoMajor != 2 {
			t.Errorf("%d octets: %s %s, %v", size, resp.Proto, resp.Status, err)
		}
		resp.Body.Close()
		if i > 0 && !reused {
			t.Errorf("request %d came on a connection of its own", i)
		}
	}
}

// Text from sites and clients stays text in every format.
func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	const (
		rule = `/*"><script>alert('rule')</script>\"`
		path = `/a"><script>alert('rule')</script>\"?<img/src=x>&amp;</dd>` + "\xff\xe2\x80\xa8\xe4\xbd\xa0"
	)
	w := start(t, "name: front-1")
	site := newOrigin(t, "http", says("User-agent: *\nDisallow: "+rule), nil)
	ask := func(accept string) (*http.Response, string) {
		conn := w.dial()
		defer conn.Close()
		io.WriteString(conn, "GET "+site.URL+path+" HTTP/1.1\r\nHost: x\r\nUser-Agent: <b>Bot\"\\</b>\r\nConnection: close\r\nAccept: "+accept+"\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		wantAnswer(t, mishap{status: 403, kind: "http_request_denied"}, resp)
		return resp, string(body)
	}

	_, body := ask("text/html")
	tags := regexp.MustCompile(`<[^>]*>`).FindAllString(body, -1)
	if stray := slices.DeleteFunc(tags, func(tag string) bool {
		return regexp.MustCompile(`^</?(!doctype html|html|meta|title|style|h1|p|dl|dt|dd)( [a-z]+="[a-z0-9=, -]*")*>$`).MatchString(tag)
	}); len(stray) > 0 {
		t.Errorf("markup from outside: %q", stray)
	}
	if !strings.Contains(body, "&lt;script&gt;alert(&#39;rule&#39;)&lt;/script&gt;") {
		t.Errorf("the rule is not shown:\n%s", body)
	}

	_, body = ask("application/json")
	var o object
	must(t, json.Unmarshal([]byte(body), &o))
	o.want(t, "rule", "Disallow: "+rule, "agent", `<b>Bot"\<`)

	resp, body := ask("*/*")
	if resp.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(body, rule) {
		t.Errorf("header %v, text:\n%s", resp.Header, body)
	}
	line := w.log.wait(t, w.exited, `"message":"request"`)
	line.want(t, "rule", "Disallow: "+rule, "url", o["url"])
}
