package proxy_test

import (
	"bufio"
	"cmp"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"robotsproxy/internal/conntest"
	"robotsproxy/proxy/opaque"
)

// redirects is a transparent door. A test says for each connection what its client wanted.
type redirects struct {
	net.Listener
	mu     sync.Mutex // held while a connection is opened
	wanted chan netip.AddrPort
	from   netip.AddrPort // where clients seem to be; the zero value: where they are
	closed chan struct{}
	once   sync.Once
}

func (r *redirects) Accept() (net.Conn, error) {
	conn, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case wanted := <-r.wanted:
		c := redirected{conn.(*net.TCPConn), net.TCPAddrFromAddrPort(wanted), conn.RemoteAddr()}
		if r.from.IsValid() {
			c.client = net.TCPAddrFromAddrPort(r.from)
		}
		return c, nil
	case <-r.closed:
		conn.Close()
		return nil, net.ErrClosed
	}
}

func (r *redirects) Close() error {
	r.once.Do(func() { close(r.closed) })
	return r.Listener.Close()
}

type redirected struct {
	*net.TCPConn
	wanted, client net.Addr
}

func (r redirected) LocalAddr() net.Addr  { return r.wanted }
func (r redirected) RemoteAddr() net.Addr { return r.client }

// openTransparent opens a transparent door, beside the others.
func (w *world) openTransparent() *redirects {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(w.t, err)
	r := &redirects{Listener: l, wanted: make(chan netip.AddrPort), closed: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- w.server.ServeTransparent(r) }()
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		w.server.Shutdown(ctx)
		if err := <-served; err != nil {
			w.t.Errorf("serving the transparent door: %v", err)
		}
	})
	return r
}

// redirect opens a connection whose client believes that it leads to wanted.
func (w *world) redirect(wanted string) *rawConn {
	w.t.Helper()
	if w.redirects == nil {
		w.redirects = w.openTransparent()
	}
	return w.redirects.dial(w.t, wanted)
}

func (r *redirects) dial(t *testing.T, wanted string) *rawConn {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	conn, err := net.Dial("tcp", r.Addr().String())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	r.wanted <- netip.MustParseAddrPort(wanted)
	conn.SetDeadline(time.Now().Add(testTimeout))
	return &rawConn{t, conn, bufio.NewReader(conn)}
}

// redirectTLS is redirect with TLS for a server name, "" for none.
func (w *world) redirectTLS(wanted, name string) (*rawConn, error) {
	w.t.Helper()
	config := w.trust()
	config.ServerName, config.InsecureSkipVerify = name, name == ""
	conn := tls.Client(w.redirect(wanted), config)
	return &rawConn{w.t, conn, bufio.NewReader(conn)}, conn.Handshake()
}

// faraway is an address that no test may reach.
const faraway = "192.0.2.1"

