package fetch

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"robotsproxy/internal/conntest"
	"robotsproxy/robots"
	"robotsproxy/robots/tdmrep"
)

var exampleOrg = robots.Origin{Scheme: "https", Host: "example.org", Port: "443"}

const someRules = "User-agent: *\nDisallow: /private/\n"

// ownName is the User-Agent of fetches for which the operator names none.
const ownName = "robotsproxy/1.0"

// newFetcher returns a fetcher that dials for each request, so that tests can close their
// servers.
func newFetcher(opts Options) *Fetcher {
	return &Fetcher{
		Options:   &opts,
		Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true},
		UserAgent: ownName,
	}
}

func with(change func(*Options)) Options {
	o := Defaults()
	change(&o)
	return o
}

func originOf(t testing.TB, address string) robots.Origin {
	t.Helper()
	origin, err := robots.ParseOrigin(address)
	if err != nil {
		t.Fatal(err)
	}
	return origin
}

func fetchFrom(t *testing.T, opts Options, address string) Result {
	t.Helper()
	got, err := newFetcher(opts).Fetch(t.Context(), Request{Origin: originOf(t, address), UserAgent: "ExampleBot/1.0"})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// serve starts an origin.
func serve(t *testing.T, handler http.HandlerFunc) string {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// serveRaw starts an origin that answers each connection with these octets and closes it.
func serveRaw(t *testing.T, response string) string {
	return "http://" + conntest.Serve(t, "127.0.0.1:0", func(conn net.Conn) {
		conn.Read(make([]byte, 4096))
		io.WriteString(conn, response)
	})
}

func TestFetchByStatus(t *testing.T) {
	mapped := with(func(o *Options) {
		o.Statuses = map[int]Meaning{429: MeansUnreachable, 403: MeansDisallow, 500: MeansAllow, 302: MeansDisallow}
	})
	for _, test := range []struct {
		opts    Options
		status  int
		meaning Meaning
		cause   string
	}{
		{Defaults(), 200, MeansFile, ""},
		{Defaults(), 203, MeansFile, ""},
		{Defaults(), 206, MeansFile, ""},
		{Defaults(), 300, MeansNoFile, "a redirect to nowhere"},
		{Defaults(), 302, MeansNoFile, "a redirect to nowhere"},
		{Defaults(), 304, MeansNoFile, "a redirect to nowhere"},
		{Defaults(), 305, MeansNoFile, "a redirect to nowhere"},
		{Defaults(), 306, MeansNoFile, "a redirect to nowhere"},
		{Defaults(), 399, MeansNoFile, "a redirect to nowhere"},
		{Defaults(), 400, MeansBadRequest, ""},
		{Defaults(), 401, MeansNoFile, ""},
		{Defaults(), 404, MeansNoFile, ""},
		{Defaults(), 429, MeansBadRequest, ""},
		{Defaults(), 499, MeansNoFile, ""},
		{Defaults(), 500, MeansUnreachable, "500 Internal Server Error"},
		{Defaults(), 503, MeansUnreachable, "503 Service Unavailable"},
		{Defaults(), 599, MeansUnreachable, "599"},
		{Defaults(), 600, MeansUnreachable, "600"},
		{Defaults(), 999, MeansUnreachable, "999"},
		{mapped, 429, MeansUnreachable, "429 Too Many Requests"},
		{mapped, 403, MeansDisallow, ""},
		{mapped, 500, MeansAllow, ""},
		{mapped, 302, MeansDisallow, ""},
		{mapped, 404, MeansNoFile, ""},
	} {
		t.Run(fmt.Sprint(test.status), func(t *testing.T) {
			got := fetchFrom(t, test.opts, serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != "GET" || r.RequestURI != "/robots.txt" || !slices.Contains([]string{"ExampleBot/1.0", ownName}, r.UserAgent()) || r.Header.Get("Accept-Encoding") != "" {
					t.Errorf("asked with %s %s %v", r.Method, r.RequestURI, r.Header)
				}
				w.WriteHeader(test.status)
				if test.status != 304 {
					io.WriteString(w, someRules)
				}
			}))
			if got.Meaning != test.meaning || got.Cause != test.cause || got.Status != test.status {
				t.Errorf("got %+v, want %s because of %q", got, test.meaning, test.cause)
			}
			if isText := string(got.Body) == someRules; isText != (test.meaning == MeansFile) {
				t.Errorf("body %q", got.Body)
			}
		})
	}
	t.Run("204", func(t *testing.T) {
		got := fetchFrom(t, Defaults(), serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(204)
		}))
		if got.Meaning != MeansFile || len(got.Body) != 0 || got.SHA256 == "" {
			t.Errorf("got %+v, want an empty text", got)
		}
	})
}

