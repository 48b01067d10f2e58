package proxy_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// Each case is what a client sends before it falls silent, and how long the proxy then waits
// in that phase of the connection.
func TestSlowClients(t *testing.T) {
	const bound = 500 * time.Millisecond
	w := guardedWorld(t, func(s *settings) {
		s.proxy.Limits.HeaderTimeout = bound
		s.proxy.Limits.IdleTimeout = bound
	})
	plain, secure := newGuarded(t, "http"), newGuarded(t, "https")
	get := func(target string) string { return "GET " + target + " HTTP/1.1\r\nHost: %s\r\n\r\n" }
	asked := func(open func() *rawConn, g *guarded, target string) func() *rawConn {
		return func() *rawConn {
			c := open()
			c.send(fmt.Sprintf(get(target), g.host()))
			c.response(http.MethodGet)
			return c
		}
	}
	outside := w.dial
	inPlain := func() *rawConn { return w.tunnelTo(plain) }
	inTLS := func() *rawConn { return w.secureTo(secure) }
	inHTTP2 := func() *rawConn { return w.frames(secure).conn }
	const part = "GET / HTTP/1.1\r\nHost: localhost\r\nX: "
	phases := map[string]struct {
		open func() *rawConn
		said string
	}{
		"nothing":                    {outside, ""},
		"part of a line":             {outside, "GET http://exa"},
		"part of a header":           {outside, part},
		"part of a CONNECT":          {outside, "CONNECT localhost:443 HTTP/1.1\r\nHost"},
		"idle":                       {asked(outside, plain, "http://"+plain.host()+"/public"), ""},
		"idle after a refusal":       {asked(outside, plain, "http://"+plain.host()+"/private"), ""},
		"part of a second header":    {asked(outside, plain, "http://"+plain.host()+"/public"), part},
		"nothing in a tunnel":        {inPlain, ""},
		"part of a method":           {inPlain, "GE"},
		"part of a header inside":    {inPlain, part},
		"idle in a tunnel":           {asked(inPlain, plain, "/public"), ""},
		"a byte of TLS":              {inPlain, "\x16"},
		"part of a handshake":        {inPlain, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"},
		"nothing in TLS":             {inTLS, ""},
		"part of a header in TLS":    {inTLS, part},
		"idle in TLS":                {asked(inTLS, secure, "/public"), ""},
		"part of a second one":       {asked(inTLS, secure, "/public"), part},
		"nothing in HTTP/2":          {inHTTP2, ""},
		"part of a header in HTTP/2": {inHTTP2, "\x00\x00\x40\x01\x05\x00\x00\x00\x01abc"},
		"a header without its end":   {inHTTP2, "\x00\x00\x01\x01\x01\x00\x00\x00\x01\x82"},
	}
	t.Run("all", func(t *testing.T) {
		for name, phase := range phases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := phase.open()
				defer c.Close()
				c.send(phase.said)
				stop := make(chan struct{})
				if strings.Contains(phase.said, ":") {
					go c.drip(stop, bound/10)
				}
				if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("the connection is still open")
				}
				close(stop)
			})
		}
	})
	w.gauge("robotsproxy_connections", 0)
}

// drip writes an octet after each pause.
func (c *rawConn) drip(stop <-chan struct{}, pause time.Duration) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(pause):
			io.WriteString(c.Conn, "x")
		}
	}
}

// Many slow clients do not hinder others, and are closed.
func TestManySlowClients(t *testing.T) {
	const many = 500
	w := guardedWorld(t, func(s *settings) { s.proxy.Limits.HeaderTimeout = 2 * time.Second })
	g := newGuarded(t, "https")
	for i := range many {
		c := w.dial()
		c.send([]string{"GET http://localhost/ HTTP/1.1\r\nX: ", "CONNECT localhost:443 HTTP/1.1\r\nHost: x\r\n\r\n\x16\x03\x01"}[i%2])
	}
	if resp, _ := get(t, w.client("h2"), "https://"+g.host()+"/public"); resp.StatusCode != 200 {
		t.Errorf("beside slow clients: %s", resp.Status)
	}
	w.gauge("robotsproxy_connections", 1)
}

