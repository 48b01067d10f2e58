package proxy_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"robotsproxy/proxy/access"
	"robotsproxy/proxy/gate"
	"robotsproxy/robots"
	"robotsproxy/robots/keeper"
	"robotsproxy/robots/policy"
)

// Each door leads to the same gate: the same URL gets the same answer, and a refused
// request never reaches the origin.
func TestEveryDoorIsJudged(t *testing.T) {
	for _, door := range []struct {
		name, scheme string
		ask          func(w *world, o *origin, path string) (*http.Response, string)
	}{
		{"absolute form, http", "http", func(w *world, o *origin, path string) (*http.Response, string) {
			return get(w.t, w.client("h1"), o.URL+path)
		}},
		{"absolute form, https", "https", func(w *world, o *origin, path string) (*http.Response, string) {
			c := w.dial()
			c.send("GET " + o.URL + path + " HTTP/1.1\r\nHost: " + o.host() + "\r\n\r\n")
			return c.response("GET")
		}},
		{"CONNECT, TLS, HTTP/1.1", "https", func(w *world, o *origin, path string) (*http.Response, string) {
			return get(w.t, w.client("h1"), o.URL+path)
		}},
		{"CONNECT, TLS, HTTP/2", "https", func(w *world, o *origin, path string) (*http.Response, string) {
			resp, body := get(w.t, w.client("h2"), o.URL+path)
			if resp.ProtoMajor != 2 {
				w.t.Errorf("spoke %s, want HTTP/2", resp.Proto)
			}
			return resp, body
		}},
		{"CONNECT, plain HTTP", "http", func(w *world, o *origin, path string) (*http.Response, string) {
			c := w.tunnel(o.host())
			c.send("GET " + path + " HTTP/1.1\r\nHost: " + o.host() + "\r\n\r\n")
			return c.response("GET")
		}},
		{"CONNECT, absolute form inside", "https", func(w *world, o *origin, path string) (*http.Response, string) {
			c := w.secure(o.host())
			c.send("GET " + o.URL + path + " HTTP/1.1\r\nHost: " + o.host() + "\r\n\r\n")
			return c.response("GET")
		}},
	} {
		t.Run(door.name, func(t *testing.T) {
			w := newWorld(t)
			o := w.origin(door.scheme, nil)
			resp, body := door.ask(w, o, "/public?x=1")
			if resp.StatusCode != 200 || body != "page /public?x=1" || resp.Header.Get("Proxy-Status") != "" {
				t.Errorf("an allowed page: %s %q, Proxy-Status %q", resp.Status, body, resp.Header.Get("Proxy-Status"))
			}
			resp, body = door.ask(w, o, "/%70rivate/a")
			if resp.StatusCode != 403 {
				t.Errorf("a disallowed page: %s", resp.Status)
			}
			if got := resp.Header.Get("Proxy-Status"); !strings.HasPrefix(got, `testproxy; error=http_request_denied; details="`) {
				t.Errorf("Proxy-Status of a refusal: %q", got)
			}
			for _, part := range []string{o.URL + "/%70rivate/a", o.URL + "/robots.txt", "Disallow: /private", "ine 2"} {
				if !strings.Contains(body, part) {
					t.Errorf("the refusal does not name %q:\n%s", part, body)
				}
			}
			if pages := o.pages(); len(pages) != 1 {
				t.Errorf("the origin was asked for %q", pages)
			}
			w.log.WaitLine(t, nil, `"message":"request"`, `"verdict":"disallowed"`, `"rule":"Disallow: /private"`, `"line":2`, `"status":403`)
		})
	}
}

func TestOriginsAreAskedInTheClientsVersion(t *testing.T) {
	w := newWorld(t)
	o := w.origin("https", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })
	for client, want := range map[string]string{"h1": "HTTP/1.1", "h2": "HTTP/2.0"} {
		if _, body := get(t, w.client(client), o.URL+"/"); body != want {
			t.Errorf("for a client of %s the origin was asked in %s, want %s", client, body, want)
		}
	}
}

// elsewhere is a listener whose clients seem to come from another address.
type elsewhere struct {
	net.Listener
	from net.IP
}

