package proxy_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames is a client that writes HTTP/2 frame by frame, without any check.
type frames struct {
	*http2.Framer
	conn    *rawConn
	encoder *hpack.Encoder
	block   bytes.Buffer
	fields  map[string]string // of the response to stream 1
	decoder *hpack.Decoder
}

func (w *world) frames(g *guarded) *frames {
	w.t.Helper()
	return w.framesTo(g.host())
}

// framesTo opens a connection that begins with these settings.
func (w *world) framesTo(host string, settings ...http2.Setting) *frames {
	w.t.Helper()
	f := &frames{conn: w.secure(host, "h2"), fields: map[string]string{}}
	f.Framer = http2.NewFramer(f.conn.Conn, f.conn)
	f.AllowIllegalWrites = true
	f.encoder = newEncoder(f)
	f.decoder = hpack.NewDecoder(4096, func(hf hpack.HeaderField) { f.fields[hf.Name] = hf.Value })
	f.conn.send(http2.ClientPreface)
	must(w.t, f.WriteSettings(settings...))
	return f
}

func newEncoder(f *frames) *hpack.Encoder { return hpack.NewEncoder(&f.block) }

// encode returns a header block of pairs of name and value.
func (f *frames) encode(fields ...string) []byte {
	f.block.Reset()
	for i := 0; i+1 < len(fields); i += 2 {
		f.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // to memory: it doesn't fail
	}
	return bytes.Clone(f.block.Bytes())
}

// ask writes a request without a body.
func (f *frames) ask(stream uint32, fields ...string) {
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.encode(fields...), EndStream: true, EndHeaders: true})
}

// status returns the status of the response on a stream; 0 if the stream was reset or the
// connection ended.
func (f *frames) status(stream uint32) int {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return 0
		}
		switch frame := frame.(type) {
		case *http2.HeadersFrame:
			clear(f.fields)
			f.decoder.Write(frame.HeaderBlockFragment())
			if status, _ := strconv.Atoi(f.fields[":status"]); frame.StreamID == stream && status >= 200 {
				return status
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == stream {
				return 0
			}
		case *http2.GoAwayFrame:
			if frame.ErrCode != http2.ErrCodeNo {
				return 0
			}
		}
	}
}

// The evasions of the other doors, and those that only HTTP/2 allows, fail over HTTP/2.
func TestEvasionsByHTTP2(t *testing.T) {
	w := guardedWorld(t)
	g := newGuarded(t, "https")
	for _, a := range attempts() {
		f := w.frames(g)
		host := strings.ReplaceAll(a.host, "PORT", g.port)
		fields := []string{":method", a.method, ":scheme", "https", ":authority", host, ":path", a.target}
		for line := range strings.SplitSeq(a.header, "\r\n") {
			if name, value, found := strings.Cut(line, ":"); found {
				fields = append(fields, strings.ToLower(name), strings.TrimSpace(value))
			}
		}
		f.ask(1, fields...)
		got := f.status(1)
		plain := a.host == "localhost:PORT" && a.header == ""
		if got != 0 && !slices.Contains(refusals, got) || plain && got != 403 {
			t.Errorf("%v: %d", a, got)
		}
		if pages := g.pages(); len(pages) > 0 {
			t.Errorf("%v: the site was asked for %q", a, pages)
		}
		f.conn.Close()
	}
	f := w.frames(g)
	for i, target := range others {
		stream := uint32(2*i + 1)
		f.ask(stream, ":method", "GET", ":scheme", "https", ":authority", g.host(), ":path", target)
		got := f.status(stream)
		if pages := g.pages(); got != 200 || !slices.Equal(pages, []string{target}) {
			t.Errorf("%q: %d, and the site was asked for %q", target, got, pages)
		}
	}
}

