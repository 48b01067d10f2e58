package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestMaxConnections(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.proxy.Limits.MaxConnections = 4 })
	var tunnels []*rawConn
	for range 4 {
		tunnels = append(tunnels, w.tunnel("example.com:443"))
	}
	fifth, sixth := w.dial(), w.dial()
	for _, c := range []*rawConn{fifth, sixth} {
		c.send("GET /ca.pem HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	}
	w.log.WaitLine(t, nil, `"limit":"max_connections"`)
	w.gauge("robotsproxy_connections", 4)
	tunnels[1].Close() // frees a slot for one, which then leaves it to the other
	fifth.response("GET")
	sixth.response("GET")
	w.gauge("robotsproxy_connections", 3)
	if n := strings.Count(w.log.String(), `"limit":"max_connections"`); n != 1 {
		t.Errorf("%d warnings were logged", n)
	}
}

// A connection that waits for its next request gives way, whichever door it uses.
func TestIdleConnectionsGiveWay(t *testing.T) {
	plain, secure := newGuarded(t, "http"), newGuarded(t, "https")
	ask := func(c *rawConn, target string, g *guarded) *rawConn {
		c.send("GET " + target + " HTTP/1.1\r\nHost: " + g.host() + "\r\n\r\n")
		c.response(http.MethodGet)
		return c
	}
	for name, idle := range map[string]func(*world) io.Reader{
		"absolute form":      func(w *world) io.Reader { return ask(w.dial(), plain.URL+"/public", plain) },
		"CONNECT":            func(w *world) io.Reader { return ask(w.tunnelTo(plain), "/public", plain) },
		"CONNECT, TLS":       func(w *world) io.Reader { return ask(w.secureTo(secure), "/public", secure) },
		"TLS, absolute form": func(w *world) io.Reader { return ask(w.dialTLS(), plain.URL+"/public", plain) },
		"TLS, CONNECT":       func(w *world) io.Reader { return ask(w.tunnelIn(w.dialTLS(), plain.host()), "/public", plain) },
		"SOCKS":              func(w *world) io.Reader { return ask(w.socksTo(plain.host()), "/public", plain) },
		"CONNECT, HTTP/2": func(w *world) io.Reader {
			f := w.frames(secure)
			f.ask(1, ":method", "GET", ":scheme", "https", ":authority", secure.host(), ":path", "/public")
			f.status(1)
			return f.conn
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := guardedWorld(t, func(s *settings) { s.proxy.Limits.MaxConnections = 2 })
			busy := w.tunnel("example.com:443")
			first := idle(w)
			ask(w.dial(), "/ca.pem", plain)
			io.Copy(io.Discard, first) // to its end
			w.gauge("robotsproxy_connections", 2)
			busy.send("GET /public HTTP/1.1\r\nHost: example.com:80\r\n\r\n") // it is still there
			if resp, _ := busy.response(http.MethodGet); resp.StatusCode != http.StatusMisdirectedRequest {
				t.Errorf("on the other connection: %s", resp.Status)
			}
		})
	}
}
