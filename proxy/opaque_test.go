package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"robotsproxy/internal/conntest"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/opaque"
	"robotsproxy/proxy/override"
	"robotsproxy/robots"
	"robotsproxy/robots/keeper"
	"robotsproxy/robots/policy"
)

// says supplies the policy of a robots.txt that a test may change.
type says struct{ text atomic.Value }

func newSays(text string) *says {
	s := &says{}
	s.text.Store(text)
	return s
}

func (s *says) Policy(context.Context, robots.Origin, keeper.Sender) (*policy.Policy, error) {
	switch text := s.text.Load().(string); text {
	case "404":
		return &policy.Policy{Outcome: policy.Unavailable, AllowAll: true, Status: 404}, nil
	case "panic":
		panic("oh")
	case "503":
		return &policy.Policy{Outcome: policy.Unreachable, Status: 503}, nil
	default:
		return &policy.Policy{Outcome: policy.Rules, File: robots.Parse([]byte(text)), ExpiresAt: time.Now().Add(20 * time.Millisecond)}, nil
	}
}

// These are the outcomes of a CONNECT.
const (
	joined  = "joined"  // client and origin speak to each other
	read    = "read"    // the proxy reads inside
	refused = "refused" // 403, and the origin is not dialled
)

// tunnelled returns the outcome of a CONNECT to an origin, by the certificate that is shown
// inside.
func tunnelled(w *world, o *origin, header string) string {
	w.t.Helper()
	c := w.dial()
	c.send("CONNECT " + o.host() + " HTTP/1.1\r\nHost: " + o.host() + "\r\n" + header + "\r\n")
	resp, err := http.ReadResponse(c.r, &http.Request{Method: http.MethodConnect})
	must(w.t, err)
	if resp.StatusCode != 200 {
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 403 || !strings.Contains(resp.Header.Get("Proxy-Status"), "http_request_denied") {
			w.t.Errorf("CONNECT: %s %s", resp.Status, body)
		}
		return refused
	}
	conn := tls.Client(c, &tls.Config{InsecureSkipVerify: true, ServerName: "127.0.0.1"})
	must(w.t, conn.Handshake())
	defer conn.Close()
	if conn.ConnectionState().PeerCertificates[0].Equal(o.Certificate()) {
		return joined
	}
	return read
}

const (
	allowsAll  = "User-agent: *\nDisallow:\n"
	allowsNone = "User-agent: *\nDisallow: /\n"
	mixed      = "User-agent: *\nDisallow: /private\n"
	botOnly    = "User-agent: *\nDisallow: /\n\nUser-agent: MyBot\nDisallow:\n"
)

func TestTunnelsThatAreNeverRead(t *testing.T) {
	for _, test := range []struct {
		robots, agent string
		mixed         opaque.Mixed
		want          string
	}{
		{allowsAll, "", opaque.RefuseMixed, joined},
		{allowsNone, "", opaque.AllowMixed, refused},
		{mixed, "", opaque.RefuseMixed, refused},
		{mixed, "", "", refused},
		{mixed, "", opaque.AllowMixed, joined},
		{botOnly, "MyBot/1", opaque.RefuseMixed, joined},
		{botOnly, "other", opaque.RefuseMixed, refused},
		{"", "", opaque.RefuseMixed, joined},
		{"404", "", opaque.RefuseMixed, joined},
		{"503", "", opaque.AllowMixed, refused},
	} {
		for _, how := range []string{"mode", "passthrough"} {
			w := newWorld(t, func(s *settings) {
				s.policies = newSays(test.robots)
				s.tunnels.Mixed = test.mixed
				if how == "mode" {
					s.tunnels.Mode = opaque.Never
				} else {
					s.tunnels.Passthrough = hosts([]string{"127.0.0.*"})
				}
			})
			o := w.origin("https", nil)
			if got := tunnelled(w, o, "User-Agent: "+test.agent+"\r\n"); got != test.want {
				t.Errorf("%s, robots.txt %q, mixed %s: %s, want %s", how, test.robots, test.mixed, got, test.want)
			}
			status := map[string]string{joined: `"status":200`, refused: `"status":403`}[test.want]
			w.log.WaitLine(t, nil, `"message":"request"`, `"method":"CONNECT"`, status)
			w.gauge("robotsproxy_tunnels", 0)
		}
	}
}

