package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/net/http2"

	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/upstream"
)

// both runs a test over HTTP/1.1 and HTTP/2 to the client.
func both(t *testing.T, f func(t *testing.T, version string)) {
	for _, version := range []string{"h1", "h2"} {
		t.Run(version, func(t *testing.T) { f(t, version) })
	}
}

func TestHeadersOnTheWay(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		w := newWorld(t)
		o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Keep-Alive", "timeout=5") // over HTTP/2 it would break curl
			h.Set("Proxy-Authenticate", "Basic")
			h.Set("X-Origin", "yes")
			h.Set("Content-Encoding", "br")
			h["Date"] = nil
			w.WriteHeader(http.StatusTeapot)
			io.WriteString(w, "<html>not sniffed")
		})
		r, _ := http.NewRequest("GET", o.URL+"/public", nil)
		r.Header.Set("Keep-Alive", "300")
		r.Header.Set("Proxy-Authorization", "Basic c2VjcmV0")
		r.Header.Set("X-Client", "yes")
		r.Header.Set("Accept-Encoding", "br")
		r.Header["User-Agent"] = nil
		if version == "h1" {
			r.Header.Set("Connection", "X-Drop")
			r.Header.Set("X-Drop", "yes")
		}
		resp, err := w.client(version).Do(r)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Origin") != "yes" || resp.Header.Get("Content-Encoding") != "br" {
			t.Errorf("the response was changed: %s %v", resp.Status, resp.Header)
		}
		if got := resp.Header.Get("Via"); !strings.HasSuffix(got, " testproxy") {
			t.Errorf("Via of the response: %q", got)
		}
		if resp.Header.Get("Date") == "" {
			t.Error("no Date was added")
		}
		for _, name := range []string{"Keep-Alive", "Proxy-Authenticate", "Proxy-Status"} {
			if resp.Header[name] != nil {
				t.Errorf("the response carries %s", name)
			}
		}
		seen := o.seen[0]
		if seen.Header.Get("Accept-Encoding") != "br" || seen.Header.Get("X-Client") != "yes" || !strings.HasSuffix(seen.Header.Get("Via"), " testproxy") {
			t.Errorf("the origin saw %v", seen.Header)
		}
		for _, name := range []string{"Keep-Alive", "Proxy-Authorization", "X-Drop", "User-Agent", "X-Forwarded-For", "Forwarded"} {
			if seen.Header[name] != nil {
				t.Errorf("the origin saw %s: %q", name, seen.Header[name])
			}
		}
	})
}

func TestNoContentTypeIsGuessed(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		w := newWorld(t)
		o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = nil
			io.WriteString(w, "<html>")
		})
		resp, _ := get(t, w.client(version), o.URL+"/")
		if got := resp.Header["Content-Type"]; got != nil {
			t.Errorf("Content-Type: %q", got)
		}
	})
}

func TestViaIsAddedWhereTheOperatorWants(t *testing.T) {
	for mode, want := range map[upstream.Via][2]bool{upstream.ViaBoth: {true, true}, upstream.ViaRequest: {true, false}, upstream.ViaOff: {false, false}} {
		w := newWorld(t, func(s *settings) { s.proxy.Via = mode })
		o := w.origin("http", nil)
		resp, _ := get(t, w.client("h1"), o.URL+"/public")
		got := [2]bool{o.seen[0].Header.Get("Via") != "", resp.Header.Get("Via") != ""}
		if got != want {
			t.Errorf("%s: Via on request and response: %v, want %v", mode, got, want)
		}
	}
}

func TestLoop(t *testing.T) {
	w := newWorld(t)
	o := w.origin("http", nil)
	for via, loops := range map[string]bool{"1.1 testproxy": true, "1.0 a, 1.1 TestProxy (x)": true, "1.1 testproxy-run-abc": false, "testproxy": false} {
		r, _ := http.NewRequest("GET", o.URL+"/public", nil)
		r.Header.Set("Via", via)
		resp, err := w.client("h1").Do(r)
		must(t, err)
		resp.Body.Close()
		if got := resp.StatusCode == 502 && strings.Contains(resp.Header.Get("Proxy-Status"), "proxy_loop_detected"); got != loops {
			t.Errorf("Via %q: %s", via, resp.Status)
		}
	}
}

