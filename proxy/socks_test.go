package proxy_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"robotsproxy/proxy/access"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/opaque"
	"robotsproxy/proxy/socks"
	"robotsproxy/robots"
	"robotsproxy/robots/keeper"
	"robotsproxy/robots/policy"
)

// dialSOCKS connects to the SOCKS door, which it opens before if need be.
func (w *world) dialSOCKS() *rawConn {
	if w.socks == "" {
		w.socks = w.open(w.server.ServeSOCKS)
	}
	return w.dialAt(w.socks)
}

// read returns the next octets.
func (c *rawConn) read(n int) string {
	c.t.Helper()
	octets := make([]byte, n)
	_, err := io.ReadFull(c, octets)
	must(c.t, err)
	return string(octets)
}

// socksRequest is the request for a command with an address or a name.
func socksRequest(command byte, hostPort string) string {
	host, port, _ := net.SplitHostPort(hostPort)
	number, _ := strconv.Atoi(port)
	request := []byte{5, command, 0}
	if addr, err := netip.ParseAddr(host); err != nil {
		request = append(append(request, 3, byte(len(host))), host...)
	} else if addr.Is4() {
		request = append(append(request, 1), addr.AsSlice()...)
	} else {
		request = append(append(request, 4), addr.AsSlice()...)
	}
	return string(binary.BigEndian.AppendUint16(request, uint16(number)))
}

// askSOCKS asks the SOCKS door for a connection without authentication, and returns the
// reply.
func (w *world) askSOCKS(hostPort string) (*rawConn, socks.Reply) {
	w.t.Helper()
	c := w.dialSOCKS()
	c.send("\x05\x01\x00")
	c.read(2)
	c.send(socksRequest(1, hostPort))
	return c, socks.Reply(c.read(10)[1])
}

// socksTo opens a tunnel by SOCKS.
func (w *world) socksTo(hostPort string) *rawConn {
	w.t.Helper()
	c, reply := w.askSOCKS(hostPort)
	if reply != socks.Succeeded {
		w.t.Fatalf("SOCKS to %s: %v", hostPort, reply)
	}
	return c
}

// Each request in a tunnel that SOCKS opens is judged, whether the client sent a name or the
// address of one that it looked up itself.
func TestSOCKS(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		w := guardedWorld(t)
		g := newGuarded(t, scheme)
		for _, wanted := range []string{g.host(), "LOCALHOST.:" + g.port, "127.0.0.1:" + g.port, "[::ffff:127.0.0.1]:" + g.port, faraway + ":" + g.port} {
			c := w.socksTo(wanted)
			if scheme == "https" {
				c = w.secureIn(c, g.host())
			}
			for _, test := range []struct {
				path   string
				status int
			}{{"/public", 200}, {"/private", 403}, {"/public", 200}} {
				if status, body := c.ask(test.path, g.host()); status != test.status {
					t.Errorf("%s by %s: %s: %d %s", scheme, wanted, test.path, status, body)
				}
			}
			c.Close()
			if pages := g.pages(); !slices.Equal(pages, []string{"/public", "/public"}) {
				t.Errorf("%s by %s: the site was asked for %q", scheme, wanted, pages)
			}
		}
		w.log.WaitLine(t, nil, `"door":"socks"`)
		w.gauge("robotsproxy_connections", 0)
	}
}

// A site without a name is judged by its address.
func TestSOCKSToAnAddress(t *testing.T) {
	w := newWorld(t)
	site := w.origin("https", nil)
	c := w.secureIn(w.socksTo(site.host()), site.host())
	if status, _ := c.ask("/private", site.host()); status != 403 {
		t.Errorf("got %d", status)
	}
	if status, body := c.ask("/public", site.host()); status != 200 {
		t.Errorf("got %d %s", status, body)
	}
}