func TestTunnelsAreReadWhereNeeded(t *testing.T) {
	clients := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	bot := identity.Identity{ProductTokens: []string{"MyBot"}}
	byAddress := identity.Entry{Name: "a", Match: identity.Match{Clients: clients}, Identity: bot}
	var anyAgent identity.Glob
	must(t, anyAgent.UnmarshalText([]byte("x*")))
	byAgent := identity.Entry{Name: "b", Match: identity.Match{UserAgents: []identity.Glob{anyAgent}}, Identity: bot}
	signing := newKeyring(t, 1).signing(0)
	with := func(e identity.Entry, change func(*identity.Entry)) identity.Entry {
		change(&e)
		return e
	}
	for name, test := range map[string]struct {
		robots  string
		entries []identity.Entry
		def     identity.Identity
		want    string
	}{
		"everything for everybody":          {robots: allowsAll, want: joined},
		"no robots.txt":                     {robots: "404", want: joined},
		"unreachable":                       {robots: "503", want: refused},
		"nothing for anybody":               {robots: allowsNone, want: refused},
		"a part":                            {robots: mixed, want: read},
		"differs by bot":                    {robots: botOnly, want: read},
		"the User-Agent is not believed":    {robots: "User-agent: curl\nDisallow: /\n", want: read},
		"a delay for some bot":              {robots: "User-agent: x\nCrawl-delay: 1\n", want: read},
		"some identity rewrites":            {robots: allowsAll, entries: []identity.Entry{with(byAgent, func(e *identity.Entry) { e.UserAgent = "MyBot/1" })}, want: read},
		"the default rewrites":              {robots: allowsAll, def: identity.Identity{From: "a@b"}, want: read},
		"some identity signs":               {robots: allowsAll, entries: []identity.Entry{with(byAgent, func(e *identity.Entry) { e.Signing = signing })}, want: read},
		"some identity signs, in vain":      {robots: allowsNone, entries: []identity.Entry{with(byAgent, func(e *identity.Entry) { e.Signing = signing })}, want: refused},
		"by address, signed":                {robots: botOnly, entries: []identity.Entry{with(byAddress, func(e *identity.Entry) { e.Signing = signing })}, want: read},
		"by address, another bot signs":     {robots: botOnly, entries: []identity.Entry{byAddress, with(byAgent, func(e *identity.Entry) { e.Signing = signing })}, want: joined},
		"some identity is not judged":       {robots: allowsNone, entries: []identity.Entry{with(byAgent, func(e *identity.Entry) { e.Mode = identity.Off })}, want: read},
		"by address, everything":            {robots: botOnly, entries: []identity.Entry{byAddress}, want: joined},
		"by address, nothing":               {robots: "User-agent: MyBot\nDisallow: /\n", entries: []identity.Entry{byAddress}, want: refused},
		"by address, a part":                {robots: "User-agent: MyBot\nDisallow: /x\n", entries: []identity.Entry{byAddress}, want: read},
		"by address, a delay":               {robots: "User-agent: MyBot\nCrawl-delay: 1\n", entries: []identity.Entry{byAddress}, want: read},
		"by address, another bot's delay":   {robots: "User-agent: x\nCrawl-delay: 1\n", entries: []identity.Entry{byAddress}, want: joined},
		"by address, rewritten":             {robots: botOnly, entries: []identity.Entry{with(byAddress, func(e *identity.Entry) { e.UserAgent = "MyBot/1" })}, want: read},
		"by address, without a name":        {robots: botOnly, entries: []identity.Entry{with(byAddress, func(e *identity.Entry) { e.ProductTokens = nil })}, want: read},
		"by address, but an agent before":   {robots: botOnly, entries: []identity.Entry{byAgent, byAddress}, want: read},
		"by address, then an agent":         {robots: botOnly, entries: []identity.Entry{byAddress, byAgent}, want: joined},
		"by address, reported":              {robots: allowsNone, entries: []identity.Entry{with(byAddress, func(e *identity.Entry) { e.Mode = identity.Report })}, want: joined},
		"by address, off":                   {robots: allowsNone, entries: []identity.Entry{with(byAddress, func(e *identity.Entry) { e.Mode = identity.Off })}, want: joined},
		"the default's name is not certain": {robots: botOnly, def: bot, want: read},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *settings) {
				s.policies = newSays(test.robots)
				s.tunnels.Mode = opaque.WhenNeeded
				s.gate.Identities = identity.Table{Entries: test.entries, Default: test.def}
			})
			if got := tunnelled(w, w.origin("https", nil), ""); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// Opaque tunnels are judged by the user of the CONNECT too.