// A nameSite answers by the User-Agent. Those that it does not know get the status
// otherwise.
type nameSite struct {
	answers   map[string]int
	otherwise int

	mu   sync.Mutex
	seen []string // User-Agents, with a From if there is one
}

// asked are the User-Agents that have asked.
func (s *nameSite) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func (s *nameSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, strings.TrimSpace(r.UserAgent()+" "+r.Header.Get("From")))
	status, ok := s.answers[r.UserAgent()]
	if !ok {
		status = s.otherwise
	}
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(status)
	io.WriteString(w, someRules)
}

// A fetch sends the User-Agent that the operator wrote. Others count only if a site turns
// that away.
func TestUserAgentsOfAFetch(t *testing.T) {
	type answers = map[string]int
	client := Request{ClientAgent: "ClientBot/1.0"}
	const earlier = "EarlierBot/1.0"
	type known struct { // of the origin
		text  bool
		agent string
	}
	none, text, textByName := known{}, known{true, ""}, known{true, earlier}
	for _, test := range []struct {
		name      string
		by        Request
		known     known
		answers   answers
		otherwise int
		asked     []string
		meaning   Meaning
		status    int
	}{
		{"the program's own name", client, none, nil, 200, []string{ownName}, MeansFile, 200},
		{"the identity's", Request{UserAgent: "OperatorBot/1.0", From: "bot@example.org", ClientAgent: "x"}, none, nil, 200,
			[]string{"OperatorBot/1.0 bot@example.org"}, MeansFile, 200},

		{"unknown names are turned away", client, none, answers{client.ClientAgent: 200}, 403, []string{ownName, client.ClientAgent}, MeansFile, 200},
		{"with 429", client, none, answers{client.ClientAgent: 200}, 429, []string{ownName, client.ClientAgent}, MeansFile, 200},
		{"the client's too", client, none, nil, 403, []string{ownName, client.ClientAgent}, MeansNoFile, 403},
		{"the client's otherwise", client, none, answers{client.ClientAgent: 404}, 401, []string{ownName, client.ClientAgent}, MeansNoFile, 401},
		{"the client's fails", client, none, answers{client.ClientAgent: 500}, 403, []string{ownName, client.ClientAgent}, MeansNoFile, 403},
		{"the client's gets no answer", client, none, answers{client.ClientAgent: 0}, 403, []string{ownName, client.ClientAgent}, MeansNoFile, 403},
		{"there is none", client, none, nil, 404, []string{ownName}, MeansNoFile, 404},
		{"there is none any more", client, none, nil, 410, []string{ownName}, MeansNoFile, 410},
		{"failures are for all", client, none, answers{client.ClientAgent: 200}, 503, []string{ownName}, MeansUnreachable, 503},
		{"the operator names the identity, whatever the client says", Request{UserAgent: "OperatorBot/1.0", ClientAgent: "ClientBot/1.0"}, none,
			answers{client.ClientAgent: 200}, 403, []string{"OperatorBot/1.0", ownName}, MeansNoFile, 403},
		{"the identity alone is turned away", Request{UserAgent: "OperatorBot/1.0"}, none, answers{ownName: 200}, 403, []string{"OperatorBot/1.0", ownName}, MeansFile, 200},
		{"the identity is turned away, the program fails", Request{UserAgent: "OperatorBot/1.0"}, none, answers{ownName: 503}, 403,
			[]string{"OperatorBot/1.0", ownName}, MeansNoFile, 403},
		{"a From of the operator's", Request{From: "bot@example.org", ClientAgent: "ClientBot/1.0"}, none, nil, 403,
			[]string{ownName + " bot@example.org", "ClientBot/1.0 bot@example.org"}, MeansNoFile, 403},
		{"a client without a name", Request{}, none, nil, 403, []string{ownName}, MeansNoFile, 403},
		{"one with the program's name", Request{ClientAgent: ownName}, none, nil, 403, []string{ownName}, MeansNoFile, 403},
		{"a name as long as may be", Request{ClientAgent: strings.Repeat("x", 512)}, none, nil, 403, []string{ownName, strings.Repeat("x", 512)}, MeansNoFile, 403},
		{"a longer one", Request{ClientAgent: strings.Repeat("x", 513)}, none, nil, 403, []string{ownName}, MeansNoFile, 403},
		{"one with control characters", Request{ClientAgent: "a\x1b[1m"}, none, nil, 403, []string{ownName}, MeansNoFile, 403},
		{"one outside ASCII", Request{ClientAgent: "Bötchen/1.0"}, none, nil, 403, []string{ownName}, MeansNoFile, 403},

		{"who got the text is asked for", client, textByName, answers{earlier: 200, client.ClientAgent: 200}, 403, []string{ownName, earlier}, MeansFile, 200},
		{"and is turned away", client, textByName, answers{client.ClientAgent: 200}, 403, []string{ownName, earlier, client.ClientAgent}, MeansFile, 200},
		{"as all are", client, textByName, nil, 403, []string{ownName, earlier, client.ClientAgent}, MeansNoFile, 403},
		{"and finds none any more", client, textByName, answers{earlier: 404}, 403, []string{ownName, earlier}, MeansNoFile, 404},
		{"and fails", client, textByName, answers{earlier: 503}, 403, []string{ownName, earlier}, MeansUnreachable, 503},
		{"and gets no answer", client, textByName, answers{earlier: 0}, 403, []string{ownName, earlier}, MeansUnreachable, 0},
		{"and is the client", Request{ClientAgent: earlier}, textByName, nil, 403, []string{ownName, earlier}, MeansNoFile, 403},
		{"the program itself got the text", Request{UserAgent: "OperatorBot/1.0"}, text, answers{ownName: 200}, 403, []string{"OperatorBot/1.0", ownName}, MeansFile, 200},

		{"a text is not given up for 429", client, text, answers{client.ClientAgent: 200}, 429, []string{ownName}, MeansUnreachable, 429},
		{"nor for 400", client, text, answers{client.ClientAgent: 200}, 400, []string{ownName}, MeansUnreachable, 400},
		{"nor for 414", client, text, answers{client.ClientAgent: 200}, 414, []string{ownName}, MeansUnreachable, 414},
		{"nor for 431", client, text, answers{client.ClientAgent: 200}, 431, []string{ownName}, MeansUnreachable, 431},
		{"nor where the earlier name gets that", client, textByName, answers{earlier: 429, client.ClientAgent: 200}, 403, []string{ownName, earlier}, MeansUnreachable, 429},
		{"but for 403", client, text, nil, 403, []string{ownName, client.ClientAgent}, MeansNoFile, 403},
		{"431 where no text is known", client, none, nil, 431, []string{ownName, client.ClientAgent}, MeansBadRequest, 431},
	} {
		t.Run(test.name, func(t *testing.T) {
			site := &nameSite{answers: test.answers, otherwise: test.otherwise}
			req := test.by
			req.Origin, req.HasText, req.KnownAgent = originOf(t, serve(t, site.ServeHTTP)), test.known.text, test.known.agent
			got, err := newFetcher(Defaults()).Fetch(t.Context(), req)
			if err != nil || got.Meaning != test.meaning || got.Status != test.status {
				t.Errorf("got %+v, %v; want %s with status %d", got, err, test.meaning, test.status)
			}
			if asked := site.asked(); !slices.Equal(asked, test.asked) {
				t.Errorf("asked by %q, want %q", asked, test.asked)
			}
			if last := test.asked[len(test.asked)-1]; test.meaning == MeansFile && cmp.Or(got.UserAgent, ownName) != strings.TrimSuffix(last, " bot@example.org") {
				t.Errorf("the text is said to be got by %q", got.UserAgent)
			}
		})
	}
	t.Run("what the operator means by a status is final", func(t *testing.T) {
		for _, meaning := range []Meaning{MeansUnreachable, MeansAllow, MeansDisallow} {
			opts := with(func(o *Options) { o.Statuses = map[int]Meaning{429: meaning} })
			site := &nameSite{otherwise: 429}
			req := Request{Origin: originOf(t, serve(t, site.ServeHTTP)), ClientAgent: "ClientBot/1.0", HasText: true}
			got, err := newFetcher(opts).Fetch(t.Context(), req)
			if err != nil || got.Meaning != meaning || len(site.asked()) != 1 {
				t.Errorf("%s: got %+v, %v, asked by %q", meaning, got, err, site.asked())
			}
		}
	})
}