// A request-target is sent octet by octet as it was received.
func TestTargetIsSentAsItCame(t *testing.T) {
	targets := []string{
		"/a|b", "/a^b`c{d}", `/a\b`, "/a%7cb", "/a%7Cb", "/%41/%2e/x/../y", "/a//b", "//a//b", "//a|b", "/?", "/?a=|&b=%zz",
		"/a;b=c?d;e", "/%E4%BD%A0", "/\xe4\xbd\xa0", "/a?b?c", "/'()*!$&+,;=:@", "/a%2Fb", "/*",
	}
	for _, scheme := range []string{"http", "https"} {
		w := newWorld(t)
		o := w.origin(scheme, nil)
		for _, target := range targets {
			c := w.dial()
			c.send("GET " + o.URL + target + " HTTP/1.1\r\nHost: " + o.host() + "\r\n\r\n")
			if resp, body := c.response("GET"); resp.StatusCode != 200 {
				t.Errorf("%s %q: %s %s", scheme, target, resp.Status, body)
				continue
			}
			pages := o.pages()
			if got := strings.TrimPrefix(pages[len(pages)-1], o.URL); got != target {
				t.Errorf("%s %q: the origin was asked for %q", scheme, target, got)
			}
		}
	}
}

// A path that begins with two slashes is sent in origin form, the only one that many servers
// accept, unless net/http would change its octets.
func TestDoubleSlashGoesInOriginForm(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		for _, scheme := range []string{"http", "https", "https/1.1"} {
			w := newWorld(t)
			o := w.origin(scheme, nil)
			for target, absolute := range map[string]bool{
				"//": false, "///": false, "//a": false, "//a//b?": false, "//a?b|c=%zz//": false, "//a%2Fb/%7e/../x": false, "//host:80/a": false,
				"//user@host/": false, "//[a]/'()*!$&+,;=:@": false, "//a|b": true, "//%7E\"": true, "//\xc3\xbc": true,
			} {
				var c *rawConn
				if scheme == "http" {
					c = w.tunnel(o.host())
				} else {
					c = w.secure(o.host())
				}
				c.send("GET " + target + " HTTP/1.1\r\nHost: " + o.host() + "\r\nConnection: close\r\n\r\n")
				if resp, body := c.response("GET"); resp.StatusCode != 200 {
					t.Errorf("%s %q: %s %s", scheme, target, resp.Status, body)
					continue
				}
				want := target
				if absolute {
					want = strings.TrimSuffix(o.URL, "/") + target
				}
				if pages := o.pages(); pages[len(pages)-1] != want {
					t.Errorf("%s %q: the origin was asked for %q", scheme, target, pages[len(pages)-1])
				}
			}
			if resp, _ := get(t, w.client(version), o.URL+"//a?b"); resp.StatusCode != 200 || !slices.Contains(o.pages(), "//a?b") {
				t.Errorf("%s by %s: %s %q", scheme, version, resp.Status, o.pages())
			}
		}
	})
}

// TRACE and OPTIONS go as far as Max-Forwards says (RFC 9110 7.6.2).
func TestMaxForwards(t *testing.T) {
	w := newWorld(t)
	o := w.origin("http", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Join(r.Header["Max-Forwards"], "|"))
	})
	for _, c := range []struct{ method, stated, arrives string }{ // "": it does not
		{"OPTIONS", "0", ""}, {"TRACE", "0", ""}, {"OPTIONS", "000", ""},
		{"OPTIONS", "1", "0"}, {"TRACE", "17", "16"}, {"TRACE", "99999999999999999999999", "2147483646"},
		{"GET", "0", "0"}, {"POST", "3", "3"}, {"OPTIONS", "many", "many"}, {"OPTIONS", "-1", "-1"}, {"TRACE", "2\r\nMax-Forwards: 3", "2|3"},
	} {
		before := len(o.pages())
		conn := w.dial()
		conn.send(c.method + " " + o.URL + "/page HTTP/1.1\r\nHost: x\r\nX-Sent: yes\r\nCookie: secret\r\nContent-Length: 0\r\nMax-Forwards: " + c.stated + "\r\n\r\n")
		resp, body := conn.response(c.method)
		asked := len(o.pages()) > before
		switch {
		case resp.StatusCode != 200 || asked != (c.arrives != ""):
			t.Errorf("%s %s: %s, asked %v", c.method, c.stated, resp.Status, asked)
		case asked && body != c.arrives:
			t.Errorf("%s %s arrives as %q", c.method, c.stated, body)
		case !asked && c.method == "OPTIONS" && body != "":
			t.Errorf("OPTIONS is answered with %q", body)
		case !asked && c.method == "TRACE" && (!strings.HasPrefix(body, "TRACE "+o.URL+"/page HTTP/1.1\r\n") || !strings.Contains(body, "X-Sent: yes\r\n") || strings.Contains(body, "secret")):
			t.Errorf("TRACE is answered with %q", body)
		}
	}
}

