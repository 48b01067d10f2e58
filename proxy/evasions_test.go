package proxy_test

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"robotsproxy/internal/conntest"
	"robotsproxy/proxy/opaque"
)

// guarded is a site that records every page it is asked for. Its host is localhost, which
// has more spellings than an address.
type guarded struct {
	*httptest.Server
	scheme, port string

	mu    sync.Mutex
	asked []*http.Request
}

const guardedRobots = `User-agent: *
Disallow: /private
Disallow: /caf%C3%A9
Disallow: /a%2Fb
Disallow: /*.php$
Disallow: /*?secret
`

func newGuarded(t *testing.T, scheme string) *guarded {
	g := &guarded{scheme: scheme}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI == "/robots.txt" {
			io.WriteString(w, guardedRobots)
			return
		}
		g.mu.Lock()
		g.asked = append(g.asked, r)
		g.mu.Unlock()
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "a ")
		if r.URL.Path == "/pieces" { // its length is not known beforehand
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, "page")
	}))
	g.EnableHTTP2 = true
	g.Config.ErrorLog = nil
	if scheme == "https" {
		g.StartTLS()
	} else {
		g.Start()
	}
	t.Cleanup(g.Close)
	_, g.port, _ = net.SplitHostPort(g.Listener.Addr().String())
	return g
}

func (g *guarded) host() string { return "localhost:" + g.port }

// last is the last request on a connection. If it is answered, nothing before it was
// misread.
const last = "/end"

// pages returns what the site was asked for since the last call, without last.
func (g *guarded) pages() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	targets := []string{}
	for _, r := range g.asked {
		target := strings.TrimPrefix(r.RequestURI, g.scheme+"://"+g.host())
		if target != last {
			targets = append(targets, target)
		}
		if r.Host != g.host() {
			targets = append(targets, "at "+r.Host)
		}
		for _, name := range []string{"Upgrade", "Http2-Settings", "Proxy-Connection"} {
			if r.Header[name] != nil && r.Header.Get("Upgrade") != "websocket" {
				targets = append(targets, "with "+name)
			}
		}
	}
	g.asked = nil
	return targets
}

// door is a way into the proxy. A test writes on its connections; targets begin with the
// door's prefix.
type door struct {
	name     string
	scheme   string // of the site
	absolute bool   // targets begin with scheme://host
	anyHost  bool   // each request says for itself where it leads
	open     func(w *world, g *guarded) *rawConn
}

func (w *world) tunnelTo(g *guarded) *rawConn { return w.tunnel(g.host()) }

func (w *world) secureTo(g *guarded) *rawConn { return w.secure(g.host()) }

var doors = []door{
	{"absolute form, http", "http", true, true, func(w *world, _ *guarded) *rawConn { return w.dial() }},
	{"absolute form, https", "https", true, true, func(w *world, _ *guarded) *rawConn { return w.dial() }},
	{"TLS, absolute form, http", "http", true, true, func(w *world, _ *guarded) *rawConn { return w.dialTLS() }},
	{"CONNECT, TLS", "https", false, false, (*world).secureTo},
	{"CONNECT, TLS, absolute form", "https", true, false, (*world).secureTo},
	{"CONNECT, plain HTTP", "http", false, false, (*world).tunnelTo},
	{"CONNECT, plain HTTP, absolute form", "http", true, false, (*world).tunnelTo},
	{"TLS, CONNECT, TLS", "https", false, false, func(w *world, g *guarded) *rawConn { return w.secureIn(w.tunnelIn(w.dialTLS(), g.host()), g.host()) }},
	{"TLS, CONNECT, plain HTTP", "http", false, false, func(w *world, g *guarded) *rawConn { return w.tunnelIn(w.dialTLS(), g.host()) }},
	{"SOCKS, TLS", "https", false, false, func(w *world, g *guarded) *rawConn { return w.secureIn(w.socksTo(g.host()), g.host()) }},
	{"SOCKS, plain HTTP", "http", false, false, func(w *world, g *guarded) *rawConn { return w.socksTo(g.host()) }},
	{"SOCKS, plain HTTP, absolute form", "http", true, false, func(w *world, g *guarded) *rawConn { return w.socksTo(g.host()) }},
	{"SOCKS to an address, TLS", "https", false, false, func(w *world, g *guarded) *rawConn {
		return w.secureIn(w.socksTo(faraway+":"+g.port), g.host())
	}},
	{"SOCKS to an address, plain HTTP", "http", false, true, func(w *world, g *guarded) *rawConn { return w.socksTo("127.0.0.1:" + g.port) }},
	{"transparent, TLS", "https", false, false, (*world).redirectTLSTo},
	{"transparent, TLS, absolute form", "https", true, false, (*world).redirectTLSTo},
	{"transparent, plain HTTP", "http", false, true, (*world).redirectTo},
	{"transparent, plain HTTP, absolute form", "http", true, true, (*world).redirectTo},
}