func TestFetchFollowsRedirects(t *testing.T) {
	elsewhere := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "Disallow: "+r.URL.Path) })
	for _, test := range []struct {
		name    string
		hops    map[string]string // path -> Location
		status  int
		meaning Meaning
		answer  string // body or cause
	}{
		{"one", map[string]string{"/robots.txt": "/a"}, 301, MeansFile, "end /a"},
		{"other origin", map[string]string{"/robots.txt": elsewhere + "/b#c"}, 302, MeansFile, "Disallow: /b"},
		{"user name left out", map[string]string{"/robots.txt": strings.Replace(elsewhere, "//", "//me:secret@", 1) + "/b"}, 302, MeansFile, "Disallow: /b"},
		{"of no kind that is known", map[string]string{"/robots.txt": "/a"}, 399, MeansFile, "end /a"},
		{"choices", map[string]string{"/robots.txt": "/a"}, 300, MeansFile, "end /a"},
		{"relative", map[string]string{"/robots.txt": "x/y", "/x/y": "../z?q"}, 307, MeansFile, "end /z?q"},
		{"five", map[string]string{"/robots.txt": "/1", "/1": "/2", "/2": "/3", "/3": "/4", "/4": "/5"}, 308, MeansFile, "end /5"},
		{"six", map[string]string{"/robots.txt": "/1", "/1": "/2", "/2": "/3", "/3": "/4", "/4": "/5", "/5": "/6"}, 303, MeansNoFile, "more than 5 redirects"},
		{"to itself", map[string]string{"/robots.txt": "/robots.txt"}, 301, MeansNoFile, "redirects in a loop"},
		{"loop", map[string]string{"/robots.txt": "/1", "/1": "/2", "/2": "/1"}, 301, MeansNoFile, "redirects in a loop"},
		{"other scheme", map[string]string{"/robots.txt": "ftp://example.com/robots.txt"}, 301, MeansNoFile, "a redirect to what is no web address"},
		{"no address", map[string]string{"/robots.txt": "http://[::1/"}, 301, MeansNoFile, "a redirect to what is no web address"},
		{"no host", map[string]string{"/robots.txt": "http:///robots.txt"}, 301, MeansNoFile, "a redirect to what is no web address"},
		{"long", map[string]string{"/robots.txt": "/" + strings.Repeat("x", maxLocation-1)}, 301, MeansFile, "end /" + strings.Repeat("x", maxLocation-1)},
		{"too long", map[string]string{"/robots.txt": "/" + strings.Repeat("x", maxLocation)}, 301, MeansNoFile, "a redirect to an address of more than 8192 octets"},
		{"dead end", map[string]string{"/robots.txt": "http://127.0.0.1:1/"}, 301, MeansUnreachable, "connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := fetchFrom(t, Defaults(), serve(t, func(w http.ResponseWriter, r *http.Request) {
				if next, ok := test.hops[r.URL.Path]; ok {
					w.Header().Set("Location", next)
					w.WriteHeader(test.status)
					return
				}
				io.WriteString(w, "end "+r.RequestURI)
			}))
			answer := string(got.Body) + got.Cause
			if got.Meaning != test.meaning || answer != test.answer {
				t.Errorf("got %s and %q, want %s and %q", got.Meaning, answer, test.meaning, test.answer)
			}
			if got.Meaning == MeansNoFile && got.Status != test.status {
				t.Errorf("status %d, want that of the last redirect", got.Status)
			}
		})
	}
	t.Run("none wanted", func(t *testing.T) {
		none := with(func(o *Options) { o.MaxRedirects = 0 })
		got := fetchFrom(t, none, serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/a", http.StatusFound)
		}))
		if got.Meaning != MeansNoFile || got.Cause != "more than 0 redirects" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestFetchOfBrokenResponses(t *testing.T) {
	for _, test := range []struct{ name, response, cause string }{
		{"no response", "", "connection closed without a response"},
		{"no status line", "what?\r\n\r\n", "malformed HTTP"},
		{"cut within the header", "HTTP/1.1 200 OK\r\nContent-", "malformed"},
		{"cut within the body", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + someRules, "response cut short"},
		{"broken chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nUser-\r\nzz\r\n", "invalid byte in chunk length"},
		{"last chunk missing", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nUser-\r\n", "response cut short"},
		{"more than gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 43\r\n\r\n" + gzipped("") + strings.Repeat("ab", 10), "broken gzip"},
		{"no gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 13\r\n\r\nUser-agent: *", "broken gzip"},
		{"brotli", "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nabc", "Content-Encoding br"},
		{"twice", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\nContent-Length: 3\r\n\r\nabc", "Content-Encoding gzip, gzip"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := fetchFrom(t, Defaults(), serveRaw(t, test.response))
			if got.Meaning != MeansUnreachable || !strings.Contains(got.Cause, test.cause) || len(got.Body) > 0 {
				t.Errorf("got %+v, want unreachable because of %q", got, test.cause)
			}
		})
	}
	t.Run("a protocol nobody asked for", func(t *testing.T) {
		got := fetchFrom(t, Defaults(), serve(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			conn.Read(make([]byte, 1)) // until the other side closes it
		}))
		if got.Meaning != MeansUnreachable || got.Cause != "101 Switching Protocols" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("404 with a body cut short", func(t *testing.T) {
		got := fetchFrom(t, Defaults(), serveRaw(t, "HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\nno"))
		if got.Meaning != MeansNoFile {
			t.Errorf("got %+v: the status says all", got)
		}
	})
	t.Run("no encoding at all", func(t *testing.T) {
		got := fetchFrom(t, Defaults(), serveRaw(t, "HTTP/1.1 200 OK\r\nContent-Encoding: UTF-8\r\n\r\n"+someRules))
		if got.Meaning != MeansFile || string(got.Body) != someRules {
			t.Errorf("got %+v", got)
		}
	})
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.String()
}

// A tdmrep.json counts as a whole or not at all, and what is none of it has no text.
func TestFetchOfTDMRep(t *testing.T) {
	opts := with(func(o *Options) { o.MaxBytes = 100 })
	rules := `[{"location":"/","tdm-reservation":1}]`
	for _, test := range []struct {
		name, body, encoding string
		want                 Result
	}{
		{"all", rules, "", Result{Meaning: MeansFile, Body: []byte(rules)}},
		{"gzip", gzipped(rules), "gzip", Result{Meaning: MeansFile, Body: []byte(rules)}},
		{"HTML", "<html>" + strings.Repeat("y", 200), "", Result{Meaning: MeansFile, Cause: "the answer is no tdmrep.json"}},
		{"nothing", "", "", Result{Meaning: MeansFile, Cause: "the answer is no tdmrep.json"}},
		{"too long", rules + strings.Repeat(" ", 100), "", Result{Meaning: MeansUnreachable, Cause: "a tdmrep.json of more than 100 octets"}},
		{"bomb", gzipped("[" + strings.Repeat(" ", 64<<20)), "gzip", Result{Meaning: MeansUnreachable, Cause: "a tdmrep.json of more than 100 octets"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			address := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.RequestURI != tdmrep.Path {
					t.Errorf("asked for %s", r.RequestURI)
				}
				if test.encoding != "" {
					w.Header().Set("Content-Encoding", test.encoding)
				}
				io.WriteString(w, test.body)
			})
			got, err := newFetcher(opts).Fetch(t.Context(), Request{Origin: originOf(t, address), Path: tdmrep.Path})
			if err != nil {
				t.Fatal(err)
			}
			if got.Meaning != test.want.Meaning || string(got.Body) != string(test.want.Body) || got.Cause != test.want.Cause || (got.SHA256 != "") != (got.Meaning == MeansFile) {
				t.Errorf("got %s (%s) and %q, want %s (%s) and %q", got.Meaning, got.Cause, got.Body, test.want.Meaning, test.want.Cause, test.want.Body)
			}
		})
	}
}