func (l elsewhere) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return nearConn{conn, &net.TCPAddr{IP: l.from, Port: 1}}, err
}

// A client's second tunnel resumes the TLS session of its first. Only clients on other
// machines get ML-KEM.
func TestTLSInTunnels(t *testing.T) {
	for _, client := range []struct {
		name  string
		from  net.IP
		knows []tls.CurveID // nil: what Go's do
		want  tls.CurveID
	}{
		{"from this machine", net.IPv4(127, 0, 0, 1), nil, tls.X25519},
		{"from this machine, IPv6", net.IPv6loopback, nil, tls.X25519},
		{"from this machine, strict", net.IPv4(127, 0, 0, 1), []tls.CurveID{tls.X25519MLKEM768}, tls.X25519MLKEM768},
		{"from elsewhere", net.IPv4(192, 0, 2, 7), nil, tls.X25519MLKEM768},
		{"from elsewhere, old", net.IPv4(192, 0, 2, 7), []tls.CurveID{tls.CurveP256}, tls.CurveP256},
	} {
		t.Run(client.name, func(t *testing.T) {
			w := newWorld(t, func(s *settings) {
				s.clients.Allow = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
			})
			o := w.origin("https", nil)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			w.addr = l.Addr().String()
			served := make(chan error, 1)
			go func() { served <- w.server.Serve(elsewhere{l, client.from}) }()
			t.Cleanup(func() {
				l.Close()
				<-served
			})
			transport := w.client("h1").Transport.(*http.Transport)
			transport.TLSClientConfig.CurvePreferences = client.knows
			transport.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0)
			transport.DisableKeepAlives = true
			for again := range 2 {
				resp, err := (&http.Client{Transport: transport}).Get(o.URL + "/")
				must(t, err)
				resp.Body.Close()
				if got := resp.TLS; got.CurveID != client.want || got.DidResume != (again == 1) {
					t.Errorf("tunnel %d: by %v, resumed %t; want %v", again+1, got.CurveID, got.DidResume, client.want)
				}
			}
		})
	}
}

// Some clients send their ClientHello in one packet with the CONNECT.
func TestClientHelloTogetherWithCONNECT(t *testing.T) {
	w := newWorld(t)
	o := w.origin("https", nil)
	near, far := net.Pipe()
	defer near.Close()
	go func() { // takes the client's first flight and puts the CONNECT before it
		hello := make([]byte, 4<<10)
		n, _ := far.Read(hello)
		c := w.dial()
		c.send("CONNECT " + o.host() + " HTTP/1.1\r\nHost: " + o.host() + "\r\n\r\n" + string(hello[:n]))
		c.response(http.MethodConnect)
		go io.Copy(c.Conn, far)
		io.Copy(far, c)
	}()
	config := w.trust()
	config.ServerName = "127.0.0.1"
	conn := tls.Client(near, config)
	conn.SetDeadline(time.Now().Add(testTimeout))
	must(t, conn.Handshake())
	io.WriteString(conn, "GET /public HTTP/1.1\r\nHost: "+o.host()+"\r\nConnection: close\r\n\r\n")
	answer, err := io.ReadAll(conn)
	must(t, err)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 200 OK") {
		t.Errorf("answer: %s", answer)
	}
}