func (w *world) redirectTo(g *guarded) *rawConn { return w.redirect("127.0.0.1:" + g.port) }

func (w *world) redirectTLSTo(g *guarded) *rawConn {
	w.t.Helper()
	c, err := w.redirectTLS(faraway+":"+g.port, "localhost")
	must(w.t, err)
	return c
}

// tunnels are the doors that lead to one origin.
func tunnels() []door {
	return slices.DeleteFunc(slices.Clone(doors), func(d door) bool { return d.anyHost })
}

func guardedWorld(t *testing.T, change ...func(*settings)) *world {
	return newWorld(t, append(change, func(s *settings) { s.upstream.Insecure = hosts([]string{"localhost"}) })...)
}

// prefix is what targets begin with.
func (d door) prefix(host string) string {
	if d.absolute {
		return d.scheme + "://" + host
	}
	return ""
}

// exchange writes requests and one more for last; method is that of the first. It returns
// the statuses that come until the connection ends.
func (d door) exchange(w *world, g *guarded, requests, method string) (statuses []int) {
	w.t.Helper()
	requests += "GET " + d.prefix(g.host()) + last + " HTTP/1.1\r\nHost: " + g.host() + "\r\nConnection: close\r\n\r\n"
	c := d.open(w, g)
	defer c.Close()
	go io.WriteString(c.Conn, requests) // it may be closed before it has read all
	for {
		resp, err := http.ReadResponse(c.r, &http.Request{Method: method})
		if err != nil {
			return statuses
		}
		if resp.StatusCode < 200 {
			continue
		}
		statuses = append(statuses, resp.StatusCode)
		if _, err := io.ReadAll(resp.Body); err != nil {
			w.t.Errorf("a body that ends with %v", err)
		}
		method = http.MethodGet
	}
}

// attempt is one request for a disallowed page, in another spelling.
type attempt struct{ method, host, target, header string }

func (a attempt) String() string {
	return fmt.Sprintf("%s %s %q %q", a.method, a.host, a.target, a.header)
}

// disallowed are spellings of targets that robots.txt disallows.
var disallowed = []string{
	"/private", "/private/", "/private/page", "/private?x", "/private?/../public", "/private;x", "/private//x", "/private.html",
	"/%70rivate", "/privat%65", "/%70%72%69%76%61%74%65", "/p%72ivate/%70age", "/private%2Fx", "/private%3Fx", "/private%00", "/private%2f..%2fpublic",
	"/./private", "/%2e/private", "/%2E/private", "/./././private", "/public/../private", "/public/%2e%2e/private", "/public/%2E%2E/private",
	"/public/.%2e/private", "/public/.%2E/private", "/public/%2e./private", "/public/%2E./private", "/public/%2e%2E/private",
	"/../private", "/../../private", "/%2e%2e/private", "/x/../../private", "/a/b/../../private", "/a/b/../.././private", "/x/..//../private",
	"/private/.", "/private/%2e", "/private/x/..", "/private/x/%2e%2e", "/private/x/../", "/public/../private/x/..", "/public/../%70rivate",
	"/private/..%2f", "/private/..;/public", `/private\..\public`, "/public/../private?/../public",
	"/private#x", "/private#/../public", "/private?x#y", "/%70rivate#", "/public/../private#x", "/x.php#y", "/private#?x",
	"/caf%C3%A9", "/caf%c3%a9", "/caf%c3%A9", "/caf\xc3\xa9", "/ca%66%c3%A9", "/a%2Fb", "/a%2fb", "/%61%2fb",
	"/x.php", "/x.ph%70", "/x%2ephp", "/x?secret", "/x?%73ecret", "/?secret", "/./?secret", "/x?secret#/",
}