func TestFetchReadsUpToMaxBytes(t *testing.T) {
	opts := with(func(o *Options) { o.MaxBytes = 100 })
	line := "Disallow: /" + strings.Repeat("x", 28) + "\n" // 40 octets
	for _, test := range []struct {
		name, body, encoding, want string
	}{
		{"all", line + line, "", line + line},
		{"cut line dropped", line + line + line, "", line + line},
		{"gzip", gzipped(line), "gzip", line},
		{"x-gzip", gzipped(line), "X-GZip", line},
		{"gzip, several members", gzipped(line) + gzipped(line), "gzip", line + line},
		{"gzip, padded", gzipped(line) + "\x00\x00\x00", "gzip", line},
		{"bomb", gzipped(line + line + strings.Repeat("y", 64<<20)), "gzip", line + line},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := fetchFrom(t, opts, serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if test.encoding != "" {
					w.Header().Set("Content-Encoding", test.encoding)
				}
				io.WriteString(w, test.body)
			}))
			if got.Meaning != MeansFile || string(got.Body) != test.want {
				t.Errorf("got %s (%s) and %q, want %q", got.Meaning, got.Cause, got.Body, test.want)
			}
			if cap(got.Body) > len(got.Body)+64 {
				t.Errorf("room for %d octets is held for %d", cap(got.Body), len(got.Body))
			}
		})
	}
	t.Run("endless", func(t *testing.T) {
		got := fetchFrom(t, opts, serve(t, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, line); err != nil {
					return
				}
			}
		}))
		if got.Meaning != MeansFile || string(got.Body) != line+line {
			t.Errorf("got %+v", got)
		}
	})
}

