package proxy_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/net/http2"

	"robotsproxy/internal/conntest"
	"robotsproxy/proxy/opaque"
)

// endless is a body that does not end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// impatientWorld returns a world with a short stall timeout.
func impatientWorld(t *testing.T, change ...func(*settings)) *world {
	return newWorld(t, append(change, func(s *settings) { s.proxy.Limits.StallTimeout = 200 * time.Millisecond })...)
}

// An upload that stands still is answered if it still can be. The answer says who is at
// fault.
func TestUploadsThatStandStill(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		for _, scheme := range []string{"http", "https", "https/1.1"} {
			release := make(chan struct{})
			w := impatientWorld(t)
			o := w.origin(scheme, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/reads" {
					io.Copy(io.Discard, r.Body)
					return
				}
				select {
				case <-release:
				case <-r.Context().Done():
				}
			})
			t.Cleanup(func() { close(release) })
			silence, pieces := io.Pipe()
			go pieces.Write([]byte("ten octets"))
			for path, body := range map[string]io.Reader{"/reads": silence, "/reads-nothing": endless{}} {
				want := map[string]string{"/reads": "408 http_request_error", "/reads-nothing": "504 connection_write_timeout"}[path]
				resp, err := w.client(version).Post(o.URL+path, "text/plain", body)
				if err != nil {
					t.Errorf("%s %s: %v", scheme, path, err)
					continue
				}
				if shape(resp) != want {
					t.Errorf("%s %s: %s, want %s", scheme, path, shape(resp), want)
				}
				resp.Body.Close()
				w.log.WaitLine(t, nil, `"message":"request"`, o.URL+path+`"`, `"status":`+want[:3], `"error":"broken off: `)
			}
			pieces.Close()
		}
	})
}

// A response that stands still is cut short.
func TestDownloadsThatStandStill(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		for _, scheme := range []string{"http", "https", "https/1.1"} {
			w := impatientWorld(t)
			o := w.origin(scheme, func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, "begun")
				w.(http.Flusher).Flush()
				<-r.Context().Done() // the proxy has left
			})
			resp, err := w.client(version).Get(o.URL + "/")
			must(t, err)
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if string(body) != "begun" || err == nil {
				t.Errorf("%s: %q, %v", scheme, body, err)
			}
			w.log.WaitLine(t, nil, `"message":"request"`, `"status":200`, `"error":"broken off: neither side sent anything for 200ms"`)
		}
	})
}

// A client that takes nothing loses its response. Over HTTP/2 it loses nothing else.
func TestClientsThatTakeNothing(t *testing.T) {
	for _, scheme := range []string{"https", "https/1.1"} {
		w := impatientWorld(t)
		o := w.origin(scheme, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				io.Copy(w, endless{})
			}
		})
		c := w.dial()
		c.send("GET " + o.URL + "/long?h1 HTTP/1.1\r\nHost: x\r\n\r\n")
		w.log.WaitLine(t, nil, `"message":"request"`, "/long?h1", `"error":"broken off: the client took nothing for 200ms"`)
		c.Close()

		f := w.framesTo(o.host())
		ask := func(stream uint32, path string) {
			f.ask(stream, ":method", "GET", ":scheme", "https", ":authority", o.host(), ":path", path)
		}
		ask(1, "/long?h2")
		w.log.WaitLine(t, nil, `"message":"request"`, "/long?h2", `"error":"broken off: the client took nothing for 200ms"`)
		f.WriteWindowUpdate(0, 1<<20)
		ask(3, "/short")
		if got := f.status(3); got != 200 {
			t.Errorf("%s: a request beside the stalled one got %d", scheme, got)
		}
	}
}

