package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Where an origin breaks off the connection of a client with a large header, or fails, that holds
// the origin for nobody, and breaks off no other request.
func TestOriginsThatBreakOffLargeHeaders(t *testing.T) {
	t.Parallel()
	w := start(t, "pace: {back_off: {after: 2, first: 1h}, max_wait: 1s}", "upstream: {ca_file: ORIGINS}")
	var many []string
	for i := range 100 {
		many = append(many, "-H", fmt.Sprintf("X-%d: x", i))
	}
	large := []string{"-H", "X-Large: " + strings.Repeat("x", 3000)}
	goAway := func(code http2.ErrCode) func(*http2.Framer, uint32) {
		return func(f *http2.Framer, stream uint32) { f.WriteGoAway(stream, code, nil) }
	}
	reset := func(f *http2.Framer, stream uint32) { f.WriteRSTStream(stream, http2.ErrCodeEnhanceYourCalm) }
	refused := func(r *http.Request) bool { return len(r.Header) > 90 || r.Header.Get("X-Large") != "" }
	byHTTP1 := func(status int) func(*testing.T, chan bool) string {
		return func(t *testing.T, held chan bool) string {
			return newOrigin(t, "http", shop(), func(w http.ResponseWriter, r *http.Request) {
				switch {
				case refused(r) && status == 0:
					panic(http.ErrAbortHandler)
				case refused(r):
					w.WriteHeader(status)
				case r.URL.Path == "/products/held":
					held <- true
					<-held
				}
			}).URL
		}
	}
	byHTTP2 := func(breakOff func(*http2.Framer, uint32)) func(*testing.T, chan bool) string {
		return func(t *testing.T, held chan bool) string { return newFramedOrigin(t, refused, breakOff, held) }
	}
	for name, test := range map[string]struct {
		site   func(*testing.T, chan bool) (url string)
		header []string
		status int
	}{
		"closes":            {byHTTP1(0), large, 502},
		"fails":             {byHTTP1(500), large, 500},
		"protocol error":    {byHTTP2(goAway(http2.ErrCodeProtocol)), large, 502},
		"enhance your calm": {byHTTP2(goAway(http2.ErrCodeEnhanceYourCalm)), large, 502},
		"resets the stream": {byHTTP2(reset), large, 502},
		"too many fields":   {byHTTP2(reset), many, 502},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held, done := make(chan bool), make(chan reply, 1)
			site := test.site(t, held)
			go func() { done <- w.curl(site + "/products/held") }()
			<-held
			for range 3 {
				r := w.curl(append(test.header, site+"/products/1")...)
				if r.status != test.status || r.status == 502 && !strings.Contains(r.body, "The request's header is large") {
					t.Errorf("a large header: status %d, want %d: %s", r.status, test.status, r.body)
				}
			}
			held <- true
			if r := <-done; r.status != 200 {
				t.Errorf("who was there before gets status %d: %s", r.status, r.body)
			}
			if r := w.curl(site + "/products/1"); r.status != 200 {
				t.Errorf("the next client gets status %d: %s", r.status, r.body)
			}
		})
	}
}

// newFramedOrigin starts an https site that writes HTTP/2 frame by frame. breakOff does what it
// does of a request that refused picks; then it closes the connection. A request for
// /products/held is answered once held has been read from and sent to. All others get an empty
// page. It is an ordinary site by HTTP/1.1.
func newFramedOrigin(t *testing.T, refused func(*http.Request) bool, breakOff func(*http2.Framer, uint32), held chan bool) (url string) {
	t.Helper()
	site := httptest.NewUnstartedServer(shop())
	site.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	site.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
		defer conn.Close()
		io.ReadFull(conn, make([]byte, len(http2.ClientPreface)))
		f := http2.NewFramer(conn, conn)
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		f.WriteSettings()
		var writing sync.Mutex
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			fields, ok := frame.(*http2.MetaHeadersFrame)
			if !ok {
				continue
			}
			header := http.Header{}
			for _, field := range fields.Fields {
				header.Add(field.Name, field.Value)
			}
			answer := func() {
				writing.Lock()
				defer writing.Unlock()
				// 8 stands for ":status: 200" (RFC 7541, appendix A).
				f.WriteHeaders(http2.HeadersFrameParam{StreamID: fields.StreamID, BlockFragment: []byte{0x80 | 8}, EndStream: true, EndHeaders: true})
			}
			switch {
			case refused(&http.Request{Header: header}):
				writing.Lock()
				defer writing.Unlock()
				breakOff(f, fields.StreamID)
				return
			case header.Get(":path") == "/products/held":
				go func() {
					held <- true
					<-held
					answer()
				}()
			default:
				answer()
			}
		}
	}}
	site.StartTLS()
	t.Cleanup(site.Close)
	return site.URL
}
