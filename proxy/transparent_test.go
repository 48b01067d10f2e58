package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// redirects is a transparent door. A test says for each connection what its client wanted.
type redirects struct {
	net.Listener
	mu     sync.Mutex // held while a connection is opened
	wanted chan netip.AddrPort
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
		return redirected{conn.(*net.TCPConn), net.TCPAddrFromAddrPort(wanted)}, nil
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
	wanted net.Addr
}

func (r redirected) LocalAddr() net.Addr { return r.wanted }

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
func (w *world) redirectTLS(wanted, name string, protocols ...string) (*rawConn, error) {
	w.t.Helper()
	config := w.trust()
	config.ServerName, config.NextProtos, config.InsecureSkipVerify = name, protocols, name == ""
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

// What is neither TLS nor HTTP is closed and reported.
func TestTransparentRefusesOtherProtocols(t *testing.T) {
	told := make(chan netip.AddrPort, 10)
	w := newWorld(t, func(s *settings) {
		s.proxy.Limits.HeaderTimeout = 50 * time.Millisecond
		s.proxy.OnRefusedConnection = func(wanted netip.AddrPort) { told <- wanted }
	})
	for wanted, first := range map[string]string{faraway + ":22": "SSH-2.0-x\r\n", "[2001:db8::1]:5432": "\x00\x00\x00\x08\x04\xd2\x16\x2f", faraway + ":25": ""} {
		c := w.redirect(wanted)
		c.send(first)
		if answer, err := io.ReadAll(c); len(answer) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %q, %v", wanted, answer, err)
		}
		if got := <-told; got.String() != wanted {
			t.Errorf("told of %s, want %s", got, wanted)
		}
	}
}