// others are targets that look like disallowed ones but are not: the gate judges what is
// asked for, and decodes no more than RFC 9309 2.2.2 says.
var others = []string{
	"/public", "/PRIVATE", "/%50rivate", "/%2570rivate", "/%252e%252e/private", "/public%2f..%2fprivate", "/public%2F%2e%2e%2Fprivate", "//private",
	"/public/..;/private", "/public/.../private", "/private/../public", "/private/%2e%2e/public", "/private/..", "/private/../", `/public\..\private`,
	"/a%252Fb", "/a/b", "/x.php?y", "/x.php/", "/x%3Fsecret", "/public?/../private", "/public;/../public",
}

// sameHost are spellings of the site's host.
var sameHost = []string{
	"localhost:PORT", "LOCALHOST:PORT", "LocalHost:PORT", "localhost.:PORT", "LOCALHOST.:PORT", "localhost:0PORT", "localhost:000PORT",
	"l%6fcalhost:PORT", "%6C%6f%63alhost:PORT", "localhost%2e:PORT", "ｌｏｃａｌｈｏｓｔ:PORT", "localhost。:PORT", "local\u00adhost:PORT", "ⓛocalhost:PORT",
	"user@localhost:PORT", "user:password@localhost:PORT", "@localhost:PORT", ":@localhost:PORT", "public%2F@localhost:PORT",
}

// noHost are invalid hosts, in a URL or in Host or both.
var noHost = []string{
	"a@b@localhost:PORT", `localhost:PORT\@x`, "localhost:PORT,x", "localhost:PORT localhost:PORT", "localhost:PORT:PORT", "localhost:+PORT", "localhost: PORT",
	"localhost:x", "localhost:99999999", "localhost:-1", "localhost..:PORT", ".localhost:PORT", "[localhost]:PORT", "[::1:PORT", "[::1%25lo]:PORT",
	"127.1:PORT", "2130706433:PORT", "0x7f.1:PORT", "0177.0.0.1:PORT", "local%host:PORT", "local%00host:PORT", "local_%2fhost:PORT",
}

// attempts returns all attempts, by every part of a request.
func attempts() (all []attempt) {
	for _, target := range disallowed {
		all = append(all, attempt{target: target})
	}
	for _, host := range append(slices.Clone(sameHost), noHost...) {
		all = append(all, attempt{host: host}, attempt{host: host, target: "/public/%2e%2e/private"})
	}
	for _, method := range []string{
		"get", "Get", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "SEARCH", "QUERY", "PURGE", "PRI", "connect", "Connect", "M-SEARCH", "FOO",
	} {
		all = append(all, attempt{method: method})
	}
	for _, header := range []string{
		"X-HTTP-Method-Override: OPTIONS", "X-HTTP-Method: OPTIONS", "X-Method-Override: HEAD", "X-Original-URL: /public", "X-Rewrite-URL: /public",
		"X-Forwarded-Host: example.com", "X-Forwarded-Prefix: /public", "X-Host: example.com", "Forwarded: host=example.com;proto=http", "X-Accel-Redirect: /public",
		"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__", "Upgrade: websocket", "Upgrade: websocket\r\nConnection: Upgrade",
		"Upgrade: websocket\r\nConnection: keep-alive, upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Upgrade: TLS/1.2\r\nConnection: upgrade",
		"Connection: Host, X-Crawler", "Connection: close", "Proxy-Connection: keep-alive", "Max-Forwards: 0", "Range: bytes=0-0", "Expect: 100-continue", "Via: 1.1 other",
		"Cache-Control: only-if-cached", "Purpose: prefetch", "TE: trailers", "Trailer: Host", "User-Agent:", "Referer: http://localhost/public", "Authorization: Basic dTpw",
	} {
		all = append(all, attempt{header: header})
	}
	for i := range all {
		if all[i].method == "" {
			all[i].method = "GET"
		}
		if all[i].host == "" {
			all[i].host = "localhost:PORT"
		}
		if all[i].target == "" {
			all[i].target = "/private"
		}
	}
	return all
}

