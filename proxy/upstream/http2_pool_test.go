package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
)

// A first request that panics keeps nobody waiting.
func TestFirstRequestThatPanics(t *testing.T) {
	s := newHTTP2Pool(nil, func(dialFunc) *http.Transport { return new(http.Transport) })
	r, err := http.NewRequest(http.MethodGet, "https://site.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r = r.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GetConn: func(string) { panic("fault") }}))
	func() {
		defer func() {
			if recover() == nil {
				t.Fatal("it did not panic")
			}
		}()
		s.RoundTrip(r)
	}()
	if o := s.origins["site.test"]; o != nil {
		t.Error("others still wait for it")
	}
}

// However often idle connections are closed for others, no request loses its own: not
// even one with a body, which nothing could send again.
func TestSurplusConnectionsLoseNoRequest(t *testing.T) {
	o := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	}))
	o.EnableHTTP2 = true
	o.Config.ErrorLog = nil
	o.StartTLS()
	defer o.Close()
	_, port, _ := net.SplitHostPort(o.Listener.Addr().String())

	// Every name is the one server, and an origin of its own.
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, o.Listener.Addr().String())
	}
	s := newHTTP2Pool(dial, func(dial dialFunc) *http.Transport {
		return &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	})
	s.maxIdle = 2
	var asking sync.WaitGroup
	for i := range 6 {
		asking.Go(func() {
			for n := range 60 {
				text := fmt.Sprint("upload ", i, n)
				// What cannot be read twice cannot be sent twice.
				body := io.MultiReader(strings.NewReader(text))
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("https://origin%d.example:%s/", (i+n)%5, port), body)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := s.RoundTrip(r)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(got) != text || resp.ProtoMajor != 2 {
					t.Errorf("%s %q, %v", resp.Proto, got, err)
				}
			}
		})
	}
	asking.Wait()
	s.mu.Lock()
	idle, origins, listed := s.idle, len(s.origins), s.byUse.Len()
	s.mu.Unlock()
	if idle > 2 || origins > 2 || listed != origins {
		t.Errorf("at the end, %d connections to %d origins are idle (%d listed), want 2 at most", idle, origins, listed)
	}
	s.CloseIdleConnections()
	if s.idle != 0 || len(s.origins) != 0 || s.byUse.Len() != 0 {
		t.Errorf("when all are closed, %d connections to %d origins are idle", s.idle, len(s.origins))
	}
}