func TestResponsesWithoutBody(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		w := newWorld(t)
		o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"x"`)
			switch r.URL.Path {
			case "/head":
				w.Header().Set("Content-Length", "12345")
			case "/204":
				w.WriteHeader(204)
			case "/304":
				w.WriteHeader(304)
			}
		})
		client := w.client(version)
		resp, err := client.Head(o.URL + "/head")
		must(t, err)
		resp.Body.Close()
		if resp.ContentLength != 12345 {
			t.Errorf("HEAD: Content-Length %d", resp.ContentLength)
		}
		for _, status := range []int{204, 304} {
			resp, body := get(t, client, fmt.Sprintf("%s/%d", o.URL, status))
			if resp.StatusCode != status || body != "" || resp.Header.Get("ETag") != `"x"` {
				t.Errorf("%d: %s %q %v", status, resp.Status, body, resp.Header)
			}
		}
		resp, err = client.Head(o.URL + "/private")
		must(t, err)
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 403 || len(body) != 0 {
			t.Errorf("a refused HEAD: %s with %d octets", resp.Status, len(body))
		}
	})
}

// Each piece of a body of unknown length reaches the client before the next one is made,
// whatever its type.
func TestPiecesAreStreamed(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		for _, kind := range []string{"text/event-stream", "application/x-ndjson", ""} {
			w := newWorld(t)
			next := make(chan struct{})
			o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", kind)
				for i := range 3 {
					fmt.Fprintf(w, "piece %d\n", i)
					w.(http.Flusher).Flush()
					<-next
				}
			})
			resp, err := w.client(version).Get(o.URL + "/stream")
			must(t, err)
			lines := bufio.NewReader(resp.Body)
			for i := range 3 {
				if line, err := lines.ReadString('\n'); line != fmt.Sprintf("piece %d\n", i) {
					t.Errorf("%s: piece %d: %q, %v", kind, i, line, err)
				}
				next <- struct{}{}
			}
			resp.Body.Close()
		}
	})
}

// The timeout for a header does not apply to the body.
func TestBodyThatTakesLongerThanAHeaderMay(t *testing.T) {
	const bound = 500 * time.Millisecond
	w := newWorld(t, func(s *settings) { s.proxy.Limits.HeaderTimeout = bound })
	slow := func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			io.WriteString(w, "piece")
			w.(http.Flusher).Flush()
			time.Sleep(bound / 2)
		}
	}
	plain, secure := w.origin("http", slow), w.origin("https", slow)
	tunnel := w.tunnel(plain.host())
	tunnel.send("GET /slow HTTP/1.1\r\nHost: " + plain.host() + "\r\n\r\n")
	if _, body := tunnel.response("GET"); len(body) != 15 {
		t.Errorf("plain HTTP in a tunnel: %q", body)
	}
	for _, version := range []string{"h1", "h2"} {
		for _, o := range []*origin{plain, secure} {
			if _, body := get(t, w.client(version), o.URL+"/slow"); len(body) != 15 {
				t.Errorf("%s, %s: %q", o.URL, version, body)
			}
		}
	}
}

func TestTrailers(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		w := newWorld(t)
		o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Announced")
			w.Header().Set("X-Announced", "at first")
			io.Copy(w, r.Body)
			w.Header().Set("X-Announced", r.Trailer.Get("X-Sum"))
		})
		r, _ := http.NewRequest("POST", o.URL+"/echo", io.MultiReader(strings.NewReader("body"))) // of unknown length
		r.Trailer = http.Header{"X-Sum": {"42"}}
		resp, err := w.client(version).Do(r)
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		resp.Body.Close()
		if got := resp.Trailer["X-Announced"]; string(body) != "body" || !slices.Equal(got, []string{"42"}) {
			t.Errorf("body %q, trailers %v", body, resp.Trailer)
		}
		if got := resp.Header.Get("X-Announced"); got != "at first" {
			t.Errorf("the header says %q", got)
		}
	})
}

func TestTrailersThatWereNotAnnounced(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		w := newWorld(t)
		o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "body")
			w.(http.Flusher).Flush() // so that the length is not stated
			w.Header().Set(http.TrailerPrefix+"X-Late", "1")
		})
		resp, err := w.client(version).Get(o.URL + "/")
		must(t, err)
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.Trailer.Get("X-Late") != "1" {
			t.Errorf("trailers %v", resp.Trailer)
		}
	})
}

// A client that asks whether to send its body (Expect: 100-continue) gets the origin's answer.
func TestExpectContinue(t *testing.T) {
	w := newWorld(t)
	o := w.origin("http", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refuse" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		io.Copy(w, r.Body)
	})
	for _, test := range []struct {
		path   string
		status int
		sent   bool
	}{{"/take", 200, true}, {"/refuse", 417, false}, {"/private", 403, false}} {
		continued := false
		body := &countingReader{Reader: strings.NewReader("body")}
		r, _ := http.NewRequest("POST", o.URL+test.path, body)
		r.ContentLength = 4
		r.Header.Set("Expect", "100-continue")
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got100Continue: func() { continued = true }}))
		client := w.client("h1")
		client.Transport.(*http.Transport).ExpectContinueTimeout = 20 * time.Second
		resp, err := client.Do(r)
		must(t, err)
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != test.status || continued != test.sent || body.read != test.sent {
			t.Errorf("%s: %s, continue %v, body sent %v", test.path, resp.Status, continued, body.read)
		}
	}
}

// Other 1xx responses are passed on at once.
func TestEarlyHints(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		w := newWorld(t)
		o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
			for _, link := range []string{"</a.css>", "</b.css>"} {
				w.Header().Set("Link", link)
				w.WriteHeader(http.StatusEarlyHints)
			}
			w.Header().Del("Link")
			io.WriteString(w, "page")
		})
		var links []string
		r, _ := http.NewRequest("GET", o.URL+"/", nil)
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
				links = append(links, fmt.Sprint(status, h.Get("Link")))
				return nil
			},
		}))
		resp, err := w.client(version).Do(r)
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		resp.Body.Close()
		if got := strings.Join(links, " "); got != "103</a.css> 103</b.css>" {
			t.Errorf("1xx: %s", got)
		}
		if string(body) != "page" || resp.Header.Get("Link") != "" {
			t.Errorf("the final response is %q %v", body, resp.Header)
		}
	})
}

type countingReader struct {
	io.Reader
	read bool
}

func (r *countingReader) Read(p []byte) (int, error) {
	r.read = true
	return r.Reader.Read(p)
}

// When a client leaves, the request to its origin is cancelled.
func TestClientThatLeaves(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		w := newWorld(t)
		asked, left := make(chan struct{}), make(chan struct{})
		o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
			close(asked)
			<-r.Context().Done()
			close(left)
		})
		ctx, leave := context.WithCancel(context.Background())
		r, _ := http.NewRequestWithContext(ctx, "GET", o.URL+"/slow", nil)
		go func() { <-asked; leave() }()
		if _, err := w.client(version).Do(r); !errors.Is(err, context.Canceled) {
			t.Errorf("the request ended with %v", err)
		}
		select {
		case <-left:
		case <-time.After(testTimeout):
			t.Error("the request to the origin goes on")
		}
	})
}

// A body that upstream cuts short is cut short for the client too. It never ends as if it
// were whole.
func TestBodyThatIsCutShort(t *testing.T) {
	for framing, body := range map[string]string{"Content-Length: 100": "part", "Transfer-Encoding: chunked": "4\r\npart\r\n"} {
		both(t, func(t *testing.T, version string) {
			w := newWorld(t)
			o := w.origin("http", func(w http.ResponseWriter, r *http.Request) {
				conn, rw, err := w.(http.Hijacker).Hijack()
				if err != nil {
					panic(err)
				}
				fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\n%s\r\n\r\n%s", framing, body)
				rw.Flush()
				conn.Close()
			})
			resp, err := w.client(version).Get(o.URL + "/")
			must(t, err)
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 200 || string(got) != "part" || err == nil {
				t.Errorf("%s: %s, %q, %v", framing, resp.Status, got, err)
			}
			w.log.WaitLine(t, nil, `"message":"request"`, `"error":"unexpected EOF"`)
		})
	}
}

func TestLongBodies(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		w := newWorld(t)
		o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(r.ContentLength))
			io.Copy(w, r.Body)
		})
		want := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
		resp, err := w.client(version).Post(o.URL+"/echo", "application/octet-stream", bytes.NewReader(want))
		must(t, err)
		got, err := io.ReadAll(resp.Body)
		must(t, err)
		resp.Body.Close()
		if !bytes.Equal(got, want) || resp.ContentLength != int64(len(want)) {
			t.Errorf("%d octets came back, Content-Length %d", len(got), resp.ContentLength)
		}
		w.log.WaitLine(t, nil, fmt.Sprintf(`"bytes":%d`, len(want)), `"method":"POST"`)
	})
}

// A GET over HTTP/2 has no body, and none is sent to the origin.
func TestNoBodyIsMadeUp(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		w := newWorld(t)
		o := w.origin("https/1.1", nil)
		get(t, w.client(version), o.URL+"/public")
		if seen := o.seen[0]; seen.ProtoMajor != 1 || len(seen.TransferEncoding) != 0 {
			t.Errorf("the origin saw %s with Transfer-Encoding %q", seen.Proto, seen.TransferEncoding)
		}
	})
}

// An origin may answer before it has the whole request, and both directions go on.
func TestOriginThatAnswersEarly(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		w := newWorld(t)
		o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex()
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			piece := make([]byte, 1000)
			for {
				n, err := r.Body.Read(piece)
				w.Write(piece[:n])
				w.(http.Flusher).Flush()
				if err != nil {
					return
				}
			}
		})
		for _, size := range []int{1, 20 << 10, 200 << 10, 1 << 20} {
			want := bytes.Repeat([]byte("0123456789"), size/10)
			resp, err := w.client(version).Post(o.URL+"/echo", "text/plain", bytes.NewReader(want))
			must(t, err)
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d octets: %d came back, %v", len(want), len(got), err)
			}
		}
		// A conversation: each piece goes up when the one before has come down.
		up, pieces := io.Pipe()
		go pieces.Write([]byte("0"))
		resp, err := w.client(version).Post(o.URL+"/talk", "text/plain", up)
		must(t, err)
		defer resp.Body.Close()
		for i := range 3 {
			got := make([]byte, 1)
			_, err := io.ReadFull(resp.Body, got)
			must(t, err)
			if got[0] != byte('0'+i) {
				t.Errorf("piece %d is %q", i, got)
			}
			go pieces.Write([]byte{byte('1' + i)})
		}
		pieces.Close()
	})
}

// The answer to a request that is not complete arrives, and the rest of the request is not
// read as the next one.
func TestAnswerToAnUnfinishedRequest(t *testing.T) {
	w := newWorld(t)
	o := w.origin("http", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) })
	c := w.dial()
	c.send("POST " + o.URL + "/big HTTP/1.1\r\nHost: " + o.host() + "\r\nContent-Length: 1000000\r\n\r\nten octets")
	resp, _ := c.response("POST")
	if resp.StatusCode != 413 || !resp.Close {
		t.Errorf("%s, close %v", resp.Status, resp.Close)
	}
	if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
		t.Errorf("followed by %q, %v", rest, err)
	}
}

func TestBodyThatCannotBeRead(t *testing.T) {
	for _, body := range []string{"zz\r\n", "4\r\nabcdXY", "+4\r\nabcd\r\n0\r\n\r\n"} {
		w := newWorld(t)
		o := w.origin("http", func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
		c := w.dial()
		c.send("POST " + o.URL + "/ HTTP/1.1\r\nHost: " + o.host() + "\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
		if resp, _ := c.response("POST"); shape(resp) != "400 http_request_error" {
			t.Errorf("%q: %s", body, shape(resp))
		}
	}
}

// A header does not wait for a slow body.
func TestHeaderThatIsAheadOfItsBody(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		for _, length := range []string{"", "4"} {
			w := newWorld(t)
			seen := make(chan struct{})
			o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				w.WriteHeader(200)
				w.(http.Flusher).Flush()
				<-seen
				io.WriteString(w, "body")
			})
			resp, err := w.client(version).Get(o.URL + "/")
			must(t, err)
			close(seen)
			if body, _ := io.ReadAll(resp.Body); string(body) != "body" {
				t.Errorf("body %q", body)
			}
			resp.Body.Close()
		}
	})
}

// What an origin sends in breach of HTTP's rules does not reach the client.
func TestOddOrigins(t *testing.T) {
	w := newWorld(t)
	var answer string
	o := w.origin("http", func(w http.ResponseWriter, r *http.Request) {
		conn, rw, _ := w.(http.Hijacker).Hijack()
		rw.WriteString(answer)
		rw.Flush()
		conn.Close()
	})
	for _, test := range []struct{ answer, want, body string }{
		{"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "502 http_protocol_error", ""},
		{"HTTP/1.1 000 Nothing\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", "502 http_protocol_error", ""},
		{"HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nno", "426 ", "no"},
		{"HTTP/1.1 799 Odd\r\nContent-Length: 2\r\n\r\nok", "799 ", "ok"},
	} {
		answer = test.answer
		resp, body := get(t, w.client("h1"), o.URL+"/")
		if shape(resp) != test.want || test.body != "" && body != test.body || resp.Header.Get("Content-Encoding") != "" {
			t.Errorf("%q: %s %q", test.answer, shape(resp), body)
		}
		if resp.ContentLength < 0 {
			t.Errorf("%q: the answer has no Content-Length", test.answer)
		}
	}
}

// A request's Connection field cannot remove User-Agent or Via.
func TestConnectionNamesTheWrongFields(t *testing.T) {
	w := newWorld(t)
	o := w.origin("http", nil)
	c := w.dial()
	c.send("GET " + o.URL + "/public HTTP/1.1\r\nHost: " + o.host() + "\r\nUser-Agent: Bot/1\r\nVia: 1.1 other\r\nConnection: User-Agent, Via, Host, X-Drop\r\nX-Drop: 1\r\n\r\n")
	c.response("GET")
	h := o.seen[0].Header
	if h.Get("User-Agent") != "Bot/1" || h["X-Drop"] != nil || len(h["Via"]) != 2 {
		t.Errorf("the origin saw %v", h)
	}
}

// Hop-by-hop fields in a client's trailers are not passed on, as in its header.
func TestCredentialsInTrailers(t *testing.T) {
	w := newWorld(t)
	trailers := make(chan http.Header, 1)
	o := w.origin("http", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		trailers <- r.Trailer
	})
	r, _ := http.NewRequest("POST", o.URL+"/", io.MultiReader(strings.NewReader("body")))
	r.Trailer = http.Header{"Proxy-Authorization": {"Basic c2VjcmV0"}, "X-Sum": {"1"}}
	resp, err := w.client("h1").Do(r)
	must(t, err)
	resp.Body.Close()
	if got := <-trailers; got.Get("Proxy-Authorization") != "" || got.Get("X-Sum") != "1" {
		t.Errorf("the origin saw the trailers %v", got)
	}
}

// A WebSocket is judged like any request, and then left alone.
func TestWebSocket(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			w := newWorld(t)
			o := w.origin(scheme, func(w http.ResponseWriter, r *http.Request) {
				conn, err := websocket.Accept(w, r, nil)
				if err != nil {
					return
				}
				defer conn.CloseNow()
				conn.SetReadLimit(-1)
				for {
					kind, message, err := conn.Read(r.Context())
					if err != nil || conn.Write(r.Context(), kind, message) != nil {
						return
					}
				}
			})
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			defer cancel()
			options := &websocket.DialOptions{HTTPClient: w.client("h1")}
			conn, _, err := websocket.Dial(ctx, o.URL+"/socket", options)
			must(t, err)
			conn.SetReadLimit(-1)
			for _, size := range []int{0, 1, 1 << 20} {
				want := bytes.Repeat([]byte("x"), size)
				must(t, conn.Write(ctx, websocket.MessageBinary, want))
				if _, got, err := conn.Read(ctx); err != nil || !bytes.Equal(got, want) {
					t.Errorf("a message of %d octets came back as %d, %v", size, len(got), err)
				}
			}
			must(t, conn.Close(websocket.StatusNormalClosure, ""))
			w.log.WaitLine(t, nil, `"message":"request"`, "/socket", `"status":101`)

			_, resp, err := websocket.Dial(ctx, o.URL+"/private/socket", options)
			if err == nil || resp == nil || resp.StatusCode != 403 {
				t.Errorf("a disallowed WebSocket: %v", err)
			}
			if pages := o.pages(); len(pages) != 1 {
				t.Errorf("the origin was asked for %q", pages)
			}
		})
	}
}

// What a client sends right after its handshake is not lost.
func TestWebSocketThatDoesNotWait(t *testing.T) {
	w := newWorld(t)
	o := w.origin("http", func(w http.ResponseWriter, r *http.Request) {
		conn, rw, _ := w.(http.Hijacker).Hijack()
		defer conn.Close()
		rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello ")
		rw.Flush()
		line, _ := rw.ReadString('\n')
		rw.WriteString(line)
		rw.Flush()
	})
	c := w.dial()
	c.send("GET " + o.URL + "/socket HTTP/1.1\r\nHost: " + o.host() + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nworld\n")
	answer, _ := io.ReadAll(c)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 101 ") || !strings.HasSuffix(string(answer), "\r\n\r\nhello world\n") {
		t.Errorf("answer: %q", answer)
	}
}

// Bodies of any length go both ways in bounded memory.
func TestLongBodiesTakeNoMemory(t *testing.T) {
	const size = 100 << 20
	both(t, func(t *testing.T, version string) {
		w := newWorld(t)
		o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
			if n, err := io.Copy(io.Discard, r.Body); r.Method == "POST" && (n != size || err != nil) {
				http.Error(w, fmt.Sprint(n, err), http.StatusBadRequest)
				return
			}
			io.Copy(w, io.LimitReader(zeros{}, size))
		})
		var before, during runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		resp, err := w.client(version).Post(o.URL+"/", "application/octet-stream", io.LimitReader(zeros{}, size))
		must(t, err)
		defer resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatalf("the upload ended with %s", resp.Status)
		}
		half, err := io.CopyN(io.Discard, resp.Body, size/2)
		must(t, err)
		runtime.ReadMemStats(&during)
		rest, err := io.Copy(io.Discard, resp.Body)
		must(t, err)
		if half+rest != size {
			t.Errorf("%d octets came back", half+rest)
		}
		if grown := int64(during.HeapSys) - int64(before.HeapSys); grown > size/3 {
			t.Errorf("the heap has grown by %d MiB", grown>>20)
		}
	})
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// Upstream failures get the status and the error type of RFC 9209.
func TestUpstreamFailures(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.upstream.ResponseHeaderTimeout = 300 * time.Millisecond })
	hang := make(chan struct{})
	o := w.origin("http", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hang":
			<-hang
		case "/close":
			panic(http.ErrAbortHandler)
		case "/garbage":
			conn, _, _ := w.(http.Hijacker).Hijack()
			io.WriteString(conn, "what is this\r\n\r\n")
			conn.Close()
		}
	})
	client := w.client("h1")
	get(t, client, o.URL+"/ok")
	for path, want := range map[string]string{
		"/hang":    "504 http_response_timeout",
		"/close":   "502 http_response_incomplete",
		"/garbage": "502 http_protocol_error",
	} {
		resp, _ := get(t, client, o.URL+path)
		if got := shape(resp); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		w.log.WaitLine(t, nil, `"message":"request"`, path, `"error":"`)
	}
	close(hang)
	o.Close()
	resp, _ := get(t, client, o.URL+"/ok")
	if got := shape(resp); got != "502 connection_refused" {
		t.Errorf("an origin that is gone: %s", got)
	}
}

