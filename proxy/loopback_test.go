package proxy_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"robotsproxy/internal/conntest"
	"robotsproxy/internal/loopback"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/opaque"
)

// distant is a listener whose connections seem to come from another machine while far is
// set.
type distant struct {
	net.Listener
	far *atomic.Bool
}

type farConn struct{ net.Conn }

func (l distant) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil && l.far.Load() {
		conn = farConn{conn}
	}
	return conn, err
}

func (farConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(farClient) }

var farClient = netip.MustParseAddrPort("203.0.113.9:4711")

// withFar gives a world clients on another machine: those that connect while far is set.
func withFar(far *atomic.Bool) func(*settings) {
	return func(s *settings) {
		s.clients.Allow = append(s.clients.Allow, netip.PrefixFrom(farClient.Addr(), 32))
		s.upstream.Insecure = []identity.HostGlob{}
		s.onListener = func(l net.Listener) net.Listener { return distant{l, far} }
	}
}

// names makes the Go resolver answer from a table until the test ends.
type names struct {
	mu    sync.Mutex
	addrs map[string][]netip.Addr
}

func newNames(t *testing.T) *names {
	n := &names{addrs: map[string][]netip.Addr{}}
	usual := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: n.dial}
	t.Cleanup(func() { net.DefaultResolver = usual })
	return n
}

func (n *names) set(name string, addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs[name+"."] = nil
	for _, addr := range addrs {
		n.addrs[name+"."] = append(n.addrs[name+"."], netip.MustParseAddr(addr))
	}
}

// dial opens a connection to a DNS server of one question.
func (n *names) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		var size [2]byte
		if _, err := io.ReadFull(server, size[:]); err != nil {
			return
		}
		packed := make([]byte, binary.BigEndian.Uint16(size[:]))
		var m dnsmessage.Message
		if _, err := io.ReadFull(server, packed); err != nil || m.Unpack(packed) != nil {
			return
		}
		m.Response, m.Additionals = true, nil
		n.mu.Lock()
		addrs, known := n.addrs[m.Questions[0].Name.String()]
		n.mu.Unlock()
		if !known {
			m.RCode = dnsmessage.RCodeNameError
		}
		for _, addr := range addrs {
			header := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET}
			switch kind := m.Questions[0].Type; {
			case kind == dnsmessage.TypeA && addr.Is4():
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
			case kind == dnsmessage.TypeAAAA && addr.Is6():
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
			}
		}
		if packed, err := m.Pack(); err == nil {
			server.Write(binary.BigEndian.AppendUint16(nil, uint16(len(packed))))
			server.Write(packed)
		}
	}()
	return client, nil
}

// counted is a site that counts all requests, those for robots.txt too.
func counted(t *testing.T, l net.Listener, handler http.HandlerFunc) (port string, asked *atomic.Int64) {
	asked = new(atomic.Int64)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		handler(w, r)
	}))
	if l != nil {
		s.Listener.Close()
		s.Listener = l
	}
	s.Start()
	t.Cleanup(s.Close)
	_, port, _ = net.SplitHostPort(s.Listener.Addr().String())
	return port, asked
}

func allowing(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/robots.txt" {
		io.WriteString(w, someDisallowed)
		return
	}
	io.WriteString(w, "secret")
}