// ask sends a GET and returns the status and the body.
func (c *rawConn) ask(path, host string) (int, string) {
	c.t.Helper()
	c.send("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
	resp, body := c.response(http.MethodGet)
	return resp.StatusCode, body
}

func port(o *origin) string {
	_, port, _ := net.SplitHostPort(o.host())
	return port
}

// Each request at the transparent door is judged, and goes, by the Host that it names.
func TestTransparentHTTP(t *testing.T) {
	w := newWorld(t)
	site, other := w.origin("http", nil), w.origin("http", nil)
	c := w.redirect(faraway + ":80")
	for _, test := range []struct {
		path, host string
		status     int
	}{
		{"/a", site.host(), 200},
		{"/private", site.host(), 403},
		{"/b", other.host(), 200},
		{"/private", other.host(), 403},
		{"/c", site.host(), 200},
		{"/robots.txt", "localhost:" + port(site), 200},
	} {
		if status, body := c.ask(test.path, test.host); status != test.status {
			t.Errorf("%s of %s: %d %q, want %d", test.path, test.host, status, body, test.status)
		}
	}
	if got := strings.Join(append(site.pages(), other.pages()...), " "); got != "/a /c /b" {
		t.Errorf("the sites were asked for %s", got)
	}
	for _, line := range w.log.Lines(`"message":"request"`) {
		if !strings.Contains(line, `"door":"transparent"`) {
			t.Errorf("not by the transparent door: %s", line)
		}
	}
}

// The port that the client wanted counts where Host has none, and its address where there is no Host.
func TestTransparentHTTPWithoutPortOrHost(t *testing.T) {
	w := newWorld(t)
	site := w.origin("http", nil)
	for _, request := range []string{
		"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"GET /x HTTP/1.1\r\nHost: localhost:\r\n\r\n",
		"GET /x HTTP/1.1\r\nHost:\r\n\r\n",
		"GET /x HTTP/1.0\r\n\r\n",
		"HEAD /x HTTP/1.0\r\n\r\n",
	} {
		c := w.redirect("127.0.0.1:" + port(site))
		c.send(request)
		method, _, _ := strings.Cut(request, " ")
		if resp, body := c.response(method); resp.StatusCode != 200 || method == "GET" && body != "page /x" {
			t.Errorf("%q: %s %q", request, resp.Status, body)
		}
	}
}

func TestTransparentTLS(t *testing.T) {
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			w := guardedWorld(t)
			site := w.origin("https", nil)
			transport := &http.Transport{ForceAttemptHTTP2: protocol == "h2", TLSClientConfig: w.trust(), DialContext: func(context.Context, string, string) (net.Conn, error) {
				return w.redirect(faraway + ":" + port(site)).Conn, nil
			}}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			for path, want := range map[string]int{"/public": 200, "/private": 403} {
				resp, _ := get(t, client, "https://localhost:"+port(site)+path)
				if resp.StatusCode != want || resp.ProtoMajor == 2 != (protocol == "h2") {
					t.Errorf("%s: %s %s", path, resp.Proto, resp.Status)
				}
			}
		})
	}
}

// A client that begins with HTTP/2, without TLS, is served like any other.
func TestTransparentHTTP2WithoutTLS(t *testing.T) {
	w := newWorld(t)
	site := w.origin("http", nil)
	transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(context.Context, string, string) (net.Conn, error) {
		return w.redirect(faraway + ":80").Conn, nil
	}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for path, want := range map[string]int{"/public": 200, "/private": 403} {
		if resp, body := get(t, client, site.URL+path); resp.StatusCode != want || resp.ProtoMajor != 2 {
			t.Errorf("%s: %s %s %q", path, resp.Proto, resp.Status, body)
		}
	}
}

// What is neither TLS nor HTTP is closed, and reported.
func TestTransparentRefusesOtherProtocols(t *testing.T) {
	told := make(chan netip.AddrPort, 1)
	w := newWorld(t, func(s *settings) {
		s.proxy.Limits.HeaderTimeout = 50 * time.Millisecond
		s.proxy.OnRefusedConnection = func(wanted netip.AddrPort) { told <- wanted }
	})
	for i, first := range []string{
		"", "SSH-2.0-x\r\n", "\x00\x00\x00\x08\x04\xd2\x16\x2f", "\x05\x01\x00", "\x16\x02\x00", "\x16\x03\x01\x00\x05hello", "\x17\x03\x03\x00\x01x", "\x15\x03\x01\x00\x02\x01\x00",
		"\r\nGET / HTTP/1.1\r\n", " GET /", "GET\t/", "<policy-file-request/>\x00", strings.Repeat("A", 4000),
	} {
		wanted := netip.AddrPortFrom(netip.MustParseAddr([]string{faraway, "2001:db8::1"}[i%2]), 2222)
		c := w.redirect(wanted.String())
		c.send(first)
		answer, err := io.ReadAll(c)
		if len(answer) > 0 && answer[0] != 0x15 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: %q, %v", first, answer, err)
		}
		if got := <-told; got != wanted {
			t.Errorf("%q: OnRefusedConnection got %s, want %s", first, got, wanted)
		}
	}
	// Browsers open connections ahead, and leave them silent.
	io.ReadAll(w.redirect(faraway + ":443"))
	w.redirect(faraway + ":25").Close()
	select {
	case wanted := <-told:
		t.Errorf("OnRefusedConnection got %s", wanted)
	default:
	}
}

