package proxy_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"robotsproxy/internal/conntest"
	"robotsproxy/internal/signtest"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/opaque"
	"robotsproxy/proxy/override"
	"robotsproxy/proxy/sign"
)

// keyring is a folder of keys that can sign, and what verifies their signatures.
type keyring struct {
	folder string
	ids    []string
	public map[string]ed25519.PublicKey // by ID
}

func newKeyring(t testing.TB, n int) keyring {
	t.Helper()
	k := keyring{folder: t.TempDir(), public: map[string]ed25519.PublicKey{}}
	for i := range n {
		seed := make([]byte, ed25519.SeedSize)
		seed[0] = byte(i + 1)
		private := ed25519.NewKeyFromSeed(seed)
		key := sign.NewKey(private)
		if err := os.WriteFile(k.path(i), key.PEM(), 0o600); err != nil {
			t.Fatal(err)
		}
		k.ids = append(k.ids, key.ID())
		k.public[key.ID()] = private.Public().(ed25519.PublicKey)
	}
	return k
}

func (k keyring) path(i int) string { return filepath.Join(k.folder, fmt.Sprintf("%d.pem", i)) }

const directory = "https://bot.example.org"

// signing is the section of an identity that signs by these keys.
func (k keyring) signing(keys ...int) identity.Signing {
	s := identity.DefaultSigning()
	s.Agent = directory
	for _, i := range keys {
		s.Keys = append(s.Keys, k.path(i))
	}
	return s
}

// signedWorld is a world whose default identity signs by the first of some keys.
func signedWorld(t *testing.T, change ...func(*settings)) (*world, keyring) {
	t.Helper()
	keys := newKeyring(t, 1)
	signs := func(s *settings) { s.gate.Identities.Default.Signing = keys.signing(0) }
	return newWorld(t, append([]func(*settings){signs}, change...)...), keys
}

// verify checks the signature of a request as its origin does.
func (k keyring) verify(r *http.Request) (signtest.Signature, error) {
	signature, err := signtest.Request(r, directory, k.public, time.Now())
	if want := []string{"@authority", "@method", "@path", "signature-agent"}; err == nil && !slices.Equal(signature.Covered, want) {
		return signature, fmt.Errorf("%q are covered", signature.Covered)
	}
	return signature, err
}

// isUnsigned reports whether a request has no part of a signature.
func isUnsigned(r *http.Request) bool {
	return r.Header["Signature"] == nil && r.Header["Signature-Input"] == nil && r.Header["Signature-Agent"] == nil
}

// leadsAllTo starts a parent proxy that leads every CONNECT to one address.
func leadsAllTo(t *testing.T, address string) (parent string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conntest.Tunnel(w, address)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Whatever is asked for, and however: the origin verifies the signature of each request, and of
// the fetch of robots.txt.
func TestRequestsAreSigned(t *testing.T) {
	for _, version := range []string{"h1", "h2"} {
		t.Run(version, func(t *testing.T) {
			keys := newKeyring(t, 1)
			var mu sync.Mutex
			var seen []string
			site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				signature, err := keys.verify(r)
				if err != nil || signature.Form != "dictionary" || signature.KeyID != keys.ids[0] {
					t.Errorf("%s %s of %s over %s: %+v: %v", r.Method, r.RequestURI, r.Host, r.Proto, signature, err)
				}
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, fmt.Sprintf("%s %s%s %s", r.Method, r.Host, r.RequestURI, body))
			}))
			site.EnableHTTP2 = true
			site.StartTLS()
			defer site.Close()
			w := newWorld(t, func(s *settings) {
				s.gate.Identities.Default.Signing = keys.signing(0)
				s.upstream.Proxy = leadsAllTo(t, site.Listener.Addr().String())
				s.upstream.Insecure = []identity.HostGlob{glob(t, "*")}
			})
			client := w.client(version)
			var want []string
			known := map[string]bool{}
			for i, request := range []struct{ method, host, target, body string }{
				{"GET", "example.com", "/", ""},
				{"GET", "example.com", "/?", ""},
				{"GET", "example.com", "/search?q=a&q=b%20c", ""},
				{"HEAD", "example.com", "/a", ""},
				{"POST", "example.com", "/form?x", "a body"},
				{"DELETE", "example.com", "/a/b", ""},
				{"BREW", "example.com", "/pot", ""},
				{"GET", "example.com:8443", "/port", ""},
				{"GET", "xn--bcher-kva.example", "/%C3%A4", ""},
				{"GET", "xn--bcher-kva.example:444", "/", ""},
				{"GET", "[2001:db8::1]:8443", "/v6", ""},
				{"GET", "example.com", "/%7Ea/%2f/..%2F/a;p=1,2/:@!$&'()*+=", ""},
				{"GET", "example.com", "//a//b/", ""},
				{"GET", "example.com", "/%22a%22", ""},
				{"GET", "example.com", "/a/./b/../c", ""},
			} {
				if !known[request.host] {
					known[request.host] = true
					want = append(want, "GET "+request.host+"/robots.txt ")
				}
				want = append(want, fmt.Sprintf("%s %s%s %s", request.method, request.host, request.target, request.body))
				r, err := http.NewRequest(request.method, "https://"+request.host, strings.NewReader(request.body))
				must(t, err)
				r.URL.Opaque = request.target // as it is
				if strings.HasPrefix(request.target, "//") {
					r.URL.Opaque, r.URL.Path = "", request.target
				}
				resp, err := client.Do(r)
				must(t, err)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					t.Errorf("request %d: %s", i, resp.Status)
				}
			}
			if !slices.Equal(seen, want) {
				t.Errorf("the site was asked for\n%q\nwant\n%q", seen, want)
			}
		})
	}
}