// again repeats a piece endlessly, and counts.
type again struct {
	piece []byte
	read  int
}

func (a *again) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], a.piece[(a.read+n)%len(a.piece):])
	}
	a.read += n
	return n, nil
}

// gzipFrom answers with gzip.
type gzipFrom struct{ body io.Reader }

func (g gzipFrom) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Encoding": {"gzip"}}, Body: io.NopCloser(g.body), ContentLength: -1, Request: req,
	}, nil
}

// Endless gzip that yields nothing is given up long before fetch_timeout.
func TestFetchOfGzipThatYieldsNothing(t *testing.T) {
	empty := []byte(gzipped(""))
	header := empty[:10]
	for name, test := range map[string]struct{ first, then []byte }{
		"empty members":            {nil, empty},
		"members of one octet":     {nil, []byte(gzipped("a"))},
		"blocks as they are":       {header, []byte{0, 0, 0, 0xff, 0xff}},
		"blocks by the fixed code": {header, []byte{0x02, 0x08, 0x20, 0x80, 0x00}}, // four
		"padding":                  {empty, make([]byte, 4096)},
		"a file name":              {append(slices.Clone(header[:3]), 8, 0, 0, 0, 0, 0, 3), []byte("x")},
	} {
		t.Run(name, func(t *testing.T) {
			opts := Defaults()
			body := &again{piece: test.then}
			f := &Fetcher{Options: &opts, Transport: gzipFrom{io.MultiReader(bytes.NewReader(test.first), body)}, UserAgent: ownName}
			got, err := f.Fetch(t.Context(), Request{Origin: exampleOrg})
			if err != nil || got.Meaning != MeansUnreachable || !strings.Contains(got.Cause, "gzip") {
				t.Errorf("got %+v, %v", got, err)
			}
			if body.read > 2*maxOverhead {
				t.Errorf("%d octets were read", body.read)
			}
		})
	}
}

