package policy

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

	"robotsproxy/robots"
	"robotsproxy/robots/store"
)

const someRules = "User-agent: *\nDisallow: /private/\n"

// ownName is the User-Agent of fetches for which the operator names none.
const ownName = "robotsproxy/1.0"

// newFetcher makes a fetcher that dials for each request, so that the servers of
// tests can be closed.
func newFetcher(opts Options) *fetcher {
	return &fetcher{
		opts:      &opts,
		transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true},
		userAgent: ownName,
	}
}

func originOf(t testing.TB, address string) robots.Origin {
	t.Helper()
	origin, err := robots.ParseOrigin(address)
	if err != nil {
		t.Fatal(err)
	}
	return origin
}

func fetchFrom(t *testing.T, opts Options, address string) result {
	t.Helper()
	got, err := newFetcher(opts).fetch(t.Context(), originOf(t, address), Sender{UserAgent: "ExampleBot/1.0"}, store.Record{})
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

// serveRaw starts an origin that answers each connection with these octets
// and closes it.
func serveRaw(t *testing.T, response string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Read(make([]byte, 4096))
			io.WriteString(conn, response)
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-ended })
	return "http://" + l.Addr().String()
}

func TestFetchByStatus(t *testing.T) {
	mapped := with(func(o *Options) {
		o.Statuses = map[int]Meaning{429: MeansUnreachable, 403: MeansDisallow, 500: MeansAllow, 302: MeansDisallow}
	})
	for _, test := range []struct {
		opts    Options
		status  int
		outcome Outcome
		cause   string
	}{
		{Defaults(), 200, Rules, ""},
		{Defaults(), 203, Rules, ""},
		{Defaults(), 206, Rules, ""},
		{Defaults(), 300, Unavailable, "a redirect to nowhere"},
		{Defaults(), 302, Unavailable, "a redirect to nowhere"},
		{Defaults(), 304, Unavailable, "a redirect to nowhere"},
		{Defaults(), 305, Unavailable, "a redirect to nowhere"},
		{Defaults(), 306, Unavailable, "a redirect to nowhere"},
		{Defaults(), 399, Unavailable, "a redirect to nowhere"},
		{Defaults(), 400, Unavailable, ""},
		{Defaults(), 401, Unavailable, ""},
		{Defaults(), 404, Unavailable, ""},
		{Defaults(), 429, Unavailable, ""},
		{Defaults(), 499, Unavailable, ""},
		{Defaults(), 500, Unreachable, "500 Internal Server Error"},
		{Defaults(), 503, Unreachable, "503 Service Unavailable"},
		{Defaults(), 599, Unreachable, "599"},
		{Defaults(), 600, Unreachable, "600"},
		{Defaults(), 999, Unreachable, "999"},
		{mapped, 429, Unreachable, "429 Too Many Requests"},
		{mapped, 403, Status, ""},
		{mapped, 500, Status, ""},
		{mapped, 302, Status, ""},
		{mapped, 404, Unavailable, ""},
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
			if got.outcome != test.outcome || got.cause != test.cause || got.status != test.status {
				t.Errorf("got %+v, want %s because of %q", got, test.outcome, test.cause)
			}
			if got.answered != (test.outcome != Unreachable) {
				t.Errorf("answered: %v", got.answered)
			}
			if isText := string(got.body) == someRules; isText != (test.outcome == Rules) {
				t.Errorf("body %q", got.body)
			}
		})
	}
	t.Run("204", func(t *testing.T) {
		got := fetchFrom(t, Defaults(), serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(204)
		}))
		if got.outcome != Rules || len(got.body) != 0 || got.sha256 == "" {
			t.Errorf("got %+v, want an empty text", got)
		}
	})
}

// A nameSite answers by the User-Agent; those that it does not know get the status
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