// A client that is not served is told why, as far as SOCKS has words for it.
func TestSOCKSReplies(t *testing.T) {
	dead := deadPort(t)
	always := newWorld(t, func(s *settings) {
		s.tunnels.Mode = opaque.Never
		s.policies = newSays("404")
	})
	reads := newWorld(t)
	refuses := newWorld(t, func(s *settings) {
		s.tunnels.Mode = opaque.WhenNeeded
		s.policies = newSays("User-agent: *\nDisallow: /")
	})
	for _, test := range []struct {
		name, request string
		w             *world
		want          socks.Reply
	}{
		{"BIND", socksRequest(2, "example.com:80"), reads, socks.CommandNotSupported},
		{"UDP ASSOCIATE", socksRequest(3, "0.0.0.0:0"), reads, socks.CommandNotSupported},
		{"an unknown type of address", "\x05\x01\x00\x02\x00\x00\x00\x00", reads, socks.AddressTypeNotSupported},
		{"a host that is none", socksRequest(1, "user@localhost:80"), reads, socks.Failed},
		{"a path", socksRequest(1, "localhost/private:80"), reads, socks.Failed},
		{"no host", socksRequest(1, ":80"), reads, socks.Failed},
		{"an octal address", socksRequest(1, "0177.0.0.1:80"), reads, socks.Failed},
		{"another host's port in the name", "\x05\x01\x00\x03\x0blocalhost:1\x00\x50", reads, socks.Failed},
		{"a tunnel that is read", socksRequest(1, "localhost:"+dead), reads, socks.Succeeded},
		{"a site that is wholly disallowed", socksRequest(1, "localhost:"+dead), refuses, socks.NotAllowed},
		{"a port where nobody listens", socksRequest(1, "localhost:"+dead), always, socks.ConnectionRefused},
		{"a name that does not exist", socksRequest(1, "no.such.host.invalid:443"), always, socks.HostUnreachable},
		{"an address that the operator denies", socksRequest(1, "denied.test:80"), always, socks.NotAllowed},
	} {
		if test.name == "an address that the operator denies" {
			newNames(t).set("denied.test", "169.254.169.254")
		}
		c := test.w.dialSOCKS()
		c.send("\x05\x01\x00" + test.request)
		c.read(2)
		if got := socks.Reply(c.read(10)[1]); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
		if test.want != socks.Succeeded {
			if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
				t.Errorf("%s: followed by %q, %v", test.name, rest, err)
			}
		}
		c.Close()
	}
	refuses.log.WaitLine(t, nil, `"door":"socks"`)
}

// deadPort is a port of this machine where nobody listens.
func deadPort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// What is no SOCKS 5, and a tunnel that carries neither TLS nor HTTP, is closed, and the log
// says so.
func TestSOCKSOfOtherProtocols(t *testing.T) {
	w := newWorld(t)
	for text, want := range map[string]string{
		"\x04\x01\x00\x50\x7f\x00\x00\x01\x00":                                       "does not speak SOCKS 5",
		"GET http://localhost/ HTTP/1.1\r\n\r\n":                                     "does not speak SOCKS 5",
		"\x05\x01\x01":                                                               "offers no method",
		"\x05\x01\x00" + socksRequest(1, "localhost:22") + "SSH-2.0-x\r\n":           "neither TLS nor HTTP",
		"\x05\x01\x00" + socksRequest(1, faraway+":22") + "\x00\x01binary\x00\x00\n": "neither TLS nor HTTP",
	} {
		c := w.dialSOCKS()
		c.send(text)
		io.Copy(io.Discard, c) // to its end
		w.log.WaitLine(t, nil, want)
	}
	w.gauge("robotsproxy_connections", 0)
}

// The user of SOCKS is that of Proxy-Authorization: one of the file's if there is one, else
// whom the client says it is.
func TestSOCKSUsers(t *testing.T) {
	site := func(s *settings) {
		s.gate.Identities.Entries = []identity.Entry{{
			Name: "images", Match: identity.Match{Users: []string{"images"}},
			Identity: identity.Identity{ProductTokens: []string{"ImageBot"}, Mode: identity.Enforce},
		}}
	}
	credentials := func(user, password string) string {
		return "\x01" + string(rune(len(user))) + user + string(rune(len(password))) + password
	}
	checked := func(s *settings) { s.clients.Htpasswd = htpasswd(t) }
	for _, test := range []struct {
		name, methods, credentials string
		change                     func(*settings)
		method, right              byte
		identity                   string
	}{
		{"nobody, on trust", "\x05\x01\x00", "", func(*settings) {}, 0, 0, "default"},
		{"a user, on trust", "\x05\x02\x00\x02", credentials("images", "whatever"), func(*settings) {}, 2, 0, "images"},
		{"another user, on trust", "\x05\x01\x02", credentials("somebody", ""), func(*settings) {}, 2, 0, "default"},
		{"a user, checked", "\x05\x02\x00\x02", credentials("images", "pass:word"), checked, 2, 0, "images"},
		{"a wrong password", "\x05\x01\x02", credentials("images", "wrong"), checked, 2, 1, ""},
		{"no such user", "\x05\x01\x02", credentials("nobody", "pass:word"), checked, 2, 1, ""},
		{"a user with a part of the password", "\x05\x01\x02", credentials("images:pass", "word"), checked, 2, 1, ""},
		{"no password", "\x05\x01\x00", "", checked, 0xff, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := guardedWorld(t, site, test.change)
			g := newGuarded(t, "http")
			c := w.dialSOCKS()
			c.send(test.methods + test.credentials)
			if got := c.read(2)[1]; got != test.method {
				t.Fatalf("method %d, want %d", got, test.method)
			}
			if test.credentials != "" {
				if got := c.read(2); got[0] != 1 || got[1] != test.right {
					t.Fatalf("the reply to the credentials is %q", got)
				}
			}
			if test.identity == "" {
				if rest, _ := io.ReadAll(c); len(rest) > 0 {
					t.Errorf("followed by %q", rest)
				}
				return
			}
			c.send(socksRequest(1, g.host()))
			if reply := socks.Reply(c.read(10)[1]); reply != socks.Succeeded {
				t.Fatal(reply)
			}
			c.ask("/public", g.host())
			w.log.WaitLine(t, nil, fmt.Sprintf(`"identity":%q`, test.identity))
		})
	}
}