// Text that gzip cannot compress, and a long gzip header, are read all the same.
func TestFetchOfGzipThatYieldsLittle(t *testing.T) {
	text := make([]byte, Defaults().MaxBytes)
	random := rand.NewChaCha8([32]byte{1})
	random.Read(text)
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Extra = make([]byte, 65535)
	w.Write(text)
	w.Close()
	opts := Defaults()
	f := &Fetcher{Options: &opts, Transport: gzipFrom{&b}, UserAgent: ownName}
	if got, err := f.Fetch(t.Context(), Request{Origin: exampleOrg}); err != nil || !bytes.Equal(got.Body, text) {
		t.Errorf("%d octets, %s, %v", len(got.Body), got.Cause, err)
	}
}

func TestFetchTimesOut(t *testing.T) {
	opts := with(func(o *Options) { o.FetchTimeout = 80 * time.Millisecond })
	for name, handler := range map[string]http.HandlerFunc{
		"no header": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"no end of the body": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, someRules)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"slow redirects": func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(30 * time.Millisecond)
			http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := fetchFrom(t, opts, serve(t, handler))
			if got.Meaning != MeansUnreachable || got.Cause != "timed out after 80ms" {
				t.Errorf("got %+v", got)
			}
		})
	}
	t.Run("whoever ends it says nothing about the origin", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		address := serve(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
		if got, err := newFetcher(Defaults()).Fetch(ctx, Request{Origin: originOf(t, address)}); err != context.Canceled {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// A fetch does not wait for a short body that never comes.
func TestFetchDoesNotWaitForUnneededBodies(t *testing.T) {
	opts := with(func(o *Options) { o.FetchTimeout = time.Minute })
	for _, test := range []struct {
		name   string
		status int
		want   Meaning
	}{
		{"404", 404, MeansNoFile},
		{"redirects", 302, MeansFile},
	} {
		t.Run(test.name, func(t *testing.T) {
			begun := time.Now()
			got := fetchFrom(t, opts, serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txtxxxxx" {
					io.WriteString(w, someRules)
					return
				}
				w.Header().Set("Content-Length", "10")
				w.Header().Set("Location", r.URL.Path+"x")
				w.WriteHeader(test.status)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}))
			if took := time.Since(begun); got.Meaning != test.want || took > opts.FetchTimeout {
				t.Errorf("got %s (%s) after %v", got.Meaning, got.Cause, took)
			}
		})
	}
}