func TestTunnelByUser(t *testing.T) {
	w := newWorld(t, func(s *settings) {
		s.policies = newSays(botOnly)
		s.tunnels.Mode = opaque.WhenNeeded
		s.gate.Identities.Entries = []identity.Entry{{Name: "a", Match: identity.Match{Users: []string{"images"}}, Identity: identity.Identity{ProductTokens: []string{"MyBot"}}}}
	})
	o := w.origin("https", nil)
	if got := tunnelled(w, o, "Proxy-Authorization: Basic aW1hZ2VzOng=\r\n"); got != joined {
		t.Errorf("%s", got)
	}
	if got := tunnelled(w, o, ""); got != read {
		t.Errorf("without a user: %s", got)
	}
}

func unreadWorld(t *testing.T, policies gate.Policies) *world {
	return newWorld(t, func(s *settings) {
		s.policies = policies
		s.tunnels.Mode = opaque.Never
	})
}

// echo is a server that sends back what it receives until its client closes.
func echo(t *testing.T) string {
	return conntest.Serve(t, "127.0.0.1:0", func(conn net.Conn) {
		io.Copy(conn, conn)
		io.WriteString(conn, " end")
	})
}

// One direction may end while the other goes on.
func TestHalfClose(t *testing.T) {
	w := unreadWorld(t, newSays(allowsAll))
	for _, size := range []int{0, 5, 2 << 10, 1 << 20} {
		c := w.tunnel(echo(t))
		want := strings.Repeat("x", size)
		go func() {
			io.WriteString(c.Conn, want)
			c.Conn.(*net.TCPConn).CloseWrite()
		}()
		if got, err := io.ReadAll(c); err != nil || string(got) != want+" end" {
			t.Errorf("%d octets: %d came back, %v", size, len(got), err)
		}
		w.log.WaitLine(t, nil, `"method":"CONNECT"`, fmt.Sprintf(`"bytes":%d`, size+4))
	}
}

// A tunnel is closed when the policy that admitted it has expired and the next one refuses
// it, or the proxy fails to judge it.
func TestTunnelsAreJudgedAgain(t *testing.T) {
	const changed = "has changed"
	for change, why := range map[string]string{allowsNone: changed, mixed: changed, "503": changed, "panic": "failed inside the proxy"} {
		s := newSays(allowsAll)
		w := unreadWorld(t, s)
		c := w.tunnel(echo(t))
		c.send("x")
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		w.gauge("robotsproxy_tunnels", 1)
		s.text.Store(change)
		if rest, _ := io.ReadAll(c); len(rest) != 0 {
			t.Errorf("after robots.txt became %q, the tunnel brought %q", change, rest)
		}
		w.log.WaitLine(t, nil, `"method":"CONNECT"`, why)
		if change == "panic" {
			w.log.WaitLine(t, nil, `"level":"error"`, "please report this", "judgeAgain")
		}
		w.gauge("robotsproxy_tunnels", 0)
	}
}