// A fetch has the User-Agent that the operator wrote. Others count only where a site
// turns that away.
func TestUserAgentsOfAFetch(t *testing.T) {
	type answers = map[string]int
	client := Sender{ClientAgent: "ClientBot/1.0"}
	known := answered(200)
	knownByName := known
	knownByName.UserAgent = "EarlierBot/1.0"
	const earlier = "EarlierBot/1.0"
	for _, test := range []struct {
		name      string
		by        Sender
		known     store.Record
		answers   answers
		otherwise int
		asked     []string
		outcome   Outcome
		status    int
	}{
		{"the program's own name", client, store.Record{}, nil, 200, []string{ownName}, Rules, 200},
		{"the identity's", Sender{UserAgent: "OperatorBot/1.0", From: "bot@example.org", ClientAgent: "x"}, store.Record{}, nil, 200,
			[]string{"OperatorBot/1.0 bot@example.org"}, Rules, 200},

		{"unknown names are turned away", client, store.Record{}, answers{client.ClientAgent: 200}, 403, []string{ownName, client.ClientAgent}, Rules, 200},
		{"with 429", client, store.Record{}, answers{client.ClientAgent: 200}, 429, []string{ownName, client.ClientAgent}, Rules, 200},
		{"the client's too", client, store.Record{}, nil, 403, []string{ownName, client.ClientAgent}, Unavailable, 403},
		{"the client's otherwise", client, store.Record{}, answers{client.ClientAgent: 404}, 401, []string{ownName, client.ClientAgent}, Unavailable, 401},
		{"the client's fails", client, store.Record{}, answers{client.ClientAgent: 500}, 403, []string{ownName, client.ClientAgent}, Unavailable, 403},
		{"the client's gets no answer", client, store.Record{}, answers{client.ClientAgent: 0}, 403, []string{ownName, client.ClientAgent}, Unavailable, 403},
		{"there is none", client, store.Record{}, nil, 404, []string{ownName}, Unavailable, 404},
		{"there is none any more", client, store.Record{}, nil, 410, []string{ownName}, Unavailable, 410},
		{"failures are for all", client, store.Record{}, answers{client.ClientAgent: 200}, 503, []string{ownName}, Unreachable, 503},
		{"the operator names the identity, whatever the client says", Sender{UserAgent: "OperatorBot/1.0", ClientAgent: "ClientBot/1.0"}, store.Record{},
			answers{client.ClientAgent: 200}, 403, []string{"OperatorBot/1.0", ownName}, Unavailable, 403},
		{"the identity alone is turned away", Sender{UserAgent: "OperatorBot/1.0"}, store.Record{}, answers{ownName: 200}, 403, []string{"OperatorBot/1.0", ownName}, Rules, 200},
		{"the identity is turned away, the program fails", Sender{UserAgent: "OperatorBot/1.0"}, store.Record{}, answers{ownName: 503}, 403,
			[]string{"OperatorBot/1.0", ownName}, Unavailable, 403},
		{"a From of the operator's", Sender{From: "bot@example.org", ClientAgent: "ClientBot/1.0"}, store.Record{}, nil, 403,
			[]string{ownName + " bot@example.org", "ClientBot/1.0 bot@example.org"}, Unavailable, 403},
		{"a client without a name", Sender{}, store.Record{}, nil, 403, []string{ownName}, Unavailable, 403},
		{"one with the program's name", Sender{ClientAgent: ownName}, store.Record{}, nil, 403, []string{ownName}, Unavailable, 403},
		{"a name as long as may be", Sender{ClientAgent: strings.Repeat("x", 512)}, store.Record{}, nil, 403, []string{ownName, strings.Repeat("x", 512)}, Unavailable, 403},
		{"a longer one", Sender{ClientAgent: strings.Repeat("x", 513)}, store.Record{}, nil, 403, []string{ownName}, Unavailable, 403},
		{"one with control characters", Sender{ClientAgent: "a\x1b[1m"}, store.Record{}, nil, 403, []string{ownName}, Unavailable, 403},
		{"one outside ASCII", Sender{ClientAgent: "Bötchen/1.0"}, store.Record{}, nil, 403, []string{ownName}, Unavailable, 403},

		{"who got the text is asked for", client, knownByName, answers{earlier: 200, client.ClientAgent: 200}, 403, []string{ownName, earlier}, Rules, 200},
		{"and is turned away", client, knownByName, answers{client.ClientAgent: 200}, 403, []string{ownName, earlier, client.ClientAgent}, Rules, 200},
		{"as all are", client, knownByName, nil, 403, []string{ownName, earlier, client.ClientAgent}, Unavailable, 403},
		{"and finds none any more", client, knownByName, answers{earlier: 404}, 403, []string{ownName, earlier}, Unavailable, 404},
		{"and fails", client, knownByName, answers{earlier: 503}, 403, []string{ownName, earlier}, Unreachable, 503},
		{"and gets no answer", client, knownByName, answers{earlier: 0}, 403, []string{ownName, earlier}, Unreachable, 0},
		{"and is the client", Sender{ClientAgent: earlier}, knownByName, nil, 403, []string{ownName, earlier}, Unavailable, 403},
		{"the program itself got the text", Sender{UserAgent: "OperatorBot/1.0"}, known, answers{ownName: 200}, 403, []string{"OperatorBot/1.0", ownName}, Rules, 200},

		{"a text is not given up for 429", client, known, answers{client.ClientAgent: 200}, 429, []string{ownName}, Unreachable, 429},
		{"nor for 400", client, known, answers{client.ClientAgent: 200}, 400, []string{ownName}, Unreachable, 400},
		{"nor for 414", client, known, answers{client.ClientAgent: 200}, 414, []string{ownName}, Unreachable, 414},
		{"nor for 431", client, known, answers{client.ClientAgent: 200}, 431, []string{ownName}, Unreachable, 431},
		{"nor where the earlier name gets that", client, knownByName, answers{earlier: 429, client.ClientAgent: 200}, 403, []string{ownName, earlier}, Unreachable, 429},
		{"but for 403", client, known, nil, 403, []string{ownName, client.ClientAgent}, Unavailable, 403},
		{"431 where no text is known", client, answered(404), nil, 431, []string{ownName, client.ClientAgent}, Unavailable, 431},
	} {
		t.Run(test.name, func(t *testing.T) {
			site := &nameSite{answers: test.answers, otherwise: test.otherwise}
			got, err := newFetcher(Defaults()).fetch(t.Context(), originOf(t, serve(t, site.ServeHTTP)), test.by, test.known)
			if err != nil || got.outcome != test.outcome || got.status != test.status || got.answered != (test.outcome != Unreachable) {
				t.Errorf("got %+v, %v; want %s with status %d", got, err, test.outcome, test.status)
			}
			if asked := site.asked(); !slices.Equal(asked, test.asked) {
				t.Errorf("asked by %q, want %q", asked, test.asked)
			}
			if last := test.asked[len(test.asked)-1]; test.outcome == Rules && cmp.Or(got.userAgent, ownName) != strings.TrimSuffix(last, " bot@example.org") {
				t.Errorf("the text is said to be got by %q", got.userAgent)
			}
		})
	}
	t.Run("what the operator means by a status is final", func(t *testing.T) {
		for meaning, outcome := range map[Meaning]Outcome{MeansUnreachable: Unreachable, MeansAllow: Status, MeansDisallow: Status} {
			opts := with(func(o *Options) { o.Statuses = map[int]Meaning{429: meaning} })
			site := &nameSite{otherwise: 429}
			got, err := newFetcher(opts).fetch(t.Context(), originOf(t, serve(t, site.ServeHTTP)), client, known)
			if err != nil || got.outcome != outcome || len(site.asked()) != 1 {
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
		outcome Outcome
		answer  string // body or cause
	}{
		{"one", map[string]string{"/robots.txt": "/a"}, 301, Rules, "end /a"},
		{"other origin", map[string]string{"/robots.txt": elsewhere + "/b#c"}, 302, Rules, "Disallow: /b"},
		{"user name left out", map[string]string{"/robots.txt": strings.Replace(elsewhere, "//", "//me:secret@", 1) + "/b"}, 302, Rules, "Disallow: /b"},
		{"of no kind that is known", map[string]string{"/robots.txt": "/a"}, 399, Rules, "end /a"},
		{"choices", map[string]string{"/robots.txt": "/a"}, 300, Rules, "end /a"},
		{"relative", map[string]string{"/robots.txt": "x/y", "/x/y": "../z?q"}, 307, Rules, "end /z?q"},
		{"five", map[string]string{"/robots.txt": "/1", "/1": "/2", "/2": "/3", "/3": "/4", "/4": "/5"}, 308, Rules, "end /5"},
		{"six", map[string]string{"/robots.txt": "/1", "/1": "/2", "/2": "/3", "/3": "/4", "/4": "/5", "/5": "/6"}, 303, Unavailable, "more than 5 redirects"},
		{"to itself", map[string]string{"/robots.txt": "/robots.txt"}, 301, Unavailable, "redirects in a loop"},
		{"loop", map[string]string{"/robots.txt": "/1", "/1": "/2", "/2": "/1"}, 301, Unavailable, "redirects in a loop"},
		{"other scheme", map[string]string{"/robots.txt": "ftp://example.com/robots.txt"}, 301, Unavailable, "a redirect to what is no web address"},
		{"no address", map[string]string{"/robots.txt": "http://[::1/"}, 301, Unavailable, "a redirect to what is no web address"},
		{"no host", map[string]string{"/robots.txt": "http:///robots.txt"}, 301, Unavailable, "a redirect to what is no web address"},
		{"long", map[string]string{"/robots.txt": "/" + strings.Repeat("x", maxLocation-1)}, 301, Rules, "end /" + strings.Repeat("x", maxLocation-1)},
		{"too long", map[string]string{"/robots.txt": "/" + strings.Repeat("x", maxLocation)}, 301, Unavailable, "a redirect to an address of more than 8192 octets"},
		{"dead end", map[string]string{"/robots.txt": "http://127.0.0.1:1/"}, 301, Unreachable, "connection refused"},
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
			answer := string(got.body) + got.cause
			if got.outcome != test.outcome || answer != test.answer {
				t.Errorf("got %s and %q, want %s and %q", got.outcome, answer, test.outcome, test.answer)
			}
			if got.outcome == Unavailable && got.status != test.status {
				t.Errorf("status %d, want that of the last redirect", got.status)
			}
		})
	}
	t.Run("none wanted", func(t *testing.T) {
		none := with(func(o *Options) { o.MaxRedirects = 0 })
		got := fetchFrom(t, none, serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/a", http.StatusFound)
		}))
		if got.outcome != Unavailable || got.cause != "more than 0 redirects" {
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
			if got.outcome != Unreachable || got.answered || !strings.Contains(got.cause, test.cause) || len(got.body) > 0 {
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
		if got.outcome != Unreachable || got.cause != "101 Switching Protocols" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("404 with a body cut short", func(t *testing.T) {
		got := fetchFrom(t, Defaults(), serveRaw(t, "HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\nno"))
		if got.outcome != Unavailable {
			t.Errorf("got %+v: the status says all", got)
		}
	})
	t.Run("no encoding at all", func(t *testing.T) {
		got := fetchFrom(t, Defaults(), serveRaw(t, "HTTP/1.1 200 OK\r\nContent-Encoding: UTF-8\r\n\r\n"+someRules))
		if got.outcome != Rules || string(got.body) != someRules {
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
			if got.outcome != Rules || string(got.body) != test.want {
				t.Errorf("got %s (%s) and %q, want %q", got.outcome, got.cause, got.body, test.want)
			}
			if cap(got.body) > len(got.body)+64 {
				t.Errorf("room for %d octets is held for %d", cap(got.body), len(got.body))
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
		if got.outcome != Rules || string(got.body) != line+line {
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
			f := &fetcher{opts: &opts, transport: gzipFrom{io.MultiReader(bytes.NewReader(test.first), body)}, userAgent: ownName}
			got, err := f.fetch(t.Context(), exampleOrg, Sender{}, store.Record{})
			if err != nil || got.outcome != Unreachable || !strings.Contains(got.cause, "gzip") {
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
	f := &fetcher{opts: &opts, transport: gzipFrom{&b}, userAgent: ownName}
	if got, err := f.fetch(t.Context(), exampleOrg, Sender{}, store.Record{}); err != nil || !bytes.Equal(got.body, text) {
		t.Errorf("%d octets, %s, %v", len(got.body), got.cause, err)
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
			if got.outcome != Unreachable || got.cause != "timed out after 80ms" {
				t.Errorf("got %+v", got)
			}
		})
	}
	t.Run("whoever ends it says nothing about the origin", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		address := serve(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
		if got, err := newFetcher(Defaults()).fetch(ctx, originOf(t, address), Sender{}, store.Record{}); err != context.Canceled {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// A fetch does not wait for a short body that does not come.
func TestFetchDoesNotWaitForUnneededBodies(t *testing.T) {
	opts := with(func(o *Options) { o.FetchTimeout = time.Minute })
	for _, test := range []struct {
		name   string
		status int
		want   Outcome
	}{
		{"404", 404, Unavailable},
		{"redirects", 302, Rules},
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
			if took := time.Since(begun); got.outcome != test.want || took > opts.FetchTimeout {
				t.Errorf("got %s (%s) after %v", got.outcome, got.cause, took)
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
		if got.outcome != Unreachable || !strings.Contains(got.cause, test.cause) {
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
		want                   Outcome
	}{
		{"off", Defaults(), 500, 500, 200, Unreachable},
		{"any missing page", soft, 500, 503, 200, Unavailable},
		{"missing pages are 404", soft, 500, 404, 200, Unreachable},
		{"all is down", soft, 503, 503, 503, Unreachable},
		{"not for 429", soft, 429, 500, 200, Unavailable},
		{"not asked for a text", soft, 200, 500, 200, Rules},
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
			if got.outcome != test.want || got.status != test.robots {
				t.Errorf("got %+v, want %s", got, test.want)
			}
		})
	}
}

func TestCauseIsBounded(t *testing.T) {
	if got := causeOf(fmt.Errorf("%s", strings.Repeat("ü", 500))); len(got) > maxCause {
		t.Errorf("%d octets", len(got))
	}
}

func TestFetchWithLongHeader(t *testing.T) {
	for size, want := range map[int]Outcome{50 << 10: Rules, 70 << 10: Unreachable} {
		got := fetchFrom(t, Defaults(), serve(t, func(w http.ResponseWriter, r *http.Request) {
			for i := range size >> 10 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1<<10))
			}
			io.WriteString(w, someRules)
		}))
		if got.outcome != want {
			t.Errorf("%d octets: %s %s, want %s", size, got.outcome, got.cause, want)
		}
	}
}
