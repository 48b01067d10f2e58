package proxy_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"robotsproxy/internal/conntest"
)

// If a request's body ends wrongly, or is not read to its end, the connection is closed:
// what follows must not be read as a request.
func TestBodiesThatEndEarly(t *testing.T) {
	const hidden = "GET http://HOST/public HTTP/1.1\r\nHost: HOST\r\n\r\n"
	gone := conntest.Serve(t, "127.0.0.1:0", func(conn net.Conn) { // takes a request and leaves
		conn.Read(make([]byte, 4<<10))
	})
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	dead.Close()
	w := guardedWorld(t, func(s *settings) { s.policies = newSays(allowsAll) })
	g := newGuarded(t, "http")
	for _, site := range []string{dead.Addr().String(), gone, g.host()} {
		for _, body := range []string{
			"Content-Length: 10000000\r\n\r\n" + strings.Repeat(hidden, 10),
			"Transfer-Encoding: chunked\r\n\r\n" + chunk("x")[:6] + hidden,
			"Transfer-Encoding: chunked\r\n\r\n1\r\nx" + hidden,
			"Transfer-Encoding: chunked\r\n\r\nx\r\n" + hidden,
		} {
			if site != dead.Addr().String() && strings.HasPrefix(body, "Content") {
				continue // which wait for the rest
			}
			c := w.dial()
			c.send("POST http://" + site + "/upload HTTP/1.1\r\nHost: x\r\n" + strings.ReplaceAll(body, "HOST", g.host()))
			go io.WriteString(c.Conn, strings.Repeat(strings.ReplaceAll(hidden, "HOST", g.host()), 8000))
			resp, _ := c.response(http.MethodPost)
			if resp.StatusCode < 400 || !resp.Close {
				t.Errorf("%s, %q: %s, close %v", site, body, resp.Status, resp.Close)
			}
			if rest, _ := io.ReadAll(c); len(rest) > 0 {
				t.Errorf("%s, %q: followed by %q", site, body, rest)
			}
		}
	}
	for _, page := range g.pages() {
		if page != "/upload" {
			t.Errorf("the site was asked for %s", page)
		}
	}
}

// An HTTP/1.0 client gets nothing that HTTP/1.0 does not have, and a connection is closed
// when either side says so.
func TestConnectionsThatEnd(t *testing.T) {
	for _, d := range doors {
		w := guardedWorld(t)
		g := newGuarded(t, d.scheme)
		for _, test := range []struct {
			path, rest string
			stays      bool
		}{
			{"/pieces", "HTTP/1.0\r\n", false},
			{"/pieces", "HTTP/1.0\r\nConnection: keep-alive\r\n", false},
			{"/pieces", "HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n", false},
			{"/pieces", "HTTP/1.1\r\nHost: HOST\r\nConnection: Close, x\r\n", false},
			{"/pieces", "HTTP/1.1\r\nHost: HOST\r\n", true},
			{"/private", "HTTP/1.0\r\n", false},
			{"/private", "HTTP/1.0\r\nConnection: keep-alive\r\n", true},
			{"/private", "HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n", false},
			{"/private", "HTTP/1.1\r\nHost: HOST\r\n", true},
		} {
			c := d.open(w, g)
			for range 2 {
				c.send("GET " + d.prefix(g.host()) + test.path + " " + strings.ReplaceAll(test.rest, "HOST", g.host()) + "\r\n")
				resp, body := c.response(http.MethodGet)
				want := map[string]int{"/pieces": 200, "/private": 403}[test.path]
				if resp.StatusCode != want || want == 200 && body != "a page" || resp.Close == test.stays {
					t.Errorf("%s, %s %q: %s, close %v, %q", d.name, test.path, test.rest, resp.Status, resp.Close, body)
				}
				if strings.HasPrefix(test.rest, "HTTP/1.0") && len(resp.TransferEncoding) > 0 {
					t.Errorf("%s, %s %q: the response is chunked", d.name, test.path, test.rest)
				}
				if !test.stays {
					break
				}
			}
			if !test.stays {
				if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
					t.Errorf("%s, %s %q: followed by %q, %v", d.name, test.path, test.rest, rest, err)
				}
			}
			c.Close()
		}
	}
}