func TestFramesThatHideRequests(t *testing.T) {
	w := guardedWorld(t)
	g := newGuarded(t, "https")
	host := g.host()
	get := func(path string, more ...string) []string {
		return append([]string{":method", "GET", ":scheme", "https", ":authority", host, ":path", path}, more...)
	}
	asks := func(fields ...string) func(*frames) {
		return func(f *frames) { f.ask(1, fields...) }
	}
	post := func(f *frames, body string, more ...string) {
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: f.encode(append([]string{":method", "POST", ":scheme", "https", ":authority", host, ":path", "/private"}, more...)...)})
		f.WriteData(1, true, []byte(body))
	}
	for _, test := range []struct {
		name  string
		write func(f *frames)
		want  []int // any of them
	}{
		{"a path without a slash", asks(get("private")...), []int{0, 400}},
		{"an empty path", asks(get("")...), []int{0, 400}},
		{"a path in absolute form", asks(get("https://" + host + "/private")...), []int{400, 403}},
		{"a path in absolute form, elsewhere", asks(get("https://example.com/public")...), []int{400, 421}},
		{"a path in absolute form, in clear", asks(get("http://" + host + "/public")...), []int{400, 421}},
		{"a path like an authority", asks(get("//" + host + "/../../private")...), []int{403}},
		{"a path with a space", asks(get("/private HTTP/1.1")...), []int{0, 400}},
		{"a path with a tab", asks(get("/public\t/../private")...), []int{0, 400}},
		{"a path with a line", asks(get("/public HTTP/1.1\r\nHost: x\r\n\r\nGET /private")...), []int{0}},
		{"GET *", asks(get("*")...), []int{400}},
		{"OPTIONS *", asks(":method", "OPTIONS", ":scheme", "https", ":authority", host, ":path", "*"), []int{200}},

		{"no authority", asks(":method", "GET", ":scheme", "https", ":path", "/private"), []int{403}},
		{"Host instead of authority", asks(":method", "GET", ":scheme", "https", ":path", "/private", "host", host), []int{403}},
		{"another Host instead of authority", asks(":method", "GET", ":scheme", "https", ":path", "/public", "host", "example.com"), []int{421}},
		{"Host beside authority", asks(get("/private", "host", host)...), []int{403}},
		{"another Host beside authority", asks(get("/public", "host", "example.com")...), []int{421}},
		{"another Host beside authority, behind one", asks(get("/public", "host", host, "host", "example.com")...), []int{421}},
		{"a Host that is none", asks(get("/public", "host", host+"/private")...), []int{400}},
		{"another authority", asks(":method", "GET", ":scheme", "https", ":authority", "example.com", ":path", "/public"), []int{421}},
		{"another authority beside Host", asks(":method", "GET", ":scheme", "https", ":authority", "example.com", ":path", "/public", "host", host), []int{421}},
		{"another port", asks(":method", "GET", ":scheme", "https", ":authority", "localhost", ":path", "/public"), []int{421}},
		{"a path in authority", asks(":method", "GET", ":scheme", "https", ":authority", host+"/public?", ":path", "/private"), []int{400}},
		{"a query in authority", asks(":method", "GET", ":scheme", "https", ":authority", host+"?", ":path", "/private"), []int{400}},
		{"a user in authority", asks(":method", "GET", ":scheme", "https", ":authority", "localhost@"+host, ":path", "/public"), []int{0, 400}},

		{"another scheme", asks(":method", "GET", ":scheme", "http", ":authority", host, ":path", "/private"), []int{403, 421}},
		{"a scheme that nobody serves", asks(":method", "GET", ":scheme", "ftp", ":authority", host, ":path", "/public"), []int{0, 400}},
		{"a method with a request in it", asks(":method", "GET /private HTTP/1.1", ":scheme", "https", ":authority", host, ":path", "/public"), []int{400}},
		{"no method", asks(":method", "", ":scheme", "https", ":authority", host, ":path", "/public"), []int{0, 400}},

		{"two paths", asks(get("/public", ":path", "/private")...), []int{0}},
		{"two authorities", asks(get("/public", ":authority", "example.com")...), []int{0}},
		{"two methods", asks(append([]string{":method", "OPTIONS"}, get("/private")...)...), []int{0}},
		{"a pseudo-header after a field", asks("x", "y", ":method", "GET", ":scheme", "https", ":authority", host, ":path", "/public"), []int{0}},
		{"an unknown pseudo-header", asks(get("/public", ":x", "y")...), []int{0}},
		{"a response's pseudo-header", asks(get("/public", ":status", "200")...), []int{0}},
		{"a name in upper case", asks(get("/public", "X-Upper", "y")...), []int{0}},
		{"a name with a line", asks(get("/public", "x\r\ny", "z")...), []int{0}},
		{"a value with a line", asks(get("/public", "x", "y\r\nHost: example.com")...), []int{0}},
		{"a value with a NUL", asks(get("/public", "x", "\x00")...), []int{0}},

		{"Connection", asks(get("/public", "connection", "upgrade")...), []int{0, 400}},
		{"Keep-Alive", asks(get("/public", "keep-alive", "1")...), []int{0, 400}},
		{"Proxy-Connection", asks(get("/public", "proxy-connection", "keep-alive")...), []int{0, 400}},
		{"Transfer-Encoding", asks(get("/public", "transfer-encoding", "chunked")...), []int{0, 400}},
		{"Upgrade", asks(get("/public", "upgrade", "websocket")...), []int{0, 400}},
		{"TE", asks(get("/public", "te", "gzip")...), []int{0, 400}},

		{"CONNECT", asks(":method", "CONNECT", ":authority", host), []int{400}},
		{"CONNECT with a path", asks(":method", "CONNECT", ":scheme", "https", ":authority", host, ":path", "/public"), []int{0, 400}},
		{"CONNECT for a WebSocket", asks(":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", host, ":path", "/public"), []int{0, 400}},
		{"GET with a protocol", asks(get("/public", ":protocol", "websocket")...), []int{0, 400}},

		{"a body longer than its length", func(f *frames) { post(f, "xyz", "content-length", "1") }, []int{0, 403}},
		{"a body shorter than its length", func(f *frames) { post(f, "x", "content-length", "3") }, []int{0, 403}},
		{"two lengths", func(f *frames) { post(f, "xyz", "content-length", "3", "content-length", "1") }, []int{0, 403}},
		{"a body like a request", func(f *frames) { post(f, "GET /public HTTP/1.1\r\n\r\n") }, []int{403}},
		{"a path in the trailers", func(f *frames) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: f.encode(":method", "POST", ":scheme", "https", ":authority", host, ":path", "/private")})
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: true, BlockFragment: f.encode(":path", "/public")})
		}, []int{0, 403}},
		{"a header in pieces", func(f *frames) {
			block := f.encode(get("/private")...)
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, BlockFragment: block[:1]})
			for i := 1; i < len(block); i++ {
				f.WriteContinuation(1, i == len(block)-1, block[i:i+1])
			}
		}, []int{403}},
		{"empty pieces", func(f *frames) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true})
			f.WriteContinuation(1, false, nil)
			f.WriteContinuation(1, true, f.encode(get("/private")...))
		}, []int{0, 403}},
		{"pieces of two streams", func(f *frames) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, BlockFragment: f.encode(get("/public")...)})
			f.WriteContinuation(3, true, f.encode(get("/private")...))
		}, []int{0}},
		{"another frame between the pieces", func(f *frames) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, BlockFragment: f.encode(get("/public")...)})
			f.WritePing(false, [8]byte{})
		}, []int{0}},
		{"a piece of nothing", func(f *frames) { f.WriteContinuation(1, true, f.encode(get("/public")...)) }, []int{0}},
		{"a piece after the end", func(f *frames) {
			f.ask(1, get("/private")...)
			f.WriteContinuation(1, true, f.encode(":path", "/public"))
		}, []int{0, 403}},
		{"pieces without end", func(f *frames) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, BlockFragment: f.encode(get("/public")...)})
			piece := f.encode("x", strings.Repeat("y", 8<<10))
			for range 100 {
				if f.WriteContinuation(1, false, piece) != nil {
					return
				}
			}
		}, []int{0}},
		{"a header that is too long", asks(get("/public", "x", strings.Repeat("y", 65<<10))...), []int{0, 431}},
		{"a stream of the server's", func(f *frames) { f.ask(2, get("/public")...) }, []int{0}},
		{"a promise", func(f *frames) {
			f.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true, BlockFragment: f.encode(get("/public")...)})
		}, []int{0}},
		{"what was there before, by number", func(f *frames) {
			f.ask(1, get("/private")...)
			f.ask(3, get("/private")...)
		}, []int{403}},
	} {
		f := w.frames(g)
		go test.write(f) // which may end with the connection
		got := f.status(1)
		if !slices.Contains(test.want, got) {
			t.Errorf("%s: %d, want one of %d", test.name, got, test.want)
		}
		if pages := g.pages(); len(pages) > 0 {
			t.Errorf("%s: the site was asked for %q", test.name, pages)
		}
		f.conn.Close()
	}
	// Two requests at once on one connection don't take each other's verdict.
	f := w.frames(g)
	f.ask(1, get("/public")...)
	f.ask(3, get("/private")...)
	if got := f.status(3); got != http.StatusForbidden {
		t.Errorf("beside an allowed request: %d", got)
	}
}

