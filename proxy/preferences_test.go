package proxy_test

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/opaque"
	"robotsproxy/robots/preference"
)

// What a site says about use decides on tunnels like rules do.
func TestPreferencesOfTunnels(t *testing.T) {
	bot := identity.Identity{ProductTokens: []string{"MyBot"}, Purposes: []preference.Purpose{preference.AITrain}}
	byAddress := identity.Entry{Name: "a", Match: identity.Match{Clients: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, Identity: bot}
	quiet := byAddress
	quiet.Purposes = nil
	const (
		none = "User-agent: *\nContent-Signal: ai-train=no\n"
		part = "User-agent: *\nContent-Signal: /a ai-train=no\n"
		all  = "User-agent: *\nAllow: /\n"
	)
	lines := []preference.Source{preference.ContentSignal, preference.ContentUsage}
	every := gate.DefaultPreferences().Sources
	for name, test := range map[string]struct {
		robots  string
		entries []identity.Entry
		def     identity.Identity
		mode    identity.Mode
		tunnels opaque.Mode
		mixed   opaque.Mixed
		sources []preference.Source
		refuse  bool // responses
		want    string
	}{
		"enforced, nothing refused":        {robots: all, entries: []identity.Entry{byAddress}, mode: identity.Enforce, tunnels: opaque.WhenNeeded, sources: lines, want: joined},
		"enforced, everything refused":     {robots: none, entries: []identity.Entry{byAddress}, mode: identity.Enforce, tunnels: opaque.WhenNeeded, sources: lines, want: refused},
		"enforced, a part refused":         {robots: part, entries: []identity.Entry{byAddress}, mode: identity.Enforce, tunnels: opaque.WhenNeeded, sources: lines, want: read},
		"reported, a part refused":         {robots: part, entries: []identity.Entry{byAddress}, mode: identity.Report, tunnels: opaque.WhenNeeded, sources: lines, want: read},
		"reported, everything refused":     {robots: none, entries: []identity.Entry{byAddress}, mode: identity.Report, tunnels: opaque.WhenNeeded, sources: lines, want: joined},
		"responses are looked at":          {robots: all, entries: []identity.Entry{byAddress}, mode: identity.Report, tunnels: opaque.WhenNeeded, sources: every, want: read},
		"off":                              {robots: none, entries: []identity.Entry{byAddress}, mode: identity.Off, tunnels: opaque.WhenNeeded, sources: every, want: joined},
		"without purposes":                 {robots: none, entries: []identity.Entry{quiet}, mode: identity.Enforce, tunnels: opaque.WhenNeeded, sources: every, want: joined},
		"some bot declares purposes":       {robots: none, def: bot, mode: identity.Enforce, tunnels: opaque.WhenNeeded, sources: lines, want: read},
		"some bot declares them, in vain":  {robots: allowsNone, def: bot, mode: identity.Enforce, tunnels: opaque.WhenNeeded, sources: every, want: refused},
		"never read, everything refused":   {robots: none, def: bot, mode: identity.Enforce, tunnels: opaque.Never, mixed: opaque.AllowMixed, sources: every, want: refused},
		"never read, a part refused":       {robots: part, def: bot, mode: identity.Enforce, tunnels: opaque.Never, mixed: opaque.RefuseMixed, sources: every, want: refused},
		"never read, a part let through":   {robots: part, def: bot, mode: identity.Enforce, tunnels: opaque.Never, mixed: opaque.AllowMixed, sources: every, want: joined},
		"never read, a part reported":      {robots: part, def: bot, mode: identity.Report, tunnels: opaque.Never, mixed: opaque.RefuseMixed, sources: every, want: joined},
		"never read, responses recorded":   {robots: all, def: bot, mode: identity.Enforce, tunnels: opaque.Never, mixed: opaque.RefuseMixed, sources: every, want: joined},
		"never read, responses refused":    {robots: all, def: bot, mode: identity.Enforce, tunnels: opaque.Never, mixed: opaque.RefuseMixed, sources: every, refuse: true, want: refused},
		"never read, responses not wanted": {robots: all, def: bot, mode: identity.Enforce, tunnels: opaque.Never, mixed: opaque.AllowMixed, sources: every, refuse: true, want: joined},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *settings) {
				s.policies = newSays(test.robots)
				s.tunnels.Mode, s.tunnels.Mixed = test.tunnels, test.mixed
				s.gate.Identities = identity.Table{Entries: test.entries, Default: test.def}
				s.gate.Preferences = gate.Preferences{Mode: test.mode, Sources: test.sources}
				if test.refuse {
					s.gate.Preferences.Response = gate.Refuse
				}
			})
			if got := tunnelled(w, w.origin("https", nil), "User-Agent: MyBot\r\n"); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			if test.mode == identity.Report && test.want == joined {
				w.log.WaitLine(t, nil, `"method":"CONNECT"`, `"would_refuse":true`, `"status":200`)
			}
		})
	}
}

