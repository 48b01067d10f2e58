package proxy_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"robotsproxy/internal/conntest"
)

// coldOrigin is a site that counts the connections whose client offers HTTP/2, and holds
// each page until a number of them are asked for at once.
func coldOrigin(w *world, http2 bool, pages int) (o *httptest.Server, connections *atomic.Int64) {
	connections = new(atomic.Int64)
	var all sync.WaitGroup
	all.Add(pages)
	o = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			return
		}
		if r.URL.Path == "/together" {
			all.Done()
			all.Wait()
		}
		io.WriteString(rw, r.Proto)
	}))
	o.EnableHTTP2 = http2
	o.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.SupportedProtos, "h2") {
			connections.Add(1)
		}
		return nil, nil
	}}
	o.Config.ErrorLog = nil
	o.StartTLS()
	w.t.Cleanup(o.Close)
	return o, connections
}

// together asks for a page many times at once.
func together(t *testing.T, client *http.Client, url string, times int) {
	t.Helper()
	var asking sync.WaitGroup
	for range times {
		asking.Go(func() {
			resp, err := client.Get(url)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
				t.Errorf("%s %v", resp.Status, err)
			}
		})
	}
	asking.Wait()
}

// Many requests at once to a new origin share one connection if the origin has HTTP/2.
// Without HTTP/2 each has its own, and none waits for another's page.
func TestColdOrigins(t *testing.T) {
	const streams = 90 // fewer than origins are taken to allow before they say it
	for _, http2 := range []bool{true, false} {
		w := newWorld(t)
		o, connections := coldOrigin(w, http2, streams)
		together(t, w.client("h2"), o.URL+"/together", streams)
		n := connections.Load()
		t.Logf("HTTP/2 %v: %d connections for %d streams", http2, n, streams)
		if http2 && n > 5 || !http2 && n != streams {
			t.Errorf("HTTP/2 %v: %d connections for %d streams", http2, n, streams)
		}
		// When the connection has gone, it is the same again.
		connections.Store(0)
		o.CloseClientConnections()
		together(t, w.client("h2"), o.URL+"/page", streams)
		if n := connections.Load(); http2 && n > 5 {
			t.Errorf("HTTP/2 %v: %d connections for %d streams after the first had gone", http2, n, streams)
		}
	}
}

// Neither a client that leaves nor an origin that fails keeps others waiting.
func TestColdOriginsThatFail(t *testing.T) {
	w := newWorld(t, exempt)
	var dialled atomic.Int64
	site := conntest.Serve(t, "127.0.0.1:0", func(net.Conn) { dialled.Add(1) }) // no TLS
	client := w.client("h2")
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			resp, err := client.Get("https://" + site + "/page")
			if err != nil || resp.StatusCode != 502 {
				t.Errorf("%v %v", resp, err)
				return
			}
			resp.Body.Close()
		})
	}
	asking.Wait()
	if dialled.Load() == 0 {
		t.Error("no connection was dialled")
	}
}