func glob(t *testing.T, text string) (g identity.HostGlob) {
	t.Helper()
	must(t, g.UnmarshalText([]byte(text)))
	return g
}

func TestEveryDoorSigns(t *testing.T) {
	for _, d := range doors {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, http %t", d.name, plain), func(t *testing.T) {
				w, keys := signedWorld(t, func(s *settings) {
					s.gate.Identities.Default.Signing.HTTP = plain
					s.upstream.Insecure = []identity.HostGlob{glob(t, "localhost")}
				})
				g := newGuarded(t, d.scheme)
				if got := d.exchange(w, g, "GET "+d.prefix(g.host())+"/public?x=1 HTTP/1.1\r\nHost: "+g.host()+"\r\n\r\n", "GET"); !slices.Equal(got, []int{200, 200}) {
					t.Fatalf("%v", got)
				}
				g.mu.Lock()
				defer g.mu.Unlock()
				for _, r := range g.asked {
					_, err := keys.verify(r)
					if d.scheme == "https" || plain {
						if err != nil {
							t.Error(err)
						}
					} else if !isUnsigned(r) {
						t.Errorf("over plain http it is signed: %v", r.Header)
					}
				}
			})
		}
	}
}

func TestWebSocketsAreSigned(t *testing.T) {
	w, keys := signedWorld(t)
	o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
		if conn, err := websocket.Accept(w, r, nil); err == nil {
			conn.CloseNow()
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, o.URL+"/socket", &websocket.DialOptions{HTTPClient: w.client("h1")})
	must(t, err)
	conn.CloseNow()
	if _, err := keys.verify(o.seen[0]); err != nil {
		t.Error(err)
	}
}

// Modes decide on what robots.txt disallows, not on signatures.
func TestEveryModeSigns(t *testing.T) {
	for _, mode := range []identity.Mode{identity.Enforce, identity.Report, identity.Off} {
		w, keys := signedWorld(t, func(s *settings) { s.gate.Identities.Default.Mode = mode })
		o := w.origin("https", nil)
		get(t, w.client("h1"), o.URL+"/private")
		get(t, w.client("h1"), o.URL+"/public")
		for _, r := range o.seen {
			if _, err := keys.verify(r); err != nil {
				t.Errorf("mode %s: %v", mode, err)
			}
		}
		if want := map[identity.Mode]int{identity.Enforce: 1, identity.Report: 2, identity.Off: 2}[mode]; len(o.seen) != want {
			t.Errorf("mode %s: %d requests, want %d", mode, len(o.seen), want)
		}
	}
}