// opened returns the outcome of TLS at the transparent door, by the certificate that is shown.
func opened(w *world, o *origin, name string) (string, *rawConn) {
	w.t.Helper()
	config := &tls.Config{InsecureSkipVerify: true, ServerName: name}
	conn := tls.Client(w.redirect("127.0.0.1:"+port(o)), config)
	switch err := conn.Handshake(); {
	case isRefusal(err):
		return refused, nil
	case err != nil:
		w.t.Fatal(err)
	}
	c := &rawConn{w.t, conn, bufio.NewReader(conn)}
	if conn.ConnectionState().PeerCertificates[0].Equal(o.Certificate()) {
		return joined, c
	}
	return read, c
}

// isRefusal reports whether err is the alert to TLS that is refused.
func isRefusal(err error) bool {
	return err != nil && strings.Contains(err.Error(), "remote error: tls: unrecognized name")
}

// TLS that the mode leaves unread is judged as a whole. A refusal is shown inside, unless the
// operator wants nothing read.
func TestTransparentTLSAsAWhole(t *testing.T) {
	never := func(s *settings) { s.tunnels.Mode = opaque.Never }
	allowMixed := func(s *settings) { s.tunnels.Mode, s.tunnels.Mixed = opaque.Never, opaque.AllowMixed }
	passthrough := func(s *settings) { s.tunnels.Passthrough = hosts([]string{"localhost", "127.0.0.1"}) }
	whenNeeded := func(s *settings) { s.tunnels.Mode = opaque.WhenNeeded }
	for name, test := range map[string]struct {
		robots string
		change func(*settings)
		want   string
		status int // of /page, where it is read
		logged string
	}{
		"never, all allowed":         {allowsAll, never, joined, 0, `"status":200`},
		"never, none allowed":        {allowsNone, never, refused, 0, `"status":403`},
		"never, some allowed":        {mixed, never, refused, 0, `"reason":"tunnel"`},
		"never, some allowed, allow": {mixed, allowMixed, joined, 0, `"status":200`},
		"passthrough, all allowed":   {allowsAll, passthrough, joined, 0, `"status":200`},
		"passthrough, none allowed":  {allowsNone, passthrough, refused, 0, `"status":403`},
		"passthrough, unreachable":   {"503", passthrough, refused, 0, `"reason":"unreachable"`},
		"when needed, all allowed":   {allowsAll, whenNeeded, joined, 0, `"status":200`},
		"when needed, none allowed":  {allowsNone, whenNeeded, read, 403, `"status":403`},
		"when needed, some allowed":  {mixed, whenNeeded, read, 200, `"status":200`},
		"when needed, nothing there": {"404", whenNeeded, joined, 0, `"status":200`},
		"intercept, all allowed":     {allowsAll, func(*settings) {}, read, 200, `"status":200`},
		"intercept, none allowed":    {allowsNone, func(*settings) {}, read, 403, `"status":403`},
	} {
		for _, serverName := range []string{"localhost", ""} {
			w := guardedWorld(t, test.change, func(s *settings) { s.policies = newSays(test.robots) })
			o := w.origin("https/1.1", nil)
			host := cmp.Or(serverName, "127.0.0.1") + ":" + port(o)
			got, c := opened(w, o, serverName)
			if got != test.want {
				t.Errorf("%s, server name %q: %s, want %s", name, serverName, got, test.want)
				continue
			}
			if got == read {
				if status, body := c.ask("/page", host); status != test.status {
					t.Errorf("%s, server name %q: %d %q", name, serverName, status, body)
				}
			}
			if c != nil {
				c.Close()
			}
			if line := w.log.WaitLine(t, nil, `"message":"request"`, `"door":"transparent"`, "https://"+host); !strings.Contains(line, test.logged) {
				t.Errorf("%s, server name %q: %s", name, serverName, line)
			}
			if n := w.log.Count(`"message":"request"`); n != 1 {
				t.Errorf("%s, server name %q: %d decisions", name, serverName, n)
			}
			if said := w.log.Count("names no server"); (said == 1) != (serverName == "") {
				t.Errorf("%s, server name %q: %d lines say that it names none", name, serverName, said)
			}
		}
	}
}