// A tunnel that an override admits is closed when the override has ended and the site refuses
// the tunnel.
func TestTunnelWhoseOverrideEnds(t *testing.T) {
	w := unreadWorld(t, newSays(allowsNone))
	host := echo(t)
	var c *rawConn
	for life, status := time.Second, 0; status != 200; life *= 2 { // a slow machine needs longer to open the tunnel
		o := override.Override{Verdict: override.Allow}
		must(t, o.Origin.UnmarshalText([]byte("https://"+host)))
		must(t, o.Expires.UnmarshalText([]byte(time.Now().Add(life).Format(time.RFC3339Nano))))
		must(t, w.gate.SetSettings(gate.Settings{Overrides: []override.Override{o}}))
		c = w.dial()
		c.send("CONNECT " + host + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
		resp, _ := c.response(http.MethodConnect)
		status = resp.StatusCode
	}
	c.send("x")
	io.ReadAll(c)
	w.log.WaitLine(t, nil, `"method":"CONNECT"`, `"reason":"override"`, "has changed")
	w.gauge("robotsproxy_tunnels", 0)
}

func TestTunnelToADeniedAddress(t *testing.T) {
	w := newWorld(t, func(s *settings) {
		s.policies = newSays(allowsAll)
		s.tunnels.Mode = opaque.Never
		s.upstream.Deny = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	c := w.dial()
	c.send("CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: 127.0.0.1:443\r\n\r\n")
	if resp, _ := c.response("GET"); shape(resp) != "502 destination_ip_prohibited" {
		t.Errorf("%s", shape(resp))
	}
}

func TestTunnelByAParent(t *testing.T) {
	asked := make(chan string, 100)
	plain := httptest.NewServer(parent(t, asked))
	defer plain.Close()
	secure := httptest.NewTLSServer(parent(t, asked))
	defer secure.Close()
	for _, address := range []string{
		strings.Replace(plain.URL, "://", "://u:p@", 1),
		strings.Replace(secure.URL, "://", "://u:p@", 1),
		"socks5://u:p@" + socks5(t, asked),
	} {
		w := newWorld(t, func(s *settings) {
			s.policies = newSays(allowsAll)
			s.tunnels.Mode = opaque.Never
			s.upstream.Proxy = address
		})
		o := w.origin("https", nil)
		if got := tunnelled(w, o, ""); got != joined {
			t.Errorf("%s: %s", address, got)
		}
		if target := <-asked; target != o.host() {
			t.Errorf("%s: the parent was asked for %s", address, target)
		}
		c := w.dial()
		c.send("CONNECT 169.254.169.254:443 HTTP/1.1\r\nHost: x\r\n\r\n")
		if resp, _ := c.response("GET"); shape(resp) != "502 destination_ip_prohibited" {
			t.Errorf("a denied address: %s", shape(resp))
		}
	}
	w := newWorld(t, func(s *settings) {
		s.policies = newSays(allowsAll)
		s.tunnels.Mode = opaque.Never
		s.upstream.Proxy = plain.URL // without the password
	})
	c := w.dial()
	c.send("CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp, body := c.response("GET"); resp.StatusCode != 502 || !strings.Contains(body, "407") {
		t.Errorf("a parent that refuses: %s %s", resp.Status, body)
	}
}

// Shutdown waits for tunnels to end, and closes those that are left.
func TestTunnelsAreDrained(t *testing.T) {
	w := unreadWorld(t, newSays(allowsAll))
	c, left := w.tunnel(echo(t)), w.tunnel(echo(t))
	for _, c := range []*rawConn{c, left} {
		echoed(t, c)
	}
	stopped := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { stopped <- w.server.Shutdown(ctx) }()
	for {
		if conn, err := net.Dial("tcp", w.addr); err != nil {
			break
		} else {
			conn.Close()
		}
	}
	c.send("late")
	c.Conn.(*net.TCPConn).CloseWrite()
	if got, _ := io.ReadAll(c); string(got) != "late end" {
		t.Errorf("%q", got)
	}
	cancel()
	if rest, _ := io.ReadAll(left); len(rest) != 0 {
		t.Errorf("%q", rest)
	}
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
}

// The server name in a client's TLS chooses among the sites of one server. So a tunnel that
// was judged by another name does not stay opaque.
func TestTunnelsWhoseTLSNamesAnotherServer(t *testing.T) {
	const closed = "closed" // after the CONNECT was let through
	mode := func(m opaque.Mode) func(*settings) {
		return func(s *settings) { s.tunnels.Mode = m }
	}
	passthrough := func(patterns ...string) func(*settings) {
		return func(s *settings) { s.tunnels.Passthrough = hosts(patterns) }
	}
	identityMode := func(m identity.Mode) func(*settings) {
		return func(s *settings) {
			s.tunnels.Mode = opaque.Never
			s.gate.Identities.Default.Mode = m
		}
	}
	for name, test := range map[string]struct {
		change     func(*settings)
		host       string
		serverName string
		want       string
	}{
		"tunnel, the same":                     {mode(opaque.Never), "localhost", "localhost", joined},
		"tunnel, the same in capitals":         {mode(opaque.Never), "localhost", "LOCALHOST", joined},
		"tunnel, none":                         {mode(opaque.Never), "localhost", "", joined},
		"tunnel, none for an address":          {mode(opaque.Never), "127.0.0.1", "", joined},
		"tunnel, another":                      {mode(opaque.Never), "localhost", "example.com", closed},
		"tunnel, a name for an address":        {mode(opaque.Never), "127.0.0.1", "localhost", closed},
		"tunnel, another, reported":            {identityMode(identity.Report), "localhost", "example.com", joined},
		"tunnel, another, not judged":          {identityMode(identity.Off), "localhost", "example.com", joined},
		"when needed, the same":                {mode(opaque.WhenNeeded), "localhost", "localhost", joined},
		"when needed, none":                    {mode(opaque.WhenNeeded), "localhost", "", read},
		"when needed, none for an address":     {mode(opaque.WhenNeeded), "127.0.0.1", "", joined},
		"when needed, another":                 {mode(opaque.WhenNeeded), "localhost", "example.com", read},
		"when needed, a name for an address":   {mode(opaque.WhenNeeded), "127.0.0.1", "localhost", read},
		"passed through, the same":             {passthrough("localhost"), "localhost", "localhost", joined},
		"passed through, none":                 {passthrough("localhost"), "localhost", "", joined},
		"passed through, another":              {passthrough("localhost"), "localhost", "example.com", read},
		"passed through, another such":         {passthrough("localhost", "example.com"), "localhost", "example.com", closed},
		"read, another that is passed through": {passthrough("example.com"), "localhost", "example.com", read},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.change, func(s *settings) {
				s.policies = newSays(allowsAll)
				s.upstream.Insecure = hosts([]string{"localhost"})
			})
			o := w.origin("https", nil)
			_, port, _ := net.SplitHostPort(o.host())
			host := net.JoinHostPort(test.host, port)
			conn := tls.Client(w.tunnel(host), &tls.Config{InsecureSkipVerify: true, ServerName: test.serverName, NextProtos: []string{"http/1.1"}})
			got := closed
			err := conn.Handshake()
			if err == nil {
				got = read
				if conn.ConnectionState().PeerCertificates[0].Equal(o.Certificate()) {
					got = joined
				}
				c := &rawConn{t, conn, bufio.NewReader(conn)}
				c.send("GET /page HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
				if resp, body := c.response(http.MethodGet); resp.StatusCode != 200 || body != "page /page" {
					t.Errorf("in the tunnel: %s, %q", resp.Status, body)
				}
			}
			if got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			switch {
			case got == closed && !strings.Contains(err.Error(), "unrecognized name"):
				t.Errorf("the client's handshake: %v", err)
			case got == closed:
				w.log.WaitLine(t, nil, `"message":"request"`, `"method":"CONNECT"`, `"verdict":"disallowed"`, `"reason":"tunnel"`, `"error":`, test.serverName)
			case strings.HasSuffix(name, "reported"):
				conn.Close()
				w.log.WaitLine(t, nil, `"message":"request"`, `"method":"CONNECT"`, `"verdict":"disallowed"`, `"reason":"tunnel"`, `"error":`, test.serverName)
			case got == read:
				w.log.WaitLine(t, nil, `"message":"request"`, `"method":"GET"`)
				if strings.Contains(w.log.String(), `"method":"CONNECT"`) {
					t.Errorf("a CONNECT whose tunnel is read was logged:\n%s", w.log)
				}
			}
			conn.Close()
			w.gauge("robotsproxy_tunnels", 0)
		})
	}
}

// In mode when_needed, a tunnel without TLS is read.
func TestPlainHTTPInTunnelsThatNeedNotBeRead(t *testing.T) {
	for _, mode := range []opaque.Mode{opaque.WhenNeeded, opaque.Never} {
		w := newWorld(t, func(s *settings) {
			s.policies = newSays(allowsAll)
			s.tunnels.Mode = mode
		})
		o := w.origin("http", nil)
		c := w.tunnel(o.host())
		c.send("GET /page HTTP/1.1\r\nHost: example.com\r\n\r\n")
		resp, _ := c.response(http.MethodGet)
		if want := map[opaque.Mode]int{opaque.WhenNeeded: 421, opaque.Never: 200}[mode]; resp.StatusCode != want {
			t.Errorf("%s: %s", mode, resp.Status)
		}
	}
}

// No client can keep a tunnel open by sending nothing, or only the first octets of a
// ClientHello.
func TestSilenceInUnreadTunnels(t *testing.T) {
	for _, said := range []string{"", "\x16", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"} {
		glass := &hourglass{}
		w := newWorld(t, func(s *settings) {
			s.policies = newSays(allowsAll)
			s.tunnels.Mode = opaque.Never
			s.onListener = glass.over
		})
		c := w.tunnel(echo(t))
		before := glass.read.Load()
		c.send(said)
		glass.runOut(t, before, len(said))
		io.Copy(io.Discard, c)
		w.log.WaitLine(t, nil, `"method":"CONNECT"`, `"error":`)
		w.gauge("robotsproxy_tunnels", 0)
	}
}