// shape returns the status and the error type of one of the proxy's own answers.
func shape(resp *http.Response) string {
	kind := resp.Header.Get("Proxy-Status")
	_, kind, _ = strings.Cut(kind, "error=")
	kind, _, _ = strings.Cut(kind, ";")
	return fmt.Sprintf("%d %s", resp.StatusCode, kind)
}

// The robots.txt of an origin whose certificate cannot be verified is unreachable, so
// nothing there is allowed. Origins in upstream.insecure are not verified.
func TestOriginsAreVerified(t *testing.T) {
	for _, insecure := range [][]string{nil, {"127.0.0.?"}, {"*.example.com"}} {
		w := newWorld(t, func(s *settings) { s.upstream.CAFile, s.upstream.Insecure = "", hosts(insecure) })
		o := w.origin("https", nil)
		resp, body := get(t, w.client("h1"), o.URL+"/public")
		want := 403
		if slices.Contains(insecure, "127.0.0.?") {
			want = 200
		}
		if resp.StatusCode != want {
			t.Errorf("insecure %q: %s\n%s", insecure, resp.Status, body)
		}
		if want == 403 && (resp.Header.Get("Retry-After") == "" || !strings.Contains(body, "certificate")) {
			t.Errorf("Retry-After %q, body %s", resp.Header.Get("Retry-After"), body)
		}
	}
}