// responseWorld is a proxy that refuses responses for what they say, before an origin whose
// pages have the header fields and the status that their query names.
func responseWorld(t *testing.T, preferences gate.Preferences, scheme string) (*world, *origin, chan struct{}) {
	w := newWorld(t, func(s *settings) {
		s.policies = newSays(allowsAll)
		s.gate.Identities.Default = identity.Identity{ProductTokens: []string{"MyBot"}, Purposes: []preference.Purpose{preference.AITrain}}
		s.gate.Preferences = preferences
	})
	left := make(chan struct{}, 100)
	o := w.origin(scheme, func(rw http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{"noai": "noai", "other": "otherbot: noai", "mine": "mybot: noimageai"} {
			if r.URL.Query().Has(name) {
				rw.Header().Set("X-Robots-Tag", value)
			}
		}
		switch r.URL.Path {
		case "/304":
			rw.WriteHeader(http.StatusNotModified)
		case "/404":
			http.NotFound(rw, r)
		case "/206":
			rw.Header().Set("Content-Range", "bytes 0-3/100")
			rw.WriteHeader(http.StatusPartialContent)
			io.WriteString(rw, "page")
		case "/302":
			http.Redirect(rw, r, "/", http.StatusFound)
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := io.WriteString(rw, strings.Repeat("page", 1000)); err != nil {
					break
				}
				http.NewResponseController(rw).Flush()
			}
			left <- struct{}{}
		case "/trailer":
			rw.Header().Set("Trailer", "X-Robots-Tag")
			io.WriteString(rw, "page")
			rw.Header().Set("X-Robots-Tag", "noai")
		default:
			io.Copy(io.Discard, r.Body)
			io.WriteString(rw, "page")
		}
	})
	return w, o, left
}

// A response that refuses the declared use is not handed over: the client gets 403, and the
// connection to the origin is closed.
func TestResponsesAreRefused(t *testing.T) {
	refuse := gate.Preferences{Mode: identity.Enforce, Sources: []preference.Source{preference.Response}, Response: gate.Refuse}
	for _, version := range []string{"http/1.1", "h2"} {
		w, o, left := responseWorld(t, refuse, "https")
		client := w.client(version)
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		for _, test := range []struct {
			method, path, body string
			want               int
		}{
			{"GET", "/", "", 200},
			{"GET", "/?other", "", 200},
			{"GET", "/?noai", "", 403},
			{"GET", "/?mine", "", 403},
			{"HEAD", "/?noai", "", 403},
			{"POST", "/?noai", "some text", 403},
			{"GET", "/304?noai", "", 403},
			{"GET", "/206?noai", "", 403},
			{"GET", "/endless?noai", "", 403},
			{"GET", "/404?noai", "", 404},
			{"GET", "/302?noai", "", 302},
			{"GET", "/trailer", "", 200},
		} {
			r, err := http.NewRequest(test.method, o.URL+test.path, strings.NewReader(test.body))
			must(t, err)
			resp, err := client.Do(r)
			must(t, err)
			body, err := io.ReadAll(resp.Body)
			must(t, err)
			resp.Body.Close()
			if resp.StatusCode != test.want {
				t.Errorf("%s, %s %s: %s, want %d", version, test.method, test.path, resp.Status, test.want)
			}
			if test.want != 403 {
				continue
			}
			if (string(body) == "") != (test.method == "HEAD") || strings.Contains(string(body), "page") || resp.Header.Get("X-Robots-Tag") != "" || !strings.Contains(resp.Header.Get("Proxy-Status"), `details="response: x-robots-tag: no`) {
				t.Errorf("%s, %s %s: %v: %.100s", version, test.method, test.path, resp.Header, body)
			}
			w.log.WaitLine(t, nil, `"message":"request"`, `"method":"`+test.method+`"`, o.URL+test.path, `"verdict":"disallowed","reason":"preference"`, `"preference":"response: x-robots-tag: no`, `"status":403`)
		}
		<-left // the proxy has not read the endless page
	}
}

