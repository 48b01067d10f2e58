package fetch

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"robotsproxy/robots"
)

func TestCDNOfAnAnswer(t *testing.T) {
	for _, test := range []struct {
		header, want string
	}{
		{"", ""},
		{"Server: cloudflare", Cloudflare},
		{"server:  CloudFlare ", Cloudflare},
		{"Server: nginx\r\nServer: cloudflare", Cloudflare},
		{"CF-RAY: 230b030023ae2822-SJC", Cloudflare},
		{"cf-ray: 230b030023ae2822-SJC\r\nServer: nginx", Cloudflare},
		{"CF-RAY:", ""},
		{"Server: cloudflare-like <b>", ""},
		{"Server: nginx\r\nVia: 1.1 cloudflare", ""},
	} {
		for _, status := range []string{"200 OK", "403 Forbidden", "503 Service Unavailable"} {
			header := test.header
			if header != "" {
				header += "\r\n"
			}
			address := serveRaw(t, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n"+header+"\r\n")
			if got := fetchFrom(t, Defaults(), address); got.CDN != test.want {
				t.Errorf("%s with %q: %q, want %q", status, test.header, got.CDN, test.want)
			}
		}
	}
}

// serveBy starts an origin whose answers come by a CDN if its Server is one.
func serveBy(t *testing.T, server string, handler http.HandlerFunc) string {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", server)
		handler(w, r)
	})
}

// The CDN is that of the origin that was asked, wherever it redirects to and however the
// fetch ends. What was known stays if the origin does not answer.
func TestCDNOfTheOrigin(t *testing.T) {
	rules := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, someRules) }
	to := func(address string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, address, http.StatusFound) }
	}
	plain, cloudflare := serveBy(t, "nginx", rules), serveBy(t, "cloudflare", rules)
	dead := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for _, test := range []struct {
		name, origin, known, want string
	}{
		{"by it", cloudflare, "", Cloudflare},
		{"not by it", plain, "", ""},
		{"no longer by it", plain, Cloudflare, ""},
		{"leads to it", serveBy(t, "nginx", to(cloudflare+"/robots.txt")), "", ""},
		{"leads away from it", serveBy(t, "cloudflare", to(plain+"/robots.txt")), "", Cloudflare},
		{"leads to its own page", serveBy(t, "cloudflare", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				to("/other.txt")(w, r)
			} else {
				rules(w, r)
			}
		}), "", Cloudflare},
		{"leads to a dead end", serveBy(t, "cloudflare", to(dead+"/robots.txt")), "", Cloudflare},
		{"leads nowhere", serveBy(t, "cloudflare", to("")), "", Cloudflare},
		{"has too long a header", serveBy(t, "cloudflare", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Long", strings.Repeat("x", maxHeader))
		}), "", Cloudflare},
		{"is dead", dead, "", ""},
		{"is dead now", dead, Cloudflare, Cloudflare},
	} {
		got, err := newFetcher(Defaults()).Fetch(t.Context(), Request{Origin: originOf(t, test.origin), CDN: test.known})
		if err != nil || got.CDN != test.want {
			t.Errorf("an origin that %s: %q, %v, want %q", test.name, got.CDN, err, test.want)
		}
	}
}

// form is the form of signature that a CDN wants.
func form(cdn string) string { return cmp.Or(cdn, "dictionary") }

// signatures are the calls of a Signer that signs with headers that say what it knew.
type signatures struct {
	mu    sync.Mutex
	calls []string
}

func (s *signatures) sign(header http.Header, target robots.Target, cdn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, strings.TrimSpace(target.String()+" "+cdn))
	header.Set("Signature-Input", form(cdn))
	header.Set("Signed", fmt.Sprint(target.Path, " of ", header.Get("User-Agent"), " ", header.Get("From")))
}

// Each request of a fetch is signed as what it is, when its header is complete.
func TestEachRequestIsSigned(t *testing.T) {
	var (
		mu  sync.Mutex
		got []string
	)
	note := func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header.Get("Signed"))
	}
	end := serveBy(t, "nginx", func(w http.ResponseWriter, r *http.Request) {
		note(w, r)
		w.WriteHeader(500)
	})
	middle := serveBy(t, "cloudflare", func(w http.ResponseWriter, r *http.Request) {
		note(w, r)
		switch r.URL.Path {
		case "/a":
			http.Redirect(w, r, "/b?c=d&e=%C3%A9", http.StatusFound)
		case "/b":
			http.Redirect(w, r, end, http.StatusFound)
		}
	})
	start := serveBy(t, "nginx", func(w http.ResponseWriter, r *http.Request) {
		note(w, r)
		switch r.URL.Path {
		case "/robots.txt":
			http.Redirect(w, r, middle+"/a#f", http.StatusFound)
		case "/":
		default:
			w.WriteHeader(500)
		}
	})
	var s signatures
	_, err := newFetcher(with(func(o *Options) { o.Soft5xx = true })).Fetch(t.Context(), Request{
		Origin: originOf(t, start), UserAgent: "ExampleBot/1.0", From: "bot@example.org", CDN: Cloudflare, Sign: s.sign,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.calls) != 6 || len(got) != 6 {
		t.Fatalf("signed %q, got %q", s.calls, got)
	}
	missing := strings.TrimPrefix(s.calls[4], start)
	if want := []string{
		start + "/robots.txt " + Cloudflare,
		middle + "/a",
		middle + "/b?c=d&e=%C3%A9 " + Cloudflare,
		end + "/",
		start + missing, // not by the CDN, as its answer told
		start + "/",
	}; !slices.Equal(s.calls, want) {
		t.Errorf("signed %q\nwant   %q", s.calls, want)
	}
	for i, path := range []string{"/robots.txt", "/a", "/b?c=d&e=%C3%A9", "/", missing, "/"} {
		if want := path + " of ExampleBot/1.0 bot@example.org"; got[i] != want {
			t.Errorf("request %d is signed %q, want %q", i, got[i], want)
		}
	}
}