func hosts(patterns []string) []identity.HostGlob {
	globs := make([]identity.HostGlob, len(patterns))
	for i, p := range patterns {
		if err := globs[i].UnmarshalText([]byte(p)); err != nil {
			panic(err)
		}
	}
	return globs
}

// Shutdown waits for requests in flight.
func TestDrain(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		w := newWorld(t)
		asked, answer := make(chan struct{}), make(chan struct{})
		o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
			close(asked)
			<-answer
			io.WriteString(w, "whole")
		})
		stopped := make(chan error, 1)
		go func() {
			<-asked
			go func() { stopped <- w.server.Shutdown(context.Background()) }()
			for { // until nobody is let in any more
				resp, err := http.Get("http://" + w.addr)
				if err != nil {
					break
				}
				resp.Body.Close()
			}
			close(answer)
		}()
		if _, body := get(t, w.client(version), o.URL+"/slow"); body != "whole" {
			t.Errorf("body %q", body)
		}
		if err := <-stopped; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
}

// Where there is no client, Shutdown waits for nothing.
func TestShutdownWithoutClients(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := w.server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("Shutdown waited for %v", waited)
		}
	})
}

// Shutdown lets every connection that was accepted send its first request, in a tunnel too.
func TestFirstRequestWhileStopping(t *testing.T) {
	for _, d := range doors {
		w := guardedWorld(t)
		g := newGuarded(t, d.scheme)
		c := d.open(w, g)
		stopped := make(chan error, 1)
		go func() { stopped <- w.server.Shutdown(context.Background()) }()
		for { // until nobody is let in any more
			conn, err := net.Dial("tcp", w.addr)
			if err != nil {
				break
			}
			conn.Close()
		}
		c.send("GET " + d.prefix(g.host()) + "/pieces HTTP/1.1\r\nHost: " + g.host() + "\r\n\r\n")
		if resp, body := c.response(http.MethodGet); resp.StatusCode != http.StatusOK || body != "a page" || !resp.Close {
			t.Errorf("%s: %s, close %v, %q", d.name, resp.Status, resp.Close, body)
		}
		if err := <-stopped; err != nil {
			t.Errorf("%s: Shutdown: %v", d.name, err)
		}
	}
}