// The unspecified address leads to this machine's loopback, although neither upstream.deny
// nor the list of the proxy's own addresses names it.
func TestUnspecifiedDestinations(t *testing.T) {
	names := newNames(t)
	names.set("zero.test", "0.0.0.0")
	names.set("zero6.test", "::")
	names.set("zero4in6.test", "::ffff:0.0.0.0")
	w := newWorld(t)
	port, asked := counted(t, nil, allowing)
	for _, host := range []string{
		"0.0.0.0", "0.0.0.0.", "[::]", "[::0]", "[0:0:0:0:0:0:0:0]", "[::ffff:0.0.0.0]", "[::ffff:0:0]", "[64:ff9b::]", "[64:ff9b::0.0.0.0]",
		"zero.test", "zero6.test", "zero4in6.test",
	} {
		for _, path := range []string{"/page", "/robots.txt"} {
			if got := get200(t, w, "http://"+host+":"+port+path); got != "502 destination_ip_prohibited" {
				t.Errorf("%s%s: %s", host, path, got)
			}
		}
	}
	// Numbers that C libraries read as addresses are not addresses here.
	for _, host := range []string{"0", "0x0", "00", "0.0", "0x0.0x0.0x0.0x0", "000.000.000.000"} {
		if got := get200(t, w, "http://"+host+":"+port+"/robots.txt"); !strings.HasPrefix(got, "4") && !strings.HasPrefix(got, "5") {
			t.Errorf("%s: %s", host, got)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the site was asked %d times", n)
	}
}

// What listens on this machine's loopback trusts whoever reaches it, so the proxy leads
// only this machine's own clients there: by every door, whatever is known of the site,
// and whatever connections to it are open.
func TestLoopbackIsForClientsHere(t *testing.T) {
	names := newNames(t)
	names.set("app.test", "127.0.0.1")
	var far atomic.Bool
	for _, mode := range []opaque.Mode{opaque.Intercept, opaque.Never} {
		t.Run(string(mode), func(t *testing.T) {
			far.Store(false)
			w := newWorld(t, withFar(&far), func(s *settings) { s.tunnels.Mode = mode })
			port, asked := counted(t, nil, allowing)
			ftp := strings.TrimPrefix((&script{}).start(t), "ftp://")
			_, ftpPort, _ := net.SplitHostPort(ftp)
			hosts := []string{"127.0.0.1", "localhost", "LOCALHOST.", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "127.9.9.9", "app.test"}
			try := func(host string) (shapes []string) {
				host += ":" + port
				for _, request := range []string{
					"GET http://" + host + "/page HTTP/1.1\r\nHost: x\r\n\r\n",
					"GET http://" + host + "/private HTTP/1.1\r\nHost: x\r\n\r\n",
					"GET http://" + host + "/robots.txt HTTP/1.1\r\nHost: x\r\n\r\n",
					"GET http://" + host + "/page HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
					"GET https://" + host + "/page HTTP/1.1\r\nHost: x\r\n\r\n",
					"GET ftp://" + strings.TrimSuffix(host, port) + ftpPort + "/file HTTP/1.1\r\nHost: x\r\n\r\n",
				} {
					c := w.dial()
					c.send(request)
					resp, _ := c.response("GET")
					shapes = append(shapes, shape(resp))
				}
				c := w.dial()
				c.send("CONNECT " + host + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
				resp, _ := c.response(http.MethodConnect)
				if resp.StatusCode == 200 {
					c.send("GET /page HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
					resp, _ = c.response("GET")
				}
				return append(shapes, shape(resp))
			}
			for _, known := range []bool{false, true} { // what the site allows
				far.Store(true)
				before := asked.Load()
				for _, host := range hosts {
					for i, shape := range try(host) {
						// What a name leads to is not looked up to refuse what a known robots.txt refuses.
						if shape != "502 destination_ip_prohibited" && !(known && host == "app.test" && shape == "403 http_request_denied") {
							t.Errorf("known %v, %s, request %d: %s", known, host, i, shape)
						}
					}
				}
				if asked.Load() != before {
					t.Errorf("known %v: the site was asked", known)
				}
				far.Store(false)
				for _, host := range []string{"127.0.0.1", "localhost", "app.test"} {
					if c := get200(t, w, "http://"+host+":"+port+"/page"); c != "secret" {
						t.Errorf("a client on this machine gets %q from %s", c, host)
					}
				}
			}
		})
	}
}

func get200(t *testing.T, w *world, url string) string {
	t.Helper()
	c := w.dial()
	c.send("GET " + url + " HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, body := c.response("GET")
	if resp.StatusCode != 200 {
		return shape(resp)
	}
	return body
}

// outside is a listener on an address of this machine that is not loopback.
func outside(t *testing.T) net.Listener {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().Is4() || p.Addr().IsLoopback() || p.Addr().IsLinkLocalUnicast() {
			continue
		}
		if l, err := net.Listen("tcp", p.Addr().String()+":0"); err == nil {
			return l
		}
	}
	t.Skip("this machine has no IPv4 address besides loopback, so no site can be elsewhere")
	return nil
}

// A site elsewhere does not lead the fetch of its robots.txt to this machine's loopback,
// by redirect or by another answer of its name server; one on loopback may.
func TestRobotsRedirectsToLoopback(t *testing.T) {
	names := newNames(t)
	w := newWorld(t)
	port, asked := counted(t, nil, allowing)
	var to atomic.Value
	redirecting := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.Redirect(w, r, to.Load().(string), http.StatusFound)
			return
		}
		io.WriteString(w, "page")
	}
	for i, target := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "127.1.2.3", "0.0.0.0", "[::]"} {
		l := outside(t)
		far, _ := counted(t, l, redirecting)
		to.Store("http://" + target + ":" + port + "/robots.txt")
		host, _, _ := net.SplitHostPort(l.Addr().String())
		if got := get200(t, w, "http://"+host+":"+far+"/page"); got != "403 http_request_denied" {
			t.Errorf("a redirect to %s: %s", target, got)
		}
		if i > 0 {
			continue
		}
		// Its name leads to loopback by the time that the redirect is followed.
		names.set("rebinding.test", host)
		l2 := outside(t)
		far, _ = counted(t, l2, func(w http.ResponseWriter, r *http.Request) {
			names.set("rebinding.test", "127.0.0.1")
			http.Redirect(w, r, "http://rebinding.test:"+port+"/robots.txt", http.StatusFound)
		})
		if got := get200(t, w, "http://rebinding.test:"+far+"/page"); got != "403 http_request_denied" {
			t.Errorf("a name that was rebound to loopback: %s", got)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("loopback was asked %d times", n)
	}
	names.set("app.test", "127.0.0.1")
	here, _ := counted(t, nil, redirecting)
	to.Store("http://app.test:" + port + "/robots.txt")
	for _, host := range []string{"127.0.0.1", "localhost", "app.test"} {
		if got := get200(t, w, "http://"+host+":"+here+"/page"); got != "page" {
			t.Errorf("from %s to loopback: %s", host, got)
		}
	}
	if asked.Load() == 0 {
		t.Error("the redirect on loopback was not followed")
	}
}

// A parent proxy resolves names itself. Addresses of loopback are refused nevertheless.
func TestLoopbackByParent(t *testing.T) {
	asked := make(chan string, 100)
	parent := conntest.Serve(t, "127.0.0.1:0", func(conn net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err == nil {
			asked <- r.RequestURI
			io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
	})
	var far atomic.Bool
	far.Store(true)
	w := newWorld(t, withFar(&far), func(s *settings) { s.upstream.Proxy = "http://" + parent })
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "0.0.0.0"} {
		if got := get200(t, w, "http://"+host+":1/page"); got != "502 destination_ip_prohibited" {
			t.Errorf("%s: %s", host, got)
		}
	}
	if len(asked) > 0 {
		t.Errorf("the parent was asked for %s", <-asked)
	}
	if got := get200(t, w, "http://shop.test/page"); got != "404 " {
		t.Errorf("another site: %s", got)
	}
}

func TestClientsHere(t *testing.T) {
	l := outside(t)
	defer l.Close()
	conn, _ := conntest.Through(t, l)
	for _, c := range []struct {
		conn net.Conn
		here bool
	}{
		{conn, true}, {farConn{conn}, false},
	} {
		if err := loopback.Of(loopback.WithPeer(t.Context(), c.conn)).Check(); (err == nil) != c.here {
			t.Errorf("a client at %v: %v", c.conn.RemoteAddr(), err)
		}
	}
	if loopback.Of(t.Context()).Check() == nil {
		t.Error("a request without a known client may go to loopback")
	}
}