// A request that was signed for another network than the site's is made once more, before
// anything else is tried, if the site turns it away. No other request is.
func TestWrongFormOfSignatureIsMended(t *testing.T) {
	const operators, clients = "ExampleBot/1.0", "ClientBot/1.0"
	verifies := func(server string) http.HandlerFunc {
		cdn := ""
		if server == Cloudflare {
			cdn = server
		}
		return func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Signature-Input"); got != form(cdn) {
				w.WriteHeader(403)
			}
			fmt.Fprint(w, someRules)
		}
	}
	refuses := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	var s signatures
	unsigned := func(http.Header, robots.Target, string) {} // as an identity does not sign over plain http
	for _, test := range []struct {
		name    string
		server  string
		answers http.HandlerFunc
		request Request // without Origin and UserAgent
		want    string  // the form of each request and its User-Agent, where it is not the operator's
		status  int
	}{
		{"the network is new", Cloudflare, verifies(Cloudflare), Request{Sign: s.sign}, "dictionary, cloudflare", 200},
		{"the network is known", Cloudflare, verifies(Cloudflare), Request{Sign: s.sign, CDN: Cloudflare}, "cloudflare", 200},
		{"the site has left the network", "nginx", verifies("nginx"), Request{Sign: s.sign, CDN: Cloudflare}, "cloudflare, dictionary", 200},
		{"the site has no network", "nginx", verifies("nginx"), Request{Sign: s.sign}, "dictionary", 200},
		{"it is not turned away", Cloudflare, verifies(""), Request{Sign: s.sign}, "dictionary", 200},
		{"it is turned away all the same", Cloudflare, refuses(401), Request{Sign: s.sign},
			"dictionary, cloudflare, cloudflare robotsproxy/1.0", 401},
		{"all are turned away, and a text is known", Cloudflare, refuses(429), Request{Sign: s.sign, HasText: true, KnownAgent: clients},
			"dictionary, cloudflare, cloudflare ClientBot/1.0", 429},
		{"it is turned away, and the network is known", Cloudflare, refuses(403), Request{Sign: s.sign, CDN: Cloudflare},
			"cloudflare, cloudflare robotsproxy/1.0", 403},
		{"it is turned away without a network", "nginx", refuses(403), Request{Sign: s.sign}, "dictionary, dictionary robotsproxy/1.0", 403},
		{"there is no file", Cloudflare, refuses(404), Request{Sign: s.sign}, "dictionary", 404},
		{"the file is gone", Cloudflare, refuses(410), Request{Sign: s.sign}, "dictionary", 410},
		{"the site fails", Cloudflare, refuses(503), Request{Sign: s.sign}, "dictionary", 503},
		{"no identity signs", Cloudflare, refuses(403), Request{}, "unsigned, unsigned robotsproxy/1.0", 403},
		{"the identity does not sign this", Cloudflare, refuses(403), Request{Sign: unsigned}, "unsigned, unsigned robotsproxy/1.0", 403},
	} {
		var (
			mu    sync.Mutex
			asked []string
		)
		origin := serveBy(t, test.server, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			ask := cmp.Or(r.Header.Get("Signature-Input"), "unsigned")
			if r.UserAgent() != operators {
				ask += " " + r.UserAgent()
			}
			asked = append(asked, ask)
			test.answers(w, r)
		})
		req := test.request
		req.Origin, req.UserAgent = originOf(t, origin), operators
		got, err := newFetcher(Defaults()).Fetch(t.Context(), req)
		if err != nil || got.Status != test.status {
			t.Errorf("%s: got %+v, %v", test.name, got, err)
		}
		if asked := strings.Join(asked, ", "); asked != test.want {
			t.Errorf("%s: asked %s, want %s", test.name, asked, test.want)
		}
	}
}

// What counts is the network of the origin that turns the request away, wherever a redirect
// has led.
func TestWrongFormOfSignatureIsMendedBehindARedirect(t *testing.T) {
	var asked atomic.Int64
	behind := serveBy(t, "cloudflare", func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Signature-Input") != Cloudflare {
			w.WriteHeader(403)
		}
		fmt.Fprint(w, someRules)
	})
	before := serveBy(t, "nginx", func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, behind+"/robots.txt", http.StatusMovedPermanently)
	})
	var s signatures
	got, err := newFetcher(Defaults()).Fetch(t.Context(), Request{Origin: originOf(t, before), Sign: s.sign})
	if err != nil || got.Status != 200 || got.CDN != "" || asked.Load() != 4 {
		t.Errorf("%d requests brought %+v, %v", asked.Load(), got, err)
	}
}

// A verifier may compare Host with what is signed, octet by octet.
func TestHostIsSentAsItIsSigned(t *testing.T) {
	var sent, signed []string
	f := newFetcher(Defaults())
	f.Transport = transportFunc(func(r *http.Request) (*http.Response, error) {
		sent = append(sent, r.Host)
		w := httptest.NewRecorder()
		if r.URL.Path == "/robots.txt" {
			http.Redirect(w, r, "https://B\u00DCCHER.Example:443/robots", http.StatusFound)
		}
		return w.Result(), nil
	})
	sign := func(_ http.Header, to robots.Target, _ string) { signed = append(signed, to.Origin.Authority()) }
	if _, err := f.Fetch(t.Context(), Request{Origin: originOf(t, "https://example.com"), Sign: sign}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"example.com", "xn--bcher-kva.example"}; !slices.Equal(sent, want) || !slices.Equal(signed, want) {
		t.Errorf("sent to %q, signed for %q, want %q", sent, signed, want)
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