func TestOwnSignaturesStay(t *testing.T) {
	w, keys := signedWorld(t)
	o := w.origin("https", nil)
	ask := func(path string, header http.Header) *http.Request {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, o.URL+path, nil)
		must(t, err)
		r.Header = header
		resp, err := w.client("h1").Do(r)
		must(t, err)
		resp.Body.Close()
		return o.seen[len(o.seen)-1]
	}
	own := http.Header{"Signature-Input": {`a=("@authority");keyid="x"`, `b=()`}, "Signature": {"a=:AA==:"}, "Signature-Agent": {`"https://other.example"`}}
	got := ask("/own", own.Clone())
	for name, want := range own {
		if !slices.Equal(got.Header[name], want) {
			t.Errorf("%s is %q, want %q", name, got.Header[name], want)
		}
	}
	w.log.WaitLine(t, nil, `"level":"debug"`, "/own", "the request has a signature of its own", "without the identity's signature")
	if n := w.log.Count("a signature of its own"); n != 1 {
		t.Errorf("%d lines say so, want 1", n)
	}
	if line := w.log.WaitLine(t, nil, `"message":"request"`, "/own"); strings.Contains(line, "signed") {
		t.Errorf("the log says that the proxy signed it: %s", line)
	}
	for name, stray := range map[string]http.Header{
		"agent":     {"Signature-Agent": {`"https://other.example"`, "x"}},
		"signature": {"Signature": {"a=:AA==:", "b=:AA==:"}},
	} {
		if _, err := keys.verify(ask("/stray", stray)); err != nil {
			t.Errorf("a stray %s: %v", name, err)
		}
	}
}