// The server that the client's TLS names is judged and dialled, whatever address it had.
func TestTransparentTLSDialsWhatItNames(t *testing.T) {
	for _, mode := range []opaque.Mode{opaque.Intercept, opaque.WhenNeeded, opaque.Never} {
		w := guardedWorld(t, func(s *settings) { s.tunnels.Mode = mode })
		o := w.origin("https/1.1", nil)
		conn := tls.Client(w.redirect(faraway+":"+port(o)), &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"})
		if err := conn.Handshake(); (err == nil) != (mode != opaque.Never) { // only a part is allowed
			t.Errorf("%s: %v", mode, err)
		}
	}
}

func TestTransparentTLSWithoutAUsableServerName(t *testing.T) {
	w := guardedWorld(t)
	o := w.origin("https", nil)
	c, err := w.redirectTLS("127.0.0.1:"+port(o), "")
	must(t, err)
	for _, test := range []struct {
		path, host string
		want       int
	}{{"/public", o.host(), 200}, {"/private", o.host(), 403}, {"/public", "localhost:" + port(o), 421}, {"/public", "example.com", 421}} {
		if status, _ := c.ask(test.path, test.host); status != test.want {
			t.Errorf("%s of %s: %d, want %d", test.path, test.host, status, test.want)
		}
	}
	for _, name := range []string{"ex%61mple.com", "a..b", "127.1", "localhost/", "u@localhost", ":1", "local host"} {
		conn := tls.Client(w.redirect("127.0.0.1:"+port(o)), &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err := conn.Handshake(); err == nil {
			t.Errorf("server name %q: a certificate was signed", name)
		}
	}
}

// HTTrack names the port too.
func TestTransparentTLSThatNamesThePort(t *testing.T) {
	w := guardedWorld(t)
	o := w.origin("https/1.1", nil)
	conn := tls.Client(w.redirect("127.0.0.1:"+port(o)), &tls.Config{ServerName: "localhost:" + port(o), InsecureSkipVerify: true})
	must(t, conn.Handshake())
	if err := conn.ConnectionState().PeerCertificates[0].VerifyHostname("localhost"); err != nil {
		t.Error(err)
	}
	c := &rawConn{t, conn, bufio.NewReader(conn)}
	for path, want := range map[string]int{"/public": 200, "/private": 403} {
		if status, _ := c.ask(path, "localhost:"+port(o)); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
}

// echConfigs is what a client needs for an encrypted ClientHello (RFC 9849 4) in one for a
// public name.
func echConfigs(t *testing.T, publicName string) []byte {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	must(t, err)
	withLength := func(octets []byte) []byte {
		return append(binary.BigEndian.AppendUint16(nil, uint16(len(octets))), octets...)
	}
	contents := []byte{1, 0, 0x20} // the key's number, X25519
	contents = append(contents, withLength(key.PublicKey().Bytes())...)
	contents = append(contents, 0, 4, 0, 1, 0, 1, 0) // HKDF-SHA256, AES-128-GCM; no longest name
	contents = append(contents, byte(len(publicName)))
	contents = append(contents, publicName...)
	contents = append(contents, 0, 0)
	return withLength(append([]byte{0xfe, 0x0d}, withLength(contents)...))
}

// Where an encrypted ClientHello may name another server, the name that can be read is
// judged and dialled. A client that meant the other one gets to know that, and tries without.
func TestTransparentEncryptedClientHello(t *testing.T) {
	newNames(t).set("site.example", "127.0.0.1")
	for _, mode := range []opaque.Mode{opaque.Intercept, opaque.Never} {
		w := guardedWorld(t, func(s *settings) {
			s.policies = newSays(allowsAll)
			s.tunnels.Mode = mode
		})
		o := w.origin("https/1.1", nil)
		config := w.trust()
		config.ServerName, config.EncryptedClientHelloConfigList = "hidden.example", echConfigs(t, "site.example")
		if mode == opaque.Never { // the origin's certificate is for another name
			config.EncryptedClientHelloRejectionVerify = func(tls.ConnectionState) error { return nil }
		}
		c := w.redirect(faraway + ":" + port(o))
		err := tls.Client(c, config).Handshake()
		c.Close()
		if _, rejected := errors.AsType[*tls.ECHRejectionError](err); !rejected {
			t.Errorf("%s: %v", mode, err)
		}
		if mode == opaque.Never {
			w.log.WaitLine(t, nil, "(ECH)", `"host":"site.example:`+port(o))
			w.log.WaitLine(t, nil, `"message":"request"`, "https://site.example:"+port(o))
		}
	}
}

func TestTransparentIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("needs IPv6:", err)
	}
	site := httptest.NewUnstartedServer(http.HandlerFunc(allowing))
	site.Listener.Close()
	site.Listener = l
	site.Start()
	defer site.Close()
	w := newWorld(t)
	for _, host := range []string{"", "[::1]", l.Addr().String()} {
		c := w.redirect(l.Addr().String())
		if status, body := c.ask("/page", host); status != 200 {
			t.Errorf("Host %q: %d %s", host, status, body)
		}
	}
	if status, _ := w.redirect(l.Addr().String()).ask("/page", "::1"); status != 400 {
		t.Errorf("an address without brackets: %d", status)
	}
}

// An address that only stands for a name is judged and dialled as that name.
func TestTransparentStandIns(t *testing.T) {
	w := guardedWorld(t, func(s *settings) {
		s.proxy.NameOf = func(addr netip.Addr) (string, bool) {
			return "LOCALHOST.", addr == netip.MustParseAddr("198.18.0.5")
		}
	})
	plain, secure := w.origin("http", nil), w.origin("https", nil)
	c := w.redirect("198.18.0.5:" + port(plain))
	if status, body := c.ask("/public", ""); status != 200 {
		t.Errorf("%d %q", status, body)
	}
	c, err := w.redirectTLS("198.18.0.5:"+port(secure), "")
	must(t, err)
	if status, body := c.ask("/public", "localhost:"+port(secure)); status != 200 {
		t.Errorf("%d %q", status, body)
	}
	if n := w.log.Count("http://localhost:" + port(plain) + "/public"); n != 1 {
		t.Errorf("%d lines name the host", n)
	}
}

// Requests to a proxy are served as such, and nothing else wants a user.
func TestTransparentProxyRequests(t *testing.T) {
	w := guardedWorld(t, func(s *settings) { s.clients.Htpasswd = htpasswd(t) })
	plain, secure := w.origin("http", nil), w.origin("https", nil)
	right := "Proxy-Authorization: " + "Basic " + base64.StdEncoding.EncodeToString([]byte("images:pass:word")) + "\r\n"
	for _, test := range []struct {
		request string
		want    int
		door    string
	}{
		{"GET /public HTTP/1.1\r\nHost: " + plain.host() + "\r\n", 200, "transparent"},
		{"GET /public HTTP/1.1\r\nHost: " + plain.host() + "\r\nProxy-Authorization: Basic eDp5\r\n", 200, "transparent"},
		{"GET " + plain.URL + "/public HTTP/1.1\r\nHost: x\r\n", 407, ""},
		{"GET " + plain.URL + "/public HTTP/1.1\r\nHost: x\r\n" + right, 200, "http"},
		{"CONNECT " + secure.host() + " HTTP/1.1\r\nHost: x\r\n", 407, ""},
		{"OPTIONS * HTTP/1.1\r\nHost: x\r\n", 200, ""},
		{"GET public HTTP/1.1\r\nHost: x\r\n", 400, ""},
	} {
		c := w.redirect(faraway + ":3128")
		c.send(test.request + "\r\n")
		if resp, body := c.response(http.MethodGet); resp.StatusCode != test.want {
			t.Errorf("%q: %s %q", test.request, resp.Status, body)
		}
		if test.door != "" {
			w.log.WaitLine(t, nil, `"message":"request"`, `"door":"`+test.door+`"`)
		}
	}
	c := w.redirect(faraway + ":3128")
	c.send("CONNECT localhost:" + port(secure) + " HTTP/1.1\r\nHost: x\r\n" + right + "\r\n")
	if resp, _ := c.response(http.MethodConnect); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	config := w.trust()
	config.ServerName = "localhost"
	conn := tls.Client(c, config)
	must(t, conn.Handshake())
	inside := &rawConn{t, conn, bufio.NewReader(conn)}
	for path, want := range map[string]int{"/public": 200, "/private": 403} {
		if status, _ := inside.ask(path, "localhost:"+port(secure)); status != want {
			t.Errorf("in a tunnel of a CONNECT, %s: %d", path, status)
		}
	}
	w.log.WaitLine(t, nil, `"message":"request"`, `"door":"connect"`)
}

func TestTransparentClientsThatAreNotAdmitted(t *testing.T) {
	for name, change := range map[string]func(*settings){
		"by address":    func(s *settings) { s.clients.Allow = nil },
		"by connection": func(s *settings) { s.clients.Connections = func(_, _ netip.AddrPort) error { return errors.New("no") } },
	} {
		w := newWorld(t, change, func(s *settings) {
			s.proxy.Direct = func(context.Context, netip.AddrPort) (string, func(error)) { t.Error("asked"); return "", nil }
		})
		site := w.origin("http", nil)
		if status, _ := w.redirect(faraway+":80").ask("/public", site.host()); status != 403 {
			t.Errorf("%s, HTTP: %d", name, status)
		}
		if _, err := w.redirectTLS(faraway+":443", "localhost"); !isRefusal(err) {
			t.Errorf("%s, TLS: %v", name, err)
		}
		if pages := site.pages(); len(pages) > 0 {
			t.Errorf("%s: the site was asked for %q", name, pages)
		}
	}
}

// What a distant client wanted does not make it one on this machine.
func TestTransparentLoopbackIsForClientsHere(t *testing.T) {
	for _, mode := range []opaque.Mode{opaque.Intercept, opaque.Never} {
		w := guardedWorld(t, func(s *settings) {
			s.policies = newSays(allowsAll)
			s.tunnels.Mode = mode
			s.clients.Allow = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
			s.proxy.Direct = func(_ context.Context, wanted netip.AddrPort) (string, func(error)) {
				if wanted.Port() != 5432 {
					return "", nil
				}
				return "127.0.0.1:1", func(error) {}
			}
		})
		plain, secure := w.origin("http", nil), w.origin("https/1.1", nil)
		w.redirects = w.openTransparent()
		w.redirects.from = farClient
		for _, wanted := range []string{farClient.Addr().String() + ":80", "127.0.0.1:" + port(plain)} {
			if status, body := w.redirect(wanted).ask("/public", "localhost:"+port(plain)); status != 502 || !strings.Contains(body, "only clients on this machine") {
				t.Errorf("HTTP, wanted %s: %d %s", wanted, status, body)
			}
		}
		c, err := w.redirectTLS(farClient.Addr().String()+":"+port(secure), "localhost")
		if mode == opaque.Never {
			if !isRefusal(err) {
				t.Errorf("TLS: %v", err)
			}
		} else if status, _ := c.ask("/public", "localhost:"+port(secure)); status != 502 {
			t.Errorf("TLS: %d", status)
		}
		if rest, _ := io.ReadAll(w.redirect(faraway + ":5432")); len(rest) > 0 {
			t.Errorf("a destination that is allowed sent %q", rest)
		}
		w.log.WaitLine(t, nil, `"dialled":"127.0.0.1:1"`, "only clients on this machine")
		if pages := append(plain.pages(), secure.pages()...); len(pages) > 0 {
			t.Errorf("a site was asked for %q", pages)
		}
	}
}

// A destination that the operator allows is reached whatever is spoken, also where the server
// speaks first; only addresses that are never dialled stay closed.
func TestTransparentDirect(t *testing.T) {
	greets := conntest.Serve(t, "127.0.0.1:0", func(conn net.Conn) {
		io.WriteString(conn, "220 hello\r\n")
		said, _ := io.ReadAll(conn)
		conn.Write(said)
	})
	dialled := make(chan error, 1)
	w := newWorld(t, func(s *settings) {
		s.upstream.Deny = []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}
		s.proxy.Direct = func(_ context.Context, wanted netip.AddrPort) (string, func(error)) {
			dial := map[string]string{faraway + ":25": greets, faraway + ":26": "127.0.0.9:26", faraway + ":27": "nowhere"}[wanted.String()]
			return dial, func(err error) { dialled <- err }
		}
	})
	c := w.redirect(faraway + ":25")
	greeting := make([]byte, len("220 hello\r\n"))
	_, err := io.ReadFull(c, greeting)
	must(t, err)
	if err := <-dialled; err != nil {
		t.Errorf("the dial that succeeded is reported as %v", err)
	}
	w.gauge("robotsproxy_tunnels", 1)
	c.send("QUIT\r\n")
	c.Conn.(*net.TCPConn).CloseWrite()
	if said, err := io.ReadAll(c); string(said) != "QUIT\r\n" || err != nil {
		t.Errorf("%q, %v", said, err)
	}
	w.gauge("robotsproxy_tunnels", 0)
	if line := w.log.WaitLine(t, nil, `"dialled":"`+greets); !strings.Contains(line, `"wanted":"`+faraway+`:25"`) || !strings.Contains(line, `"bytes":17`) {
		t.Error(line)
	}
	for _, wanted := range []string{":26", ":27"} {
		if said, _ := io.ReadAll(w.redirect(faraway + wanted)); len(said) > 0 {
			t.Errorf("%s: got %q, want nothing", wanted, said)
		}
		if err := <-dialled; err == nil {
			t.Errorf("%s: the dial that failed is reported as a success", wanted)
		}
		w.log.WaitLine(t, nil, `"level":"warn"`, `"wanted":"`+faraway+wanted)
	}
}