func TestFetchWithoutAConnection(t *testing.T) {
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	plain := serve(t, http.NotFound)
	for _, test := range []struct{ address, cause string }{
		{"http://127.0.0.1:1", "connection refused"},
		{untrusted.URL, "certificate not trusted: x509: certificate signed by unknown authority"},
		{strings.Replace(plain, "http:", "https:", 1), "first record does not look like a TLS handshake"},
	} {
		got := fetchFrom(t, Defaults(), test.address)
		if got.Meaning != MeansUnreachable || !strings.Contains(got.Cause, test.cause) {
			t.Errorf("%s: got %+v, want %q", test.address, got, test.cause)
		}
	}
}

// A test must not rely on a name server.
func TestCauseOfALookup(t *testing.T) {
	for _, test := range []struct {
		err  net.DNSError
		want string
	}{
		{net.DNSError{Err: "no such host", Name: "nowhere.example", IsNotFound: true}, "no such host"},
		{net.DNSError{Err: "server misbehaving", Name: "nowhere.example", Server: "10.0.0.1:53"}, "the name could not be looked up"},
	} {
		err := fmt.Errorf("getting it: %w", &net.OpError{Op: "dial", Net: "tcp", Err: &test.err})
		if got := causeOf(err); got != test.want {
			t.Errorf("%v: %q, want %q", err, got, test.want)
		}
	}
}

func TestSoft5xx(t *testing.T) {
	soft := with(func(o *Options) { o.Soft5xx = true })
	for _, test := range []struct {
		name                   string
		opts                   Options
		robots, missing, front int
		want                   Meaning
	}{
		{"off", Defaults(), 500, 500, 200, MeansUnreachable},
		{"any missing page", soft, 500, 503, 200, MeansNoFile},
		{"missing pages are 404", soft, 500, 404, 200, MeansUnreachable},
		{"all is down", soft, 503, 503, 503, MeansUnreachable},
		{"not for 429", soft, 429, 500, 200, MeansBadRequest},
		{"not asked for a text", soft, 200, 500, 200, MeansFile},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := fetchFrom(t, test.opts, serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/robots.txt":
					w.WriteHeader(test.robots)
				case "/":
					w.WriteHeader(test.front)
				default:
					w.WriteHeader(test.missing)
				}
			}))
			if got.Meaning != test.want || got.Status != test.robots {
				t.Errorf("got %+v, want %s", got, test.want)
			}
		})
	}
}

func TestCauseIsBounded(t *testing.T) {
	if got := causeOf(fmt.Errorf("%s", strings.Repeat("ü", 500))); len(got) > maxCause+len("…") {
		t.Errorf("%d octets", len(got))
	}
}

func TestFetchWithLongHeader(t *testing.T) {
	for size, want := range map[int]Meaning{50 << 10: MeansFile, 70 << 10: MeansUnreachable} {
		got := fetchFrom(t, Defaults(), serve(t, func(w http.ResponseWriter, r *http.Request) {
			for i := range size >> 10 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1<<10))
			}
			io.WriteString(w, someRules)
		}))
		if got.Meaning != want {
			t.Errorf("%d octets: %s %s, want %s", size, got.Meaning, got.Cause, want)
		}
	}
}