func TestResponsesAreRecorded(t *testing.T) {
	for mode, want := range map[identity.Mode]string{identity.Enforce: `"preference":"response: x-robots-tag: noai","status":200`, identity.Report: `"preference":"response: x-robots-tag: noai","would_refuse":true,"status":200`} {
		w, o, _ := responseWorld(t, gate.Preferences{Mode: mode, Sources: []preference.Source{preference.Response}, Response: gate.Record}, "http")
		resp, err := w.client("http/1.1").Get(o.URL + "/?noai")
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != 200 || string(body) != "page" {
			t.Errorf("mode %s: %s: %s", mode, resp.Status, body)
		}
		w.log.WaitLine(t, nil, `"message":"request"`, `"verdict":"allowed"`, want)
	}
}

// A switch to another protocol is refused like a page, and nothing of the protocol arrives.
func TestWebSocketIsRefusedByItsResponse(t *testing.T) {
	w := newWorld(t, func(s *settings) {
		s.policies = newSays(allowsAll)
		s.gate.Identities.Default = identity.Identity{Purposes: []preference.Purpose{preference.AITrain}}
		s.gate.Preferences = gate.Preferences{Mode: identity.Enforce, Sources: []preference.Source{preference.Response}, Response: gate.Refuse}
	})
	o := w.origin("http", func(rw http.ResponseWriter, r *http.Request) {
		conn, buf, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		buf.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nTdm-Reservation: 1\r\n\r\nfirst frame")
		buf.Flush()
		io.Copy(io.Discard, conn) // until the proxy closes the connection
	})
	r, err := http.NewRequest(http.MethodGet, o.URL+"/socket", nil)
	must(t, err)
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Sec-Websocket-Version": {"13"}}
	resp, err := w.client("http/1.1").Do(r)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	if resp.StatusCode != 403 || strings.Contains(string(body), "first frame") || !strings.Contains(string(body), "response: tdm-reservation: 1") {
		t.Errorf("%s: %s", resp.Status, body)
	}
}

// What a site does to requests that its robots.txt allows is in the log and counted.
func TestEdges(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.policies = newSays("User-agent: *\nDisallow: /no\n") })
	o := w.origin("http", func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/challenge" {
			rw.Header().Set("Cf-Mitigated", "challenge")
			rw.WriteHeader(http.StatusForbidden)
			return
		}
		rw.Header().Set("Crawler-Price", "USD 0.01\u202e"+strings.Repeat("9", 200))
		status := map[string]int{"/401": 401, "/402": 402, "/403": 403, "/429": 429, "/404": 404, "/503": 503}[r.URL.Path]
		rw.WriteHeader(status)
	})
	for path, want := range map[string]string{
		"/challenge": `"edge":"challenged","status":403`,
		"/401":       `"edge":"refused","status":401`,
		"/403":       `"edge":"refused","status":403`,
		"/429":       `"edge":"refused","status":429`,
		"/402":       `"edge":"priced","price":"USD 0.01`,
		"/404":       `"status":404`,
		"/503":       `"status":503`,
		"/no":        `"status":403`,
	} {
		resp, err := w.client("http/1.1").Get(o.URL + path)
		must(t, err)
		resp.Body.Close()
		line := w.log.WaitLine(t, nil, `"message":"request"`, o.URL+path+`"`, want)
		if strings.Contains(line, `"edge"`) != strings.Contains(want, `"edge"`) {
			t.Errorf("%s: %s", path, line)
		}
		if len(line) > 700 || strings.ContainsRune(line, '\u202e') {
			t.Errorf("%s: %s", path, line)
		}
	}
	must(t, testutil.GatherAndCompare(w.metrics, strings.NewReader(`
# HELP robotsproxy_edge_total Requests that robots.txt allows and the origin turned away: by a challenge, by 401, 403 or 429 (refused), or by 402 (priced).
# TYPE robotsproxy_edge_total counter
robotsproxy_edge_total{edge="challenged",identity="default"} 1
robotsproxy_edge_total{edge="priced",identity="default"} 1
robotsproxy_edge_total{edge="refused",identity="default"} 3
`), "robotsproxy_edge_total"))
}