// Whatever a client puts into a request, one that is signed verifies as its origin got it, and
// names no other agent.
func TestClientsCannotSpoilSignatures(t *testing.T) {
	w, keys := signedWorld(t)
	o := w.origin("https/1.1", func(rw http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	for name, request := range map[string]string{
		"a field of the connection alone":  "GET /a HTTP/1.1\r\nHost: HOST\r\nConnection: signature-input\r\nSignature-Input: a=()\r\nSignature: a=:AA==:\r\n\r\n",
		"in another case":                  "GET /a HTTP/1.1\r\nHost: HOST\r\nconnection: close, SIGNATURE-Input\r\nsignature-input: a=()\r\nSIGNATURE-INPUT: b=()\r\n\r\n",
		"fields that the proxy adds":       "GET /a HTTP/1.1\r\nHost: HOST\r\nConnection: signature-input, signature, signature-agent\r\n\r\n",
		"a field of a WebSocket's upgrade": "GET /a HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade, Signature-Input\r\nUpgrade: websocket\r\nSignature-Input: a=()\r\n\r\n",
		"parts in several spellings":       "GET /a HTTP/1.1\r\nHost: HOST\r\nsignature-agent: sig1=\"https://evil.example\"\r\nSIGNATURE-AGENT: x\r\nsignature: sig1=:AA==:\r\n\r\n",
		"an underscore":                    "GET /a HTTP/1.1\r\nHost: HOST\r\nSignature_Input: a=()\r\n\r\n",
		"trailers":                         "POST /a HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nTrailer: Signature-Input\r\n\r\n1\r\nx\r\n0\r\nSignature-Input: a=()\r\nSignature: a=:AA==:\r\n\r\n",
		"the absolute form":                "GET https://HOST/a HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"a method in lower case":           "get /a#b HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"HTTP/1.0":                         "GET //evil.example/../a HTTP/1.0\r\nHost: HOST\r\n\r\n",
	} {
		c := w.secure(o.host())
		c.send(strings.ReplaceAll(request, "HOST", o.host()))
		if resp, _ := c.response("GET"); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", name, resp.Status)
			continue
		}
		if _, err := keys.verify(o.seen[len(o.seen)-1]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
	}
	c := w.secure(o.host())
	c.send("GET https://evil.example/ HTTP/1.1\r\nHost: " + o.host() + "\r\n\r\n")
	if resp, _ := c.response("GET"); resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("for another origin: %s", resp.Status)
	}
}

// A client's odd request goes out unsigned, and the log of serious things stays silent.
func TestRequestsThatCannotBeSigned(t *testing.T) {
	w, _ := signedWorld(t)
	o := w.origin("https/1.1", nil)
	c := w.secure(o.host())
	c.send("GET /\xc3\xa4 HTTP/1.1\r\nHost: " + o.host() + "\r\n\r\n")
	if resp, _ := c.response("GET"); resp.StatusCode != http.StatusOK {
		t.Fatalf("got %s", resp.Status)
	}
	if !isUnsigned(o.seen[0]) {
		t.Errorf("it is signed: %v", o.seen[0].Header)
	}
	w.log.WaitLine(t, nil, `"level":"debug"`, "the value of @path is empty, or not of visible ASCII characters alone", "without the identity's signature")
	if text := w.log.String(); strings.Contains(text, `"level":"warn"`) || strings.Contains(text, `"level":"error"`) {
		t.Error(text)
	}
}

func TestForms(t *testing.T) {
	forms := func(form identity.Form, byHost ...string) func(*settings) {
		return func(s *settings) {
			signing := &s.gate.Identities.Default.Signing
			signing.Form, signing.Forms = form, map[identity.HostGlob]identity.Form{}
			for i := 0; i < len(byHost); i += 2 {
				signing.Forms[glob(t, byHost[i])] = identity.Form(byHost[i+1])
			}
		}
	}
	override := func(s *settings) {
		o := override.Override{Verdict: override.Allow}
		must(t, o.Origin.UnmarshalText([]byte("https://*:*")))
		s.gate.Overrides = []override.Override{o}
	}
	for _, test := range []struct {
		name   string
		server string // that the origin's robots.txt names
		change func(*settings)
		want   string
	}{
		{"auto", "nginx", forms(identity.AutoForm), "dictionary"},
		{"auto by Cloudflare", "cloudflare", forms(identity.AutoForm), "string"},
		{"nothing written by Cloudflare", "cloudflare", forms(""), "string"},
		{"dictionary by Cloudflare", "cloudflare", forms(identity.DictionaryForm), "dictionary"},
		{"string", "nginx", forms(identity.StringForm), "string"},
		{"by host", "nginx", forms(identity.AutoForm, "127.0.0.1", "string"), "string"},
		{"by the longest glob", "nginx", forms(identity.AutoForm, "127.*", "string", "*", "dictionary", "a*.example.com", "dictionary"), "string"},
		{"by no glob", "nginx", forms(identity.StringForm, "*.example.com", "dictionary"), "string"},
		{"auto by host, by Cloudflare", "cloudflare", forms(identity.DictionaryForm, "127.0.0.*", "auto"), "string"},
		{"no policy is asked for", "cloudflare", override, "dictionary"},
	} {
		w, keys := signedWorld(t, test.change)
		page := make(chan *http.Request, 1)
		o := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Server", test.server)
			if r.RequestURI != "/robots.txt" {
				page <- r
			}
		}))
		defer o.Close()
		get(t, w.client("h1"), o.URL+"/page")
		if got, err := keys.verify(<-page); err != nil || got.Form != test.want {
			t.Errorf("%s: %s %v, want %s", test.name, got.Form, err, test.want)
		}
	}
}

func TestSignedInLogAndMetric(t *testing.T) {
	w, keys := signedWorld(t)
	if got := signedTotals(t, w); got != "dictionary 0, string 0" {
		t.Errorf("before a request: %s", got)
	}
	o := w.origin("https", nil)
	get(t, w.client("h1"), o.URL+"/public")
	get(t, w.client("h1"), o.URL+"/private")
	w.log.WaitLine(t, nil, `"message":"request"`, "/public", `"signed":"`+keys.ids[0][:8]+`"`)
	if line := w.log.WaitLine(t, nil, `"message":"request"`, "/private"); strings.Contains(line, "signed") {
		t.Errorf("what was refused was signed: %s", line)
	}
	if got := signedTotals(t, w); got != "dictionary 1, string 0" {
		t.Errorf("after one request: %s", got)
	}
	if strings.Contains(w.log.String(), keys.folder) || strings.Contains(w.log.String(), "PRIVATE") {
		t.Error("the log tells of keys")
	}

	unsigned := newWorld(t)
	get(t, unsigned.client("h1"), o.URL+"/public")
	if !isUnsigned(o.seen[len(o.seen)-1]) {
		t.Error("an identity without keys signs")
	}
	if got := signedTotals(t, unsigned); got != "" {
		t.Errorf("where no identity signs: %s", got)
	}
}

