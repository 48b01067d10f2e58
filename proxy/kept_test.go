package proxy_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"robotsproxy/internal/loopback"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/upstream"
)

// connectionCount counts the connections that a server has, and has had.
type connectionCount struct{ open, all atomic.Int64 }

func (c *connectionCount) note(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.open.Add(1)
		c.all.Add(1)
	case http.StateClosed, http.StateHijacked:
		c.open.Add(-1)
	}
}

// everywhere starts a site over https on every loopback address. Each address is an origin
// of its own; port is the same for all.
func everywhere(t *testing.T, http2 bool, page http.HandlerFunc) (s *httptest.Server, port string, count *connectionCount) {
	l, err := net.Listen("tcp", ":0")
	must(t, err)
	count = new(connectionCount)
	s = httptest.NewUnstartedServer(page)
	s.Listener.Close()
	s.Listener = l
	s.EnableHTTP2 = http2
	s.Config.ErrorLog = nil
	s.Config.ConnState = count.note
	s.StartTLS()
	t.Cleanup(s.Close)
	_, port, err = net.SplitHostPort(l.Addr().String())
	must(t, err)
	return s, port, count
}

// lenientTransport returns a transport that does not verify certificates.
func lenientTransport(t *testing.T) *upstream.Transport {
	opts := upstream.Defaults()
	opts.ConnectTimeout = time.Minute // hundreds of handshakes at once take long on a busy machine
	opts.Insecure = make([]identity.HostGlob, 1)
	must(t, opts.Insecure[0].UnmarshalText([]byte("127.*")))
	transport, err := upstream.NewTransport(opts)
	must(t, err)
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// roundTrip sends a GET in a version of HTTP. Callers must close the response's body.
func roundTrip(t *testing.T, transport *upstream.Transport, version int, url string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(loopback.With(t.Context(), loopback.Here), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	r.ProtoMajor = version
	return transport.RoundTrip(r)
}

// text returns the page that roundTrip gets.
func text(t *testing.T, transport *upstream.Transport, version int, url string) string {
	t.Helper()
	resp, err := roundTrip(t, transport, version, url)
	if err != nil {
		t.Error(err)
		return ""
	}
	return readAll(t, resp)
}

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// The transport closes the connections that have been idle longest, and none that is in use.
func TestIdleOrigins(t *testing.T) {
	for version := 1; version <= 2; version++ {
		t.Run(fmt.Sprint("HTTP/", version), func(t *testing.T) { testIdleOrigins(t, version) })
	}
}

func testIdleOrigins(t *testing.T, version int) {
	const most, origins = 256, 300
	held := make(chan struct{})
	_, port, count := everywhere(t, version == 2, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "HTTP/", r.ProtoMajor)
		if r.URL.Path == "/held" {
			w.(http.Flusher).Flush()
			<-held
		}
	})
	want := fmt.Sprint("HTTP/", version)
	transport := lenientTransport(t)
	url := func(n int) string { return fmt.Sprintf("https://127.0.%d.%d:%s", 1+n/200, 1+n%200, port) }
	inUse, err := roundTrip(t, transport, version, url(0)+"/held")
	must(t, err)
	for n := 1; n <= origins; n++ {
		if proto := text(t, transport, version, url(n)+"/"); proto != want {
			t.Fatalf("origin %d is asked in %s", n, proto)
		}
	}
	for deadline := time.Now().Add(testTimeout); count.open.Load() > most+1 && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
	}
	if open := count.open.Load(); open != most+1 {
		t.Errorf("%d connections are open, want %d that are idle and one in use", open, most)
	}
	dials := func(n int) int64 {
		before := count.all.Load()
		text(t, transport, version, url(n)+"/")
		return count.all.Load() - before
	}
	close(held)
	if got := readAll(t, inUse); got != want {
		t.Errorf("the page in use is %q", got)
	}
	for _, n := range []int{0, origins, origins - most + 2} { // the one before gave way to origin 0
		if got := dials(n); got != 0 {
			t.Errorf("origin %d was dialled again, although it was one of the last to be used", n)
		}
	}
	if got := dials(1); got != 1 {
		t.Errorf("the first origin is dialled %d times again, want 1", got)
	}
}

// The connections that a crowd of clients uses at once are kept and serve it again, even
// after a pause and when many other origins have idle connections.
func TestCrowdKeepsItsConnections(t *testing.T) {
	const crowd, others = 600, 256
	var round sync.WaitGroup
	_, port, count := everywhere(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/together" {
			round.Done()
			round.Wait() // all are under way at once
		}
		io.WriteString(w, "page")
	})
	transport := lenientTransport(t)
	for n := range others {
		text(t, transport, 1, fmt.Sprintf("https://127.0.%d.%d:%s/", 1+n/200, 1+n%200, port))
	}
	count.all.Store(0)
	for range 3 {
		round.Add(crowd)
		var asking sync.WaitGroup
		for range crowd {
			asking.Go(func() { text(t, transport, 1, "https://127.0.0.1:"+port+"/together") })
		}
		asking.Wait()
	}
	if all := count.all.Load(); all != crowd {
		t.Errorf("%d connections are opened for 3 rounds of %d requests at once, want %d", all, crowd, crowd)
	}
}

// A new connection resumes the TLS session of an earlier one.
func TestSessionsResumed(t *testing.T) {
	for version := 1; version <= 2; version++ {
		o, port, _ := everywhere(t, true, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.TLS.DidResume)
		})
		transport := lenientTransport(t)
		for _, want := range []string{"false", "true"} {
			if got := text(t, transport, version, "https://127.0.0.1:"+port+"/"); got != want {
				t.Errorf("HTTP/%d: resumed is %s, want %s", version, got, want)
			}
			transport.CloseIdleConnections()
		}
		o.CloseClientConnections()
	}
}

// An origin that starts to support HTTP/2 is asked in HTTP/2 from then on.
func TestOriginGetsHTTP2(t *testing.T) {
	var has atomic.Bool
	o := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, r.Proto)
	}))
	o.EnableHTTP2 = true
	o.TLS = &tls.Config{}
	o.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if has.Load() {
			return nil, nil
		}
		old := o.TLS.Clone()
		old.NextProtos = []string{"http/1.1"}
		return old, nil
	}
	o.StartTLS()
	t.Cleanup(o.Close)
	transport := lenientTransport(t)
	for i, want := range []string{"HTTP/1.1", "HTTP/1.1", "HTTP/2.0", "HTTP/2.0"} {
		has.Store(i >= 2)
		if got := text(t, transport, 2, o.URL+"/"); got != want {
			t.Errorf("it is asked in %s, want %s", got, want)
		}
	}
}