func TestLongHeaders(t *testing.T) {
	w := guardedWorld(t, func(s *settings) { s.proxy.Limits.MaxHeaderBytes = 8 << 10 })
	long := "X: " + strings.Repeat("x", 16<<10) + "\r\n"
	for _, d := range doors {
		g := newGuarded(t, d.scheme)
		for _, request := range []string{
			"GET " + d.prefix(g.host()) + "/public HTTP/1.1\r\nHost: " + g.host() + "\r\n" + long + "\r\n",
			"GET " + d.prefix(g.host()) + "/public HTTP/1.1\r\nHost: " + g.host() + "\r\n" + strings.Repeat("X: y\r\n", 4<<10) + "\r\n",
			"GET " + d.prefix(g.host()) + "/" + strings.Repeat("x", 16<<10) + " HTTP/1.1\r\nHost: " + g.host() + "\r\n\r\n",
		} {
			if got := d.exchange(w, g, request, http.MethodGet); len(got) != 1 || got[0] != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%s, %.30q: %v", d.name, request, got)
			}
		}
		if pages := g.pages(); len(pages) > 0 {
			t.Errorf("%s: the site was asked for %.100q", d.name, pages)
		}
	}
	g := newGuarded(t, "https")
	f := w.frames(g)
	f.ask(1, ":method", "GET", ":scheme", "https", ":authority", g.host(), ":path", "/public", "x", strings.Repeat("x", 5<<10), "y", strings.Repeat("y", 5<<10))
	if got := f.status(1); got != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("HTTP/2: %d", got)
	}
}

// A client that stops reading stops its origin too.
func TestClientsThatStopReading(t *testing.T) {
	const many, size = 20, 100 << 20
	for name, open := range map[string]func(w *world, g *origin) io.Reader{
		"absolute form": func(w *world, o *origin) io.Reader {
			c := w.dial()
			c.send("GET " + o.URL + "/long HTTP/1.1\r\nHost: x\r\n\r\n")
			return c
		},
		"CONNECT, TLS": func(w *world, o *origin) io.Reader {
			c := w.secure(o.host())
			c.send("GET /long HTTP/1.1\r\nHost: " + o.host() + "\r\n\r\n")
			return c
		},
		"CONNECT, HTTP/2": func(w *world, o *origin) io.Reader {
			c := w.secure(o.host(), "h2")
			c.send(http2.ClientPreface)
			f := &frames{Framer: http2.NewFramer(c.Conn, c)}
			f.encoder = newEncoder(f)
			f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
			f.WriteWindowUpdate(0, 1<<31-1-65535)
			f.ask(1, ":method", "GET", ":scheme", "https", ":authority", o.host(), ":path", "/long")
			return c
		},
	} {
		for _, scheme := range []string{"https", "https/1.1"} {
			t.Run(name+", "+scheme, func(t *testing.T) {
				w := newWorld(t)
				var sent atomic.Int64
				o := w.origin(scheme, func(w http.ResponseWriter, r *http.Request) {
					for range size / (64 << 10) {
						n, err := w.Write(make([]byte, 64<<10))
						if err != nil {
							return
						}
						sent.Add(int64(n))
					}
				})
				before := heap()
				var clients []io.Reader
				for range many {
					c := open(w, o)
					io.ReadFull(c, make([]byte, 10))
					clients = append(clients, c)
				}
				settled(&sent)
				if each := (int64(heap()) - int64(before)) / many; each > 2<<20 {
					t.Errorf("a client that does not read takes %d KiB", each>>10)
				} else {
					t.Logf("each takes %d KiB, its origin sent %d KiB", each>>10, sent.Load()/many>>10)
				}
				runtime.KeepAlive(clients)
			})
		}
	}
}

// heap returns the octets of the heap in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// settled waits until a count no longer changes.
func settled(count *atomic.Int64) {
	for last := int64(-1); count.Load() != last; time.Sleep(200 * time.Millisecond) {
		last = count.Load()
	}
}