// signedTotals are the series of robotsproxy_signed_total.
func signedTotals(t *testing.T, w *world) string {
	t.Helper()
	families, err := w.metrics.Gather()
	must(t, err)
	var totals []string
	for _, f := range families {
		if f.GetName() == "robotsproxy_signed_total" {
			for _, m := range f.GetMetric() {
				totals = append(totals, fmt.Sprintf("%s %v", m.GetLabel()[0].GetValue(), m.GetCounter().GetValue()))
			}
		}
	}
	return strings.Join(totals, ", ")
}

// New keys, and another order of them, cost no request. Keys that can't be used change nothing.
func TestKeysChangeUnderLoad(t *testing.T) {
	keys := newKeyring(t, 3)
	set := gate.Settings{Identities: identity.Table{Default: identity.Default()}}
	set.Identities.Default.Signing = keys.signing(0)
	w := newWorld(t, func(s *settings) { s.gate = set })
	var verified, failed atomic.Int64
	byKey := map[string]*atomic.Int64{}
	for _, id := range keys.ids {
		byKey[id] = &atomic.Int64{}
	}
	o := w.origin("https", func(rw http.ResponseWriter, r *http.Request) {
		signature, err := keys.verify(r)
		if err != nil {
			failed.Add(1)
			t.Error(err)
			return
		}
		verified.Add(1)
		byKey[signature.KeyID].Add(1)
	})
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 4 {
		client := w.client([]string{"h1", "h2"}[i%2])
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				resp, err := client.Get(o.URL + "/page")
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("%v %v", resp, err)
					return
				}
				resp.Body.Close()
			}
		})
	}
	// next waits until requests are signed by the key that is the first one now.
	next := func(i int) {
		t.Helper()
		before := byKey[keys.ids[i]].Load()
		for deadline := time.Now().Add(testTimeout); byKey[keys.ids[i]].Load() < before+10; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) || t.Failed() {
				t.Errorf("no request is signed by key %d", i)
				return
			}
		}
	}
	next(0)
	for _, order := range [][]int{{0, 1}, {1, 0}, {1}, {1, 2}, {2, 1}, {2}} {
		set.Identities.Default.Signing = keys.signing(order...)
		must(t, w.gate.SetSettings(set))
		next(order[0])
		for _, id := range w.gate.Identities() {
			if got := len(id.Keys()); got != len(order) || id.Agent().String() != directory {
				t.Errorf("%v: the directory %v has %d keys", order, id.Agent(), got)
			}
		}
	}
	must(t, os.Remove(keys.path(1)))
	set.Identities.Default.Signing = keys.signing(1)
	if err := w.gate.SetSettings(set); err == nil || !strings.Contains(err.Error(), "the section sign of the identity default: keys[0]: read the signing key: open ") {
		t.Errorf("a key that is gone: %v", err)
	}
	next(2)
	close(stop)
	clients.Wait()
	if verified.Load() == 0 || failed.Load() > 0 {
		t.Errorf("%d requests verified, %d did not", verified.Load(), failed.Load())
	}
}

// Without TLS to read, nothing is signed: when_needed reads where a request would be.
func TestUnreadTunnelsAreNotSigned(t *testing.T) {
	for mode, want := range map[opaque.Mode]bool{opaque.Intercept: true, opaque.WhenNeeded: true, opaque.Never: false} {
		w, keys := signedWorld(t, func(s *settings) {
			s.policies = newSays(allowsAll)
			s.tunnels.Mode = mode
		})
		o := w.origin("https", nil)
		transport := w.client("h1").Transport.(*http.Transport)
		transport.TLSClientConfig.InsecureSkipVerify = true
		get(t, &http.Client{Transport: transport}, o.URL+"/")
		if _, err := keys.verify(o.seen[0]); (err == nil) != want {
			t.Errorf("mode %s: %v", mode, err)
		}
	}
}