func TestMisdirected(t *testing.T) {
	w := newWorld(t)
	o := w.origin("https", nil)
	other := w.origin("https", nil)
	for name, request := range map[string]string{
		"another host":          "GET /public HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"another port":          "GET /public HTTP/1.1\r\nHost: " + other.host() + "\r\n\r\n",
		"absolute form":         "GET " + other.URL + "/public HTTP/1.1\r\nHost: " + o.host() + "\r\n\r\n",
		"another scheme":        "GET http://" + o.host() + "/public HTTP/1.1\r\nHost: " + o.host() + "\r\n\r\n",
		"another host, no port": "GET /public HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := w.secure(o.host())
			c.send(request)
			resp, _ := c.response("GET")
			if resp.StatusCode != 421 || !strings.Contains(resp.Header.Get("Proxy-Status"), "error=http_request_error") {
				t.Errorf("%s, Proxy-Status %q", resp.Status, resp.Header.Get("Proxy-Status"))
			}
		})
	}
	t.Run("HTTP/2 :authority", func(t *testing.T) {
		c := w.secure(o.host(), "h2")
		transport := &http.Transport{
			DialTLSContext:    func(context.Context, string, string) (net.Conn, error) { return c.Conn, nil },
			ForceAttemptHTTP2: true,
		}
		defer transport.CloseIdleConnections()
		r, _ := http.NewRequest("GET", other.URL+"/public", nil)
		resp, err := transport.RoundTrip(r)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != 421 || resp.ProtoMajor != 2 {
			t.Errorf("%s %s", resp.Proto, resp.Status)
		}
	})
	if n := len(o.pages()) + len(other.pages()); n != 0 {
		t.Errorf("%d misdirected requests reached an origin", n)
	}
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	w := newWorld(t)
	o := w.origin("https", nil)
	outside := func() *rawConn { return w.dial() }
	inside := func() *rawConn { return w.secure(o.host()) }
	for _, test := range []struct {
		name    string
		door    func() *rawConn
		request string
		status  int
	}{
		{"nested CONNECT", inside, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", 400},
		{"CONNECT without a port", outside, "CONNECT example.com HTTP/1.1\r\nHost: example.com\r\n\r\n", 400},
		{"CONNECT with an empty port", outside, "CONNECT example.com: HTTP/1.1\r\nHost: example.com\r\n\r\n", 400},
		{"CONNECT with a path", outside, "CONNECT example.com:443/x HTTP/1.1\r\nHost: example.com\r\n\r\n", 400},
		{"OPTIONS * outside", outside, "OPTIONS * HTTP/1.1\r\nHost: example.com\r\n\r\n", 200},
		{"OPTIONS * inside", inside, "OPTIONS * HTTP/1.1\r\nHost: " + o.host() + "\r\n\r\n", 200},
		{"GET * outside", outside, "GET * HTTP/1.1\r\nHost: example.com\r\n\r\n", 400},
		{"GET * inside", inside, "GET * HTTP/1.1\r\nHost: " + o.host() + "\r\n\r\n", 400},
		{"a page that the proxy itself has not", outside, "GET /x HTTP/1.1\r\nHost: " + w.addr + "\r\n\r\n", 404},
		{"a form for the proxy itself", outside, "POST / HTTP/1.1\r\nHost: " + w.addr + "\r\nContent-Length: 0\r\n\r\n", 404},
		{"a scheme that nobody serves", outside, "GET gopher://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 400},
		{"no host", outside, "GET http:///x HTTP/1.1\r\nHost: example.com\r\n\r\n", 400},
		{"no request at all", outside, "hello\r\n\r\n", 400},
		{"two lengths", outside, "POST " + o.URL + "/ HTTP/1.1\r\nHost: " + o.host() + "\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := test.door()
			c.send(test.request)
			if resp, _ := c.response("GET"); resp.StatusCode != test.status {
				t.Errorf("%s, want %d", resp.Status, test.status)
			}
		})
	}
	if pages := o.pages(); len(pages) != 0 {
		t.Errorf("the origin was asked for %q", pages)
	}
}

// The preface of unencrypted HTTP/2 looks like a request for *.
func TestUnencryptedHTTP2IsRefused(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	c.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	answer, _ := io.ReadAll(c)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
		t.Errorf("answer: %q", answer)
	}
}

func TestTunnelOfAnotherProtocol(t *testing.T) {
	for _, first := range []string{"SSH-2.0-OpenSSH_9.2 Debian\r\n", "\x00\x01\x02\x03", "\x16\x99ab", strings.Repeat("A", 100), " / HTTP/1.1\r\n"} {
		w := newWorld(t)
		c := w.tunnel("example.com:22")
		c.send(first)
		if answer, _ := io.ReadAll(c); len(answer) != 0 {
			t.Errorf("%q: %q", first, answer)
		}
		w.log.WaitLine(t, nil, "neither TLS nor HTTP", "example.com:22")
	}
}