// Clients that may not use the proxy are refused by SOCKS too, and those on other machines
// are not led to this one's loopback.
func TestSOCKSClientsElsewhere(t *testing.T) {
	var far atomic.Bool
	far.Store(true)
	g := newGuarded(t, "http")

	stranger := guardedWorld(t, withFar(&far), func(s *settings) {
		s.clients = access.Defaults()
		s.clients.Htpasswd = htpasswd(t)
	})
	for _, wanted := range []string{g.host(), "127.0.0.1:" + g.port} {
		if _, reply := stranger.askSOCKS(wanted); reply != socks.NotAllowed {
			t.Errorf("%s: a stranger got %v", wanted, reply)
		}
	}
	admitted := newWorld(t, withFar(&far))
	for _, wanted := range []string{g.host(), "127.0.0.1:" + g.port} {
		if status, _ := admitted.socksTo(wanted).ask("/public", g.host()); status != http.StatusBadGateway {
			t.Errorf("%s: got %d", wanted, status)
		}
	}
	unread := newWorld(t, withFar(&far), func(s *settings) { s.tunnels.Mode = opaque.Never })
	if _, reply := unread.askSOCKS(g.host()); reply != socks.NotAllowed {
		t.Errorf("an opaque tunnel got %v", reply)
	}
	if pages := g.pages(); len(pages) > 0 {
		t.Errorf("the site was asked for %q", pages)
	}

	other := newWorld(t, func(s *settings) {
		s.clients.Connections = func(client, proxy netip.AddrPort) error { return fmt.Errorf("%v is another user's", client) }
	})
	for _, wanted := range []string{g.host(), "127.0.0.1:" + g.port} {
		if _, reply := other.askSOCKS(wanted); reply != socks.NotAllowed {
			t.Errorf("%s: another user got %v", wanted, reply)
		}
	}
}

// A tunnel that is not read is joined to its origin, and judged by its name or,
// for an address, by the server that its TLS asks for.
func TestSOCKSOpaque(t *testing.T) {
	w := newWorld(t, func(s *settings) {
		s.tunnels.Mode = opaque.Never
		s.policies = newSays("404")
	})
	site := w.origin("https", nil)
	_, port, _ := net.SplitHostPort(site.host())
	for _, host := range []string{"127.0.0.1", "localhost"} {
		conn := tls.Client(w.socksTo(host+":"+port), &tls.Config{InsecureSkipVerify: true, ServerName: host})
		must(t, conn.Handshake())
		if !conn.ConnectionState().PeerCertificates[0].Equal(site.Certificate()) {
			t.Errorf("the tunnel to %s is read", host)
		}
		w.gauge("robotsproxy_tunnels", 1)
		conn.Close()
		w.gauge("robotsproxy_tunnels", 0)
	}
	w.log.WaitLine(t, nil, `"method":"CONNECT"`)
}

// hangs supplies no policy before the one who asks gives up.
type hangs struct{ asked chan struct{} }

func (h hangs) Policy(ctx context.Context, _ robots.Origin, _ keeper.Sender) (*policy.Policy, error) {
	h.asked <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// Nothing waits on for a client that leaves before its tunnel is open.
func TestSOCKSClientLeavesBeforeItsTunnel(t *testing.T) {
	site := hangs{make(chan struct{})}
	w := newWorld(t, func(s *settings) {
		s.tunnels.Mode = opaque.Never
		s.policies = site
	})
	c := w.dialSOCKS()
	c.send("\x05\x01\x00" + socksRequest(1, "example.com:443"))
	<-site.asked
	w.gauge("robotsproxy_connections", 1)
	c.Close()
	w.gauge("robotsproxy_connections", 0)
}

// Shutdown closes connections that have asked for nothing, and waits for what is under way.
func TestSOCKSShutdown(t *testing.T) {
	w := guardedWorld(t)
	hold := make(chan struct{})
	began := make(chan struct{})
	site := w.origin("http", func(rw http.ResponseWriter, r *http.Request) {
		close(began)
		<-hold
		io.WriteString(rw, "whole")
	})
	idle, greeted, opened := w.dialSOCKS(), w.dialSOCKS(), w.socksTo(site.host())
	greeted.send("\x05\x01\x00")
	greeted.read(2)
	busy := w.socksTo(strings.Replace(site.host(), "127.0.0.1", "localhost", 1))
	host := strings.Replace(site.host(), "127.0.0.1", "localhost", 1)
	busy.send("GET /slow HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
	<-began
	ended := make(chan error, 1)
	go func() { ended <- w.server.Shutdown(context.Background()) }()
	for _, c := range []*rawConn{idle, greeted, opened} {
		io.Copy(io.Discard, c) // to its end
	}
	close(hold)
	if _, body := busy.response(http.MethodGet); body != "whole" {
		t.Errorf("got %q", body)
	}
	must(t, <-ended)
	w.gauge("robotsproxy_connections", 0)
}