// clogging is a listener whose connections accept no more octets to send once it is clogged,
// as if no client read.
type clogging struct {
	net.Listener
	clogged *atomic.Bool
}

func (l clogging) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	near, far := net.Pipe() // of which nobody reads the far end
	return &cloggedConn{conn, near, far, l.clogged}, err
}

type cloggedConn struct {
	net.Conn
	near, far net.Conn
	clogged   *atomic.Bool
}

func (c *cloggedConn) Write(p []byte) (int, error) {
	if c.clogged.Load() {
		return c.near.Write(p)
	}
	return c.Conn.Write(p)
}

func (c *cloggedConn) SetWriteDeadline(t time.Time) error {
	return errors.Join(c.near.SetWriteDeadline(t), c.Conn.SetWriteDeadline(t))
}

func (c *cloggedConn) Close() error { return errors.Join(c.near.Close(), c.Conn.Close()) }

// After the grace period, Shutdown does not wait for clients that do not read.
func TestStopDoesNotWaitForWhoDoesNotRead(t *testing.T) {
	var clogged atomic.Bool
	w := newWorld(t, func(s *settings) {
		s.onListener = func(l net.Listener) net.Listener { return clogging{l, &clogged} }
	})
	asked := make(chan struct{})
	o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hangs" {
			asked <- struct{}{}
			<-r.Context().Done()
		}
	})
	const many = 20
	var clients []*frames
	ask := func(f *frames, stream uint32, path string) {
		f.ask(stream, ":method", "GET", ":scheme", "https", ":authority", o.host(), ":path", path)
	}
	for range many {
		f := &frames{conn: w.secure(o.host(), "h2")}
		f.Framer = http2.NewFramer(f.conn.Conn, f.conn)
		f.encoder = newEncoder(f)
		f.conn.send(http2.ClientPreface)
		must(t, f.WriteSettings())
		ask(f, 1, "/hangs")
		<-asked
		clients = append(clients, f)
	}
	clogged.Store(true)
	for i, f := range clients {
		path := fmt.Sprintf("/answers/%d", i)
		ask(f, 3, path)
		w.log.WaitLine(t, nil, `"url":"`+o.URL+path+`"`) // its response is about to be sent
	}

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	w.server.Shutdown(ctx)
	if took := time.Since(began); took > time.Minute { // crypto/tls would wait for five seconds with each
		t.Errorf("Shutdown took %v", took)
	}
}