// refusals are the statuses of refused requests.
var refusals = []int{400, 403, 421, 501, 505}

// No spelling of a request gets past the gate by any door.
func TestEvasions(t *testing.T) {
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			w := guardedWorld(t)
			g := newGuarded(t, d.scheme)
			for _, a := range attempts() {
				host := strings.ReplaceAll(a.host, "PORT", g.port)
				header := a.header
				if header != "" {
					header += "\r\n"
				}
				got := d.exchange(w, g, fmt.Sprintf("%s %s%s HTTP/1.1\r\nHost: %s\r\n%s\r\n", a.method, d.prefix(host), a.target, host, header), a.method)
				plain := a.host == "localhost:PORT"
				if len(got) == 0 || !slices.Contains(refusals, got[0]) || plain && got[0] != 403 {
					t.Errorf("%v: %v", a, got)
				}
				if pages := g.pages(); len(pages) > 0 {
					t.Errorf("%v: the site was asked for %q", a, pages)
				}
			}
			for _, target := range others {
				got := d.exchange(w, g, "GET "+d.prefix(g.host())+target+" HTTP/1.1\r\nHost: "+g.host()+"\r\n\r\n", "GET")
				if pages := g.pages(); !slices.Equal(got, []int{200, 200}) || !slices.Equal(pages, []string{target}) {
					t.Errorf("%q: %v, and the site was asked for %q", target, got, pages)
				}
			}
		})
	}
}

// octets is what is written on a connection, and how the proxy answers.
type octets struct {
	name     string
	text     string
	statuses []int    // the last request's 200 is not among them
	pages    []string // that the site may be asked for
}

// chunk is a body of one chunk.
func chunk(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }

// messages returns requests whose parts or ends are ambiguous. Their targets begin with at.
func messages(at, host string) []octets {
	public := "GET " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
	private := "GET " + at + "/private HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
	post := func(target, body string, chunked bool) string {
		head := "POST " + at + target + " HTTP/1.1\r\nHost: " + host + "\r\n"
		if chunked {
			return head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(body)
		}
		return head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
	}
	page := []string{"/public"}
	return []octets{
		{"allowed, disallowed", public + private, []int{200, 403}, page},
		{"disallowed, allowed", private + public, []int{403, 200}, page},
		{"many at once", private + public + private + private + public + private, []int{403, 200, 403, 403, 200, 403}, []string{"/public", "/public"}},

		{"no version", "GET " + at + "/private\r\n\r\n", []int{400}, nil},
		{"HTTP/0.9", "GET " + at + "/private HTTP/0.9\r\nHost: " + host + "\r\n\r\n", []int{505}, nil},
		{"HTTP/1.0", "GET " + at + "/private HTTP/1.0\r\n\r\n", []int{403}, nil},
		{"HTTP/1.0, kept alive", "GET " + at + "/private HTTP/1.0\r\nHost: " + host + "\r\nConnection: keep-alive\r\n\r\n" + private, []int{403, 403}, nil},
		{"HTTP/1.2", "GET " + at + "/private HTTP/1.2\r\nHost: " + host + "\r\n\r\n", []int{403}, nil},
		{"HTTP/2.0", "GET " + at + "/private HTTP/2.0\r\nHost: " + host + "\r\n\r\n", []int{505}, nil},
		{"HTTP/3", "GET " + at + "/private HTTP/3\r\nHost: " + host + "\r\n\r\n", []int{400}, nil},
		{"a lower-case version", "GET " + at + "/private http/1.1\r\nHost: " + host + "\r\n\r\n", []int{400}, nil},
		{"two versions", "GET " + at + "/private HTTP/1.1 HTTP/1.1\r\nHost: " + host + "\r\n\r\n", []int{400}, nil},
		{"two spaces", "GET  " + at + "/private HTTP/1.1\r\nHost: " + host + "\r\n\r\n", []int{400}, nil},
		{"tabs", "GET\t" + at + "/private\tHTTP/1.1\r\nHost: " + host + "\r\n\r\n", []int{400}, nil},
		{"a space in the target", "GET " + at + "/public /../private HTTP/1.1\r\nHost: " + host + "\r\n\r\n", []int{400}, nil},
		{"an empty line first", "\r\n" + private, []int{400}, nil},

		{"lines without CR", "GET " + at + "/private HTTP/1.1\nHost: " + host + "\n\n", []int{403}, nil},
		{"lines without LF", "GET " + at + "/private HTTP/1.1\rHost: " + host + "\r\r", []int{400}, nil},
		{"a CR in the target", "GET " + at + "/public\r/../private HTTP/1.1\r\nHost: " + host + "\r\n\r\n", []int{400}, nil},
		{"a CR in a field", "GET " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nX: a\rHost: example.com\r\n\r\n", []int{400}, nil},
		{"a NUL in the target", "GET " + at + "/private\x00 HTTP/1.1\r\nHost: " + host + "\r\n\r\n", []int{400}, nil},
		{"a NUL in a field", "GET " + at + "/private HTTP/1.1\r\nHost: " + host + "\r\nX: \x00\r\n\r\n", []int{400}, nil},
		{"a folded field", "GET " + at + "/private HTTP/1.1\r\nX: a\r\n Host: example.com\r\nHost: " + host + "\r\n\r\n", []int{403}, nil},
		{"a folded Host", "GET " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\n example.com\r\n\r\n", []int{400}, nil},
		{"a field that begins folded", "GET " + at + "/private HTTP/1.1\r\n Host: " + host + "\r\n\r\n", []int{400}, nil},
		{"a space before the colon", "GET " + at + "/private HTTP/1.1\r\nHost: " + host + "\r\nX : y\r\n\r\n", []int{400}, nil},
		{"a field without a colon", "GET " + at + "/private HTTP/1.1\r\nHost: " + host + "\r\nX\r\n\r\n", []int{400}, nil},

		{"no Host", "GET " + at + "/public HTTP/1.1\r\n\r\n", []int{400}, nil},
		{"two Hosts", "GET " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nHost: example.com\r\n\r\n", []int{400}, nil},
		{"the same Host twice", "GET " + at + "/private HTTP/1.1\r\nHost: " + host + "\r\nhost: " + host + "\r\n\r\n", []int{400}, nil},
		{"a list of Hosts", "GET " + at + "/private HTTP/1.1\r\nHost: " + host + ", example.com\r\n\r\n", []int{400}, nil},
		{"a path in Host", "GET " + at + "/private HTTP/1.1\r\nHost: " + host + "/public?\r\n\r\n", []int{400}, nil},

		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: " + host + "\r\n\r\n" + private, []int{200, 403}, nil},
		{"GET *", "GET * HTTP/1.1\r\nHost: " + host + "\r\n\r\n", []int{400}, nil},
		{"PRI *", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + private, []int{400}, nil},
		{"PRI * with fields", "PRI * HTTP/2.0\r\nHost: " + host + "\r\n\r\nSM\r\n\r\n", []int{400, 400}, nil},
		{"CONNECT to a path", "CONNECT " + host + "/private HTTP/1.1\r\nHost: " + host + "\r\n\r\n", []int{400}, nil},
		{"CONNECT to a URL", "CONNECT http://" + host + "/private HTTP/1.1\r\nHost: " + host + "\r\n\r\n", []int{400}, nil},
		{"CONNECT in origin form", "CONNECT /private HTTP/1.1\r\nHost: " + host + "\r\n\r\n", []int{400}, nil},
		{"CONNECT with a user", "CONNECT user@" + host + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n", []int{400}, nil},
		{"connect", "connect " + host + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n", []int{400}, nil},

		{"h2c, then HTTP/2", "GET " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" +
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{200, 400}, page},
		{"a WebSocket that is refused", "GET " + at + "/private HTTP/1.1\r\nHost: " + host + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + private, []int{403, 403}, nil},
		{"a WebSocket that the site wants not", "GET " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + private, []int{200, 403}, page},
		{"a WebSocket by POST with a body", "POST " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 1\r\n\r\nx" + private, []int{200, 403}, page},

		{"a body like a request", post("/public", private, false), []int{200}, page},
		{"a chunk like a request", post("/public", private, true), []int{200}, page},
		{"refused, a body like a request", post("/private", public, false), []int{403}, nil},
		{"refused, a chunk like a request", post("/private", public, true), []int{403}, nil},
		{"refused, a body, a request", post("/private", public, false) + public + private, []int{403, 200, 403}, page},
		{"refused, a long body", post("/private", strings.Repeat(public, 8000), false), []int{403}, nil},
		{"refused, long chunks", post("/private", strings.Repeat(public, 8000), true), []int{403}, nil},
		{"refused, a body that is waited for", strings.Replace(post("/private", public, false), "Content-Length", "Expect: 100-continue\r\nContent-Length", 1), []int{403}, nil},
		{"misunderstood, a body like a request", strings.Replace(post("*", public, false), at, "", 1), []int{400}, nil},

		// Content-Length counts for nothing where there is Transfer-Encoding (RFC 9112
		// 6.3). What net/http makes of such a request is the same that goes on.
		{"length and chunks, by length a body", "POST " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 30\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + private, []int{200, 403}, page},
		{"chunks and length, by length a request", "POST " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + chunk(private), []int{200}, page},
		{"two equal lengths", "POST " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx" + private, []int{200, 403}, page},
		{"two lengths", "POST " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", []int{400}, nil},
		{"a list of lengths", "POST " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 1, 1\r\n\r\nx", []int{400}, nil},
		{"a signed length", "POST " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: +1\r\n\r\nx", []int{400}, nil},
		{"a negative length", "POST " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: -1\r\n\r\nx", []int{400}, nil},
		{"a hexadecimal length", "POST " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 0x1\r\n\r\nx", []int{400}, nil},
		{"a folded length", "POST " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 1\r\n 1\r\n\r\nx", []int{400}, nil},
		{"chunked twice", "POST " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{501}, nil},
		{"chunked and more", "POST " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", []int{501}, nil},
		{"nearly chunked", "POST " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", []int{501}, nil},
		{"chunked by a tab", "POST " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n" + private, []int{200, 403}, page},
		{"chunked in HTTP/1.0", "POST " + at + "/public HTTP/1.0\r\nHost: " + host + "\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(private), []int{200, 400}, page},
		{"a chunk that is longer than it says", "POST " + at + "/private HTTP/1.1\r\nHost: " + host + "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxGET " + at + "/private HTTP/1.1\r\n\r\n", []int{403}, nil},
		{"a chunk's length with a sign", "POST " + at + "/private HTTP/1.1\r\nHost: " + host + "\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n", []int{403}, nil},
		{"a trailer that would be framing", "POST " + at + "/public HTTP/1.1\r\nHost: " + host + "\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\nContent-Length: 5\r\n\r\n" + private, []int{400}, nil},
	}
}

// No request can be hidden inside another.
func TestMessagesThatHideOthers(t *testing.T) {
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			w := guardedWorld(t)
			g := newGuarded(t, d.scheme)
			for _, m := range messages(d.prefix(g.host()), g.host()) {
				got := d.exchange(w, g, m.text, http.MethodGet)
				if n := len(got); n > len(m.statuses) && got[n-1] == 200 {
					got = got[:n-1]
				}
				// In a tunnel, what does not begin like HTTP is answered by its end.
				mute := len(got) == 0 && m.statuses[0] == 400
				if !slices.Equal(got, m.statuses) && !mute {
					t.Errorf("%s: %v, want %v", m.name, got, m.statuses)
				}
				if pages := g.pages(); !mute && !slices.Equal(pages, m.pages) {
					t.Errorf("%s: the site was asked for %q, want %q", m.name, pages, m.pages)
				}
			}
		})
	}
}

// A tunnel leads to one origin, whatever its TLS and the requests in it name.
func TestTunnelsLeadToOneOrigin(t *testing.T) {
	w := guardedWorld(t)
	for _, d := range tunnels() {
		g, other := newGuarded(t, d.scheme), newGuarded(t, d.scheme)
		scheme := map[string]string{"http": "https", "https": "http"}[d.scheme]
		for _, request := range []string{
			"GET " + d.scheme + "://" + other.host() + "/public HTTP/1.1\r\nHost: " + other.host(),
			"GET " + d.scheme + "://" + other.host() + "/public HTTP/1.1\r\nHost: " + g.host(),
			"GET " + d.scheme + "://127.0.0.1:" + g.port + "/public HTTP/1.1\r\nHost: " + g.host(),
			"GET " + d.scheme + "://localhost/public HTTP/1.1\r\nHost: " + g.host(),
			"GET " + scheme + "://" + g.host() + "/public HTTP/1.1\r\nHost: " + g.host(),
			"GET ftp://" + g.host() + "/public HTTP/1.1\r\nHost: " + g.host(),
			"GET /public HTTP/1.1\r\nHost: " + other.host(),
			"GET /public HTTP/1.0\r\nHost: " + other.host(),
			"GET /public HTTP/1.1\r\nHost: localhost",
			"GET /public HTTP/1.1\r\nHost: localhost:",
			"GET /public HTTP/1.1\r\nHost: 127.0.0.1:" + g.port,
			"GET /public HTTP/1.1\r\nHost: example.com",
			"GET /public HTTP/1.1\r\nHost: xn--lcalhost-n4a:" + g.port,
		} {
			got := d.exchange(w, g, request+"\r\n\r\n", http.MethodGet)
			if len(got) == 0 || got[0] != http.StatusMisdirectedRequest {
				t.Errorf("%s, %q: %v", d.name, request, got)
			}
			if pages := append(g.pages(), other.pages()...); len(pages) > 0 {
				t.Errorf("%s, %q: a site was asked for %q", d.name, request, pages)
			}
		}
	}
}

func TestServerNames(t *testing.T) {
	w := guardedWorld(t)
	g := newGuarded(t, "https")
	for _, name := range []string{"", "localhost", "LOCALHOST", "example.com"} {
		for _, request := range []struct {
			host, path string
			want       int
		}{{g.host(), "/private", 403}, {"example.com", "/public", 421}, {"", "/private", 403}} {
			conn := tls.Client(w.tunnelTo(g), &tls.Config{ServerName: name, InsecureSkipVerify: true})
			must(t, conn.Handshake())
			if err := conn.ConnectionState().PeerCertificates[0].VerifyHostname(cmp.Or(strings.ToLower(name), "localhost")); err != nil {
				t.Error(err)
			}
			c := &rawConn{t, conn, bufio.NewReader(conn)}
			c.send("GET " + request.path + " HTTP/1.1\r\nHost: " + request.host + "\r\n\r\n")
			if resp, _ := c.response(http.MethodGet); resp.StatusCode != request.want {
				t.Errorf("SNI %q, Host %q: %s", name, request.host, resp.Status)
			}
		}
	}
	for _, name := range []string{"ex%61mple.com", "a..b", "127.1"} { // no certificate is for it
		if err := tls.Client(w.tunnelTo(g), &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake(); err == nil {
			t.Errorf("SNI %q: a certificate was signed", name)
		}
	}
	if pages := g.pages(); len(pages) > 0 {
		t.Errorf("the site was asked for %q", pages)
	}
}

// A tunnel passes on nothing that is neither TLS nor HTTP, however similar.
func TestNothingElseInTunnels(t *testing.T) {
	w := guardedWorld(t, func(s *settings) { s.policies = newSays(allowsAll) })
	dialled := make(chan struct{}, 100)
	site := conntest.Serve(t, "127.0.0.1:0", func(net.Conn) { dialled <- struct{}{} })
	for _, first := range []string{
		"SSH-2.0-x\r\n", "\x00", "\x05\x01\x00", "\x80\x2e\x01\x03\x01", "\x16\x02\x00\x00\x05", "\x16\x03\x01\x00\x05hello", "\x17\x03\x03\x00\x01x", "\x15\x03\x01\x00\x02\x01\x00",
		"\r\nGET /public HTTP/1.1\r\nHost: x\r\n\r\n", " GET /public HTTP/1.1\r\n\r\n", "GET\t/public HTTP/1.1\r\n\r\n", "G\x00T /public HTTP/1.1\r\n\r\n", "<policy-file-request/>\x00",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "USER x\r\n", "EHLO x\r\n", "* OK\r\n",
	} {
		c := w.tunnel(site)
		c.send(first)
		if answer, _ := io.ReadAll(c); len(answer) > 0 && !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") && answer[0] != 0x15 {
			t.Errorf("%q: %q", first, answer)
		}
	}
	if n := len(dialled); n > 0 {
		t.Errorf("the site was dialled %d times", n)
	}
}

// An opaque tunnel is judged alike under every spelling of its host, in every mode.
func TestUnreadTunnelsByAnyName(t *testing.T) {
	for name, change := range map[string]func(*settings){
		"tunnel":      func(s *settings) { s.tunnels.Mode = opaque.Never },
		"when_needed": func(s *settings) { s.tunnels.Mode = opaque.WhenNeeded },
		"passthrough": func(s *settings) { s.tunnels.Passthrough = hosts([]string{"localhost"}) },
	} {
		w := guardedWorld(t, change, func(s *settings) { s.policies = newSays(allowsNone) })
		g := newGuarded(t, "https")
		for _, host := range append(slices.Clone(sameHost), noHost...) {
			if strings.ContainsAny(host, " ") {
				continue // the line makes no sense
			}
			host = strings.ReplaceAll(host, "PORT", g.port)
			for _, header := range []string{"Host: " + g.host(), "Host: example.com", "Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade", "Host: x\r\nContent-Length: 0"} {
				c := w.dial()
				c.send("CONNECT " + host + " HTTP/1.1\r\n" + header + "\r\n\r\n")
				if resp, _ := c.response("GET"); resp.StatusCode != 403 && resp.StatusCode != 400 {
					t.Errorf("%s, %q, %q: %s", name, host, header, resp.Status)
				}
				c.Close()
			}
		}
		w.gauge("robotsproxy_tunnels", 0)
		if pages := g.pages(); len(pages) > 0 {
			t.Errorf("%s: the site was asked for %q", name, pages)
		}
	}
}

// Fields by which some servers serve another path than the target are passed on unchanged:
// the gate judges the request's own target. The operator of a site whose server reads such
// fields knows of them.
func TestFieldsThatOverride(t *testing.T) {
	w := guardedWorld(t)
	for _, d := range doors {
		g := newGuarded(t, d.scheme)
		fields := []string{"X-Original-Url", "X-Rewrite-Url", "X-Http-Method-Override"}
		got := d.exchange(w, g, "GET "+d.prefix(g.host())+"/public HTTP/1.1\r\nHost: "+g.host()+"\r\n"+strings.Join(fields, ": /private\r\n")+": /private\r\n\r\n", http.MethodGet)
		g.mu.Lock()
		r := g.asked[0]
		g.mu.Unlock()
		for _, name := range fields {
			if r.Header.Get(name) != "/private" {
				t.Errorf("%s: the site saw %s %q", d.name, name, r.Header.Get(name))
			}
		}
		if pages := g.pages(); !slices.Equal(got, []int{200, 200}) || !slices.Equal(pages, []string{"/public"}) {
			t.Errorf("%s: %v, and the site was asked for %q", d.name, got, pages)
		}
	}
}