// A refusal that its client does not read is broken off too.
func TestRefusalsThatNobodyTakes(t *testing.T) {
	w := impatientWorld(t)
	o := w.origin("https", nil)
	f := w.framesTo(o.host(), http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	f.ask(1, ":method", "GET", ":scheme", "https", ":authority", o.host(), ":path", "/private")
	if got := f.status(1); got != 403 {
		t.Errorf("got status %d", got)
	}
	for { // it is reset
		frame, err := f.ReadFrame()
		must(t, err)
		if _, reset := frame.(*http2.RSTStreamFrame); reset {
			return
		}
	}
}

// A connection on which nothing is read is closed, however little is left to send.
func TestConnectionsOnWhichNothingIsTaken(t *testing.T) {
	var clogged atomic.Bool
	w := impatientWorld(t, func(s *settings) {
		s.onListener = func(l net.Listener) net.Listener { return clogging{l, &clogged} }
	})
	o := w.origin("http", nil)
	c := w.dial()
	c.send("GET " + o.URL + "/private HTTP/1.1\r\nHost: x\r\n\r\n")
	c.response(http.MethodGet)
	w.gauge("robotsproxy_connections", 1)
	clogged.Store(true)
	c.send("GET " + o.URL + "/private HTTP/1.1\r\nHost: x\r\n\r\n")
	w.gauge("robotsproxy_connections", 0)
}

func TestUnreadTunnelsThatStandStill(t *testing.T) {
	for name, test := range map[string]struct {
		client func(*rawConn)
		origin func(net.Conn)
		want   string
	}{
		"silence":                  {func(*rawConn) {}, func(c net.Conn) { io.Copy(io.Discard, c) }, "neither side sent anything"},
		"the client takes nothing": {func(*rawConn) {}, func(c net.Conn) { io.Copy(c, endless{}) }, "the client took nothing"},
		"the origin takes nothing": {func(c *rawConn) { io.Copy(c.Conn, endless{}) }, func(c net.Conn) { c.Read(make([]byte, 1)) }, "the origin took nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			w := impatientWorld(t, func(s *settings) {
				s.policies = newSays(allowsAll)
				s.tunnels.Mode = opaque.Never
			})
			done := make(chan struct{})
			defer close(done)
			c := w.tunnel(conntest.Serve(t, "127.0.0.1:0", func(conn net.Conn) {
				test.origin(conn)
				<-done
			}))
			c.send("x")
			go test.client(c)
			w.log.WaitLine(t, nil, `"method":"CONNECT"`, `"error":"broken off: `+test.want)
			w.gauge("robotsproxy_tunnels", 0)
		})
	}
}

func TestWebSocketsThatStandStill(t *testing.T) {
	for _, want := range []string{"neither side sent anything", "the client took nothing", "the origin took nothing"} {
		w := impatientWorld(t)
		o := w.origin("https", func(rw http.ResponseWriter, r *http.Request) {
			conn, err := websocket.Accept(rw, r, nil)
			if err != nil {
				return
			}
			defer conn.CloseNow()
			ctx := context.Background()
			for err == nil && want == "the client took nothing" {
				err = conn.Write(ctx, websocket.MessageBinary, make([]byte, 1<<16))
			}
			if want == "neither side sent anything" {
				conn.Read(ctx)
				return
			}
			w.log.WaitLine(t, nil, "broken off")
		})
		conn, _, err := websocket.Dial(context.Background(), strings.Replace(o.URL, "https", "wss", 1)+"/", &websocket.DialOptions{HTTPClient: w.client("h1")})
		must(t, err)
		for err == nil && want == "the origin took nothing" {
			err = conn.Write(context.Background(), websocket.MessageBinary, make([]byte, 1<<16))
		}
		w.log.WaitLine(t, nil, `"message":"request"`, `"status":101`, `"error":"broken off: `+want)
		conn.CloseNow()
	}
}

// A new stall timeout applies to what begins after it was set.
func TestStallTimeoutIsReplaced(t *testing.T) {
	w := newWorld(t)
	o := w.origin("http", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "begun")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	w.server.SetStallTimeout(20 * time.Millisecond)
	resp, err := w.client("h1").Get(o.URL + "/")
	must(t, err)
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the response was not cut short")
	}
}

// A client that sends all of its request before it reads gets the answer all the same, and
// the answer does not wait for a body that never comes.
func TestAnswersToUploadsUnderWay(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.upstream.Deny = nil })
	o := w.origin("http", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) })
	for target, want := range map[string]int{o.URL + "/private": 403, o.URL + "/big": 413, "http://127.1/": 400, "/": 404} {
		for _, length := range []string{"Content-Length: 50000000", "Transfer-Encoding: chunked"} {
			c := w.dial()
			c.send("POST " + target + " HTTP/1.1\r\nHost: x\r\n" + length + "\r\n\r\n")
			if strings.HasPrefix(length, "Transfer") {
				c.send("2faf080\r\n") // 50,000,000
			}
			if _, err := io.CopyN(c.Conn, endless{}, 50_000_000); err != nil {
				t.Errorf("%s, %s: %v", target, length, err)
			}
			if resp, _ := c.response(http.MethodPost); resp.StatusCode != want || !resp.Close {
				t.Errorf("%s, %s: %s, close %v", target, length, resp.Status, resp.Close)
			}

			if want == 413 && strings.HasPrefix(length, "Transfer") {
				continue // for which net/http, as the origin, waits
			}
			c = w.dial()
			c.send("POST " + target + " HTTP/1.1\r\nHost: x\r\n" + length + "\r\n\r\n")
			if resp, _ := c.response(http.MethodPost); resp.StatusCode != want || !resp.Close {
				t.Errorf("%s, %s, and no more: %s, close %v", target, length, resp.Status, resp.Close)
			}
			c.Close()
		}
	}
	// After a short body the connection can be used again.
	c := w.dial()
	for range 2 {
		c.send("POST " + o.URL + "/private HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
		if resp, _ := c.response(http.MethodPost); resp.StatusCode != 403 || resp.Close {
			t.Errorf("a short body: %s, close %v", resp.Status, resp.Close)
		}
	}
}
