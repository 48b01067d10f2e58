package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"robotsproxy/internal/conntest"
	"robotsproxy/proxy/upstream"
)

func TestDeniedDestinations(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.upstream.Deny = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/9")} })
	o := w.origin("http", nil)
	_, port, _ := net.SplitHostPort(o.host())
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "127.0.0.1."} {
		for _, path := range []string{"/public", "/robots.txt"} {
			resp, body := get(t, w.client("h1"), "http://"+host+":"+port+path)
			if shape(resp) != "502 destination_ip_prohibited" || !strings.Contains(body, "denies") {
				t.Errorf("%s%s: %s %s", host, path, shape(resp), body)
			}
		}
	}
	if pages := o.pages(); len(pages) != 0 {
		t.Errorf("the origin was asked for %q", pages)
	}
	// Another address of the same network is none of them; that its robots.txt
	// leads to one makes it unreachable.
	leads := httptest.NewUnstartedServer(http.RedirectHandler(o.URL+"/robots.txt", http.StatusFound))
	leads.Listener.Close()
	var err error
	leads.Listener, err = net.Listen("tcp", "127.128.0.1:0")
	must(t, err)
	leads.Start()
	defer leads.Close()
	if resp, body := get(t, w.client("h1"), leads.URL+"/page"); shape(resp) != "403 http_request_denied" || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a redirect to a denied address: %s %s", shape(resp), body)
	}
}

// The proxy denies the addresses that it listens on: such a request would come back to it.
func TestOwnAddresses(t *testing.T) {
	var transport *upstream.Transport
	w := newWorld(t, func(s *settings) { s.onTransport = func(tr *upstream.Transport) { transport = tr } })
	admin, err := net.Listen("tcp", "0.0.0.0:0")
	must(t, err)
	defer admin.Close()
	own, err := net.ResolveTCPAddr("tcp", w.addr)
	must(t, err)
	transport.SetOwnAddresses(own, admin.Addr())
	_, adminPort, _ := net.SplitHostPort(admin.Addr().String())
	_, port, _ := net.SplitHostPort(w.addr)
	for _, host := range []string{w.addr, "localhost:" + port, "127.0.0.1:" + adminPort, "127.9.9.9:" + adminPort, "[::ffff:127.0.0.1]:" + adminPort} {
		resp, body := get(t, w.client("h1"), "http://"+host+"/page")
		if shape(resp) != "502 proxy_loop_detected" || !strings.Contains(body, "directly") {
			t.Errorf("%s: %s %s", host, shape(resp), body)
		}
	}
	o := w.origin("http", nil)
	if resp, _ := get(t, w.client("h1"), o.URL+"/public"); resp.StatusCode != 200 {
		t.Errorf("another port of this machine: %s", resp.Status)
	}
}

// parent is a proxy that serves every client that knows its password.
func parent(t *testing.T, asked chan<- string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "Basic dTpw" { // u:p
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		asked <- r.RequestURI
		if r.Method != http.MethodConnect {
			r.RequestURI = ""
			resp, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			w.WriteHeader(resp.StatusCode)
			io.Copy(w, resp.Body)
			return
		}
		conntest.Tunnel(w, r.Host)
	})
}

// socks5 is a SOCKS server (RFC 1928, RFC 1929) that knows one user.
func socks5(t *testing.T, asked chan<- string) string {
	return conntest.Serve(t, "127.0.0.1:0", func(conn net.Conn) {
		r := bufio.NewReader(conn)
		read := func(n int) []byte {
			b := make([]byte, n)
			io.ReadFull(r, b)
			return b
		}
		read(int(read(2)[1])) // methods
		conn.Write([]byte{5, 2})
		user := read(int(read(2)[1]))
		password := read(int(read(1)[0]))
		if string(user)+":"+string(password) != "u:p" {
			return
		}
		conn.Write([]byte{1, 0})
		var host string
		if kind := read(4)[3]; kind == 1 {
			host = netip.AddrFrom4([4]byte(read(4))).String()
		} else {
			host = string(read(int(read(1)[0])))
		}
		port := read(2)
		target := net.JoinHostPort(host, fmt.Sprint(int(port[0])<<8|int(port[1])))
		asked <- target
		up, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		conntest.Join(up, conn)
	})
}

func TestParentProxy(t *testing.T) {
	asked := make(chan string, 100)
	plain := httptest.NewServer(parent(t, asked))
	defer plain.Close()
	secure := httptest.NewTLSServer(parent(t, asked))
	defer secure.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	for name, address := range map[string]string{
		"http":   strings.Replace(plain.URL, "://", "://u:p@", 1),
		"https":  strings.Replace(secure.URL, "://", "://u:p@", 1),
		"socks5": "socks5://u:p@" + socks5(t, asked),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *settings) { s.upstream.Proxy = address })
			for _, scheme := range []string{"http", "https"} {
				o := w.origin(scheme, nil)
				for path, want := range map[string]int{"/public?a|b": 200, "//twice": 200, "/private": 403} {
					c := w.dial()
					c.send("GET " + o.URL + path + " HTTP/1.1\r\nHost: " + o.host() + "\r\n\r\n")
					if resp, body := c.response("GET"); resp.StatusCode != want || want == 200 && !strings.HasSuffix(body, path) {
						t.Errorf("%s %s: %s %q", scheme, path, resp.Status, body)
					}
				}
				if len(asked) == 0 {
					t.Errorf("%s: the parent was not asked", scheme)
				}
				for len(asked) > 0 {
					if target := <-asked; !strings.Contains(target, o.host()) {
						t.Errorf("%s: the parent was asked for %s", scheme, target)
					}
				}
			}
			resp, _ := get(t, w.client("h1"), "http://169.254.169.254/latest/meta-data")
			if shape(resp) != "502 destination_ip_prohibited" {
				t.Errorf("a denied address: %s", shape(resp))
			}
		})
	}
}

func TestUpstreamValidate(t *testing.T) {
	for _, bad := range []string{"proxy.example", "ftp://proxy.example", "http://", "http://proxy.example/path", "http://u:secret@[::1"} {
		u := upstream.Defaults()
		u.Proxy = bad
		err := u.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "proxy: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, good := range []string{"", "http://proxy.example:3128", "https://u:p@proxy.example", "socks5://[::1]:1080"} {
		u := upstream.Defaults()
		u.Proxy = good
		if err := u.Validate(); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}