func TestStopDoesNotWaitForever(t *testing.T) {
	w := newWorld(t)
	asked := make(chan struct{})
	o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	})
	failed := make(chan error, 1)
	go func() {
		resp, err := w.client("h2").Get(o.URL + "/slow")
		if err == nil {
			resp.Body.Close()
		}
		failed <- err
	}()
	<-asked
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := w.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-failed; err == nil {
		t.Error("Shutdown did not end the request")
	}
}

// An origin can neither send clients to another host by Alt-Svc nor claim to be the proxy.
func TestFieldsThatAreNotTheOriginsToSend(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		for _, scheme := range []string{"http", "https", "https/1.1"} {
			w := newWorld(t)
			fields := map[string]string{
				"Alt-Svc":      `h2="other.example:443"; ma=3600`,
				"Proxy-Status": `cdn; error=dns_error, testproxy; error=http_request_denied`,
			}
			o := w.origin(scheme, func(w http.ResponseWriter, r *http.Request) {
				set := func(prefix string) {
					for name, value := range fields {
						w.Header().Set(prefix+name, value)
					}
				}
				set("")
				w.WriteHeader(http.StatusEarlyHints)
				w.Header().Set("Trailer", "Alt-Svc, X-Sum")
				io.WriteString(w, "page")
				w.(http.Flusher).Flush()
				w.Header().Set("X-Sum", "1")
				set(http.TrailerPrefix)
			})
			check := func(where string, h http.Header) {
				t.Helper()
				if h["Alt-Svc"] != nil || h.Get("Proxy-Status") != "cdn; error=dns_error" {
					t.Errorf("%s, %s: %v", scheme, where, h)
				}
			}
			r, _ := http.NewRequest("GET", o.URL+"/", nil)
			r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
					check("early", http.Header(h))
					return nil
				},
			}))
			resp, err := w.client(version).Do(r)
			must(t, err)
			body, err := io.ReadAll(resp.Body)
			must(t, err)
			resp.Body.Close()
			check("header", resp.Header)
			check("trailers", resp.Trailer)
			if string(body) != "page" || resp.Trailer.Get("X-Sum") != "1" {
				t.Errorf("%s: %q, trailers %v", scheme, body, resp.Trailer)
			}
		}
	})
}

// The header of a response is bounded: in memory it takes many times its octets.
func TestLongResponseHeaders(t *testing.T) {
	both(t, func(t *testing.T, version string) {
		w := newWorld(t)
		var size int
		o := w.origin("https", func(w http.ResponseWriter, r *http.Request) {
			for i := range size / 1024 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
			}
		})
		tooLarge := "502 http_response_header_section_size"
		if version == "h2" {
			tooLarge = "502 http_protocol_error" // net/http ends such a connection
		}
		for _, c := range []struct {
			size int
			want string
		}{{200 << 10, "200 "}, {300 << 10, tooLarge}, {3 << 20, tooLarge}} {
			size = c.size
			client := w.client(version)
			client.Transport.(*http.Transport).MaxResponseHeaderBytes = 1 << 20
			if resp, _ := get(t, client, o.URL+"/page"); shape(resp) != c.want {
				t.Errorf("%d octets: %s, want %s: %s", c.size, shape(resp), c.want, resp.Header.Get("Proxy-Status"))
			}
		}
	})
}