func TestSilentTunnelIsClosed(t *testing.T) {
	glass := &hourglass{}
	w := newWorld(t, func(s *settings) { s.onListener = glass.over })
	for _, said := range []string{"", "GE", "\x16", "\x16\x03\x01\x02\x00\x01"} {
		c := w.tunnel("example.com:443")
		before := glass.read.Load()
		c.send(said)
		glass.runOut(t, before, len(said))
		if answer, err := io.ReadAll(c); len(answer) != 0 || err != nil {
			t.Errorf("after %q: %q, %v", said, answer, err)
		}
	}
}

func TestConnectionsAreCounted(t *testing.T) {
	w := newWorld(t)
	o := w.origin("https", nil)
	var conns []*rawConn
	for range 2 {
		conns = append(conns, w.dial(), w.secure(o.host()))
	}
	conns[0].send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	w.gauge("robotsproxy_connections", 4)
	for _, c := range conns {
		c.Close()
	}
	w.gauge("robotsproxy_connections", 0)
}

// HTTP/1.0 clients offer http/1.0 in TLS (ALPN).
func TestHTTP10InTLS(t *testing.T) {
	w := newWorld(t)
	o := w.origin("https", nil)
	c := w.secure(o.host(), "http/1.0")
	c.send("GET /public HTTP/1.0\r\n\r\n")
	if resp, body := c.response("GET"); resp.StatusCode != 200 || body != "page /public" {
		t.Errorf("%s %q", resp.Status, body)
	}
}

func TestClientsThatMayNot(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.clients = access.Options{} })
	for _, request := range []string{
		"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
	} {
		c := w.dial()
		c.send(request)
		resp, _ := c.response("GET")
		if resp.StatusCode != 403 || !strings.Contains(resp.Header.Get("Proxy-Status"), "error=http_request_denied") {
			t.Errorf("%q: %s, Proxy-Status %q", request, resp.Status, resp.Header.Get("Proxy-Status"))
		}
	}
}

func TestClientThatDistrustsTheCA(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		conn := tls.Client(w.tunnel("example.com:443"), &tls.Config{ServerName: "example.com"})
		if err := conn.Handshake(); err == nil {
			t.Fatal("a client without the CA trusts the proxy")
		}
	}
	line := w.log.WaitLine(t, nil, `"level":"warn"`, "not trust", `"host":"example.com"`, "robotsproxy ca")
	if n := strings.Count(w.log.String(), line); n != 1 {
		t.Errorf("logged %d times:\n%s", n, w.log.String())
	}
	w.gauge("robotsproxy_client_tls_failures_total", 3)
}

// OpenSSL rejects a certificate in another way than Go does.
func TestCurlThatDistrustsTheCA(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is missing: install curl")
	}
	w := newWorld(t)
	for _, version := range []string{"1.2", "1.3"} {
		host := "tls" + version + ".example.com"
		cmd := exec.Command(curl, "-sS", "--noproxy", "", "-x", "http://"+w.addr, "--tls-max", version, "https://"+host+"/")
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Fatalf("curl without the CA trusts the proxy: %s", out)
		}
		w.log.WaitLine(t, nil, `"level":"warn"`, "not trust", host)
	}
}

// A panic ends one request, but neither the process nor other requests on the same HTTP/2
// connection.
func TestPanic(t *testing.T) {
	w := newWorld(t, func(s *settings) {
		s.policies = gate.PoliciesFunc(func(context.Context, robots.Origin, keeper.Sender) (*policy.Policy, error) { panic("oh") })
	})
	o := w.origin("https", nil)
	for _, version := range []string{"h1", "h2"} {
		client := w.client(version)
		for range 2 {
			resp, _ := get(t, client, o.URL+"/")
			if resp.StatusCode != 500 || !strings.Contains(resp.Header.Get("Proxy-Status"), "error=proxy_internal_error") {
				t.Errorf("%s: %s, Proxy-Status %q", version, resp.Status, resp.Header.Get("Proxy-Status"))
			}
		}
	}
	w.log.WaitLine(t, nil, `"panic":"oh"`, "doors_test.go")
}