// A connection to the door itself is closed.
func TestTransparentDoorItself(t *testing.T) {
	w := newWorld(t)
	w.redirects = w.openTransparent()
	c := w.redirect(w.redirects.Addr().String())
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+w.redirects.Addr().String()+"\r\n\r\n")
	if answer, _ := io.ReadAll(c); len(answer) > 0 {
		t.Errorf("%q", answer)
	}
}

// Shutdown waits for what is in flight, and closes what has not begun.
func TestTransparentShutdown(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	w := guardedWorld(t, func(s *settings) { s.tunnels.Passthrough = hosts([]string{"localhost"}) })
	page := func(rw http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-release
		io.WriteString(rw, "page")
	}
	plain := w.origin("http", page)
	silent := w.redirect(faraway + ":80")
	c := w.redirect(faraway + ":80")
	c.send("GET /public HTTP/1.1\r\nHost: " + plain.host() + "\r\n\r\n")
	<-asked
	done := make(chan error, 1)
	go func() { done <- w.server.Shutdown(t.Context()) }()
	if rest, err := io.ReadAll(silent); len(rest) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection without a request: %q, %v", rest, err)
	}
	select {
	case err := <-done:
		t.Fatalf("Shutdown did not wait: %v", err)
	default:
	}
	close(release)
	if resp, body := c.response(http.MethodGet); resp.StatusCode != 200 || body != "page" {
		t.Errorf("%s %q", resp.Status, body)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := w.server.ServeTransparent(w.redirects); err != nil {
		t.Errorf("after Shutdown: %v", err)
	}
}

// Shutdown waits for TLS that is not read, and breaks it off when its time is over.
func TestTransparentShutdownOfTunnels(t *testing.T) {
	w := guardedWorld(t, func(s *settings) { s.tunnels.Mode, s.tunnels.Mixed = opaque.Never, opaque.AllowMixed })
	o := w.origin("https/1.1", nil)
	how, c := opened(w, o, "localhost")
	if how != joined {
		t.Fatal(how)
	}
	w.gauge("robotsproxy_tunnels", 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.server.Shutdown(ctx) }()
	if status, _ := c.ask("/public", "localhost:"+port(o)); status != 200 {
		t.Errorf("a request while Shutdown waits got %d", status)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	io.ReadAll(c)
	w.gauge("robotsproxy_tunnels", 0)
}