// statusOrigin is a site over HTTP/2 whose pages have a status that no server library would
// send.
func (w *world) statusOrigin(status string) (url string) {
	s := httptest.NewUnstartedServer(nil)
	s.TLS = &tls.Config{NextProtos: []string{"h2"}}
	s.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
		io.ReadFull(conn, make([]byte, len(http2.ClientPreface)))
		framer := http2.NewFramer(conn, conn)
		framer.WriteSettings()
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			if f, begins := frame.(*http2.HeadersFrame); begins {
				block.Reset()
				encoder.WriteField(hpack.HeaderField{Name: ":status", Value: status})
				framer.WriteHeaders(http2.HeadersFrameParam{StreamID: f.StreamID, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
			}
		}
	}}
	s.Config.ErrorLog = nil
	s.StartTLS()
	w.t.Cleanup(s.Close)
	return s.URL
}

// An invalid status is answered as the origin's fault, and does not make the proxy panic.
func TestStatusesThatAreNone(t *testing.T) {
	w := newWorld(t, exempt)
	for _, status := range []string{"2000", "1000", "99", "0", "-200", "99999999999999999999", "two", ""} {
		resp, _ := get(t, w.client("h2"), w.statusOrigin(status)+"/page")
		if got := shape(resp); got != "502 http_protocol_error" {
			t.Errorf("%q: %s", status, got)
		}
	}
	if log := w.log.String(); strings.Contains(log, "panic") {
		t.Error(log)
	}
	if resp, _ := get(t, w.client("h2"), w.statusOrigin("999")+"/page"); resp.StatusCode != 999 {
		t.Errorf("999: %s", resp.Status)
	}
}
