package pool

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

// After a panic in the first request, nobody waits for it.
func TestFirstRequestPanics(t *testing.T) {
	s := NewHTTP2(nil, func(DialFunc) *http.Transport { return new(http.Transport) })
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
		s.RoundTrip(r.URL.Host, r)
	}()
	if s.origins["site.test"] != nil {
		t.Error("others still wait for it")
	}
}

// However often idle connections are closed to make room, no request loses its own. This
// matters most to those with a body, which can't be sent again.
func TestNoRequestLosesItsConnection(t *testing.T) {
	t.Run("HTTP/1.1", func(t *testing.T) { testNoRequestLosesItsConnection(t, 1, New) })
	t.Run("HTTP/2", func(t *testing.T) { testNoRequestLosesItsConnection(t, 2, NewHTTP2) })
}

func testNoRequestLosesItsConnection(t *testing.T, version int, newPool func(DialFunc, func(DialFunc) *http.Transport) *Pool) {
	const maxIdle = 2
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
	s := newPool(dial, func(dial DialFunc) *http.Transport {
		return &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: version == 2}
	})
	s.maxIdleOrigins = maxIdle
	var asking sync.WaitGroup
	for i := range 6 {
		asking.Go(func() {
			for n := range 60 {
				text := fmt.Sprint("upload ", i, n)
				// As the reader can't be rewound, net/http can't send the request again.
				body := io.MultiReader(strings.NewReader(text))
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("https://origin%d.example:%s/", (i+n)%5, port), body)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := s.RoundTrip(r.URL.Host, r)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(got) != text || resp.ProtoMajor != version {
					t.Errorf("%s %q, %v", resp.Proto, got, err)
				}
			}
		})
	}
	asking.Wait()
	s.mu.Lock()
	conns, idle, origins, listed := s.idleConns, s.idleOrigins, len(s.origins), s.byUse.Len()
	s.mu.Unlock()
	if idle > maxIdle || origins > maxIdle || listed != origins || version == 2 && conns > maxIdle {
		t.Errorf("at the end, %d origins of %d (%d listed) have %d idle connections, want at most %d", idle, origins, listed, conns, maxIdle)
	}
	s.CloseIdleConnections()
	if s.idleConns != 0 || s.idleOrigins != 0 || len(s.origins) != 0 || s.byUse.Len() != 0 {
		t.Errorf("when all are closed, %d origins of %d have %d idle connections", s.idleOrigins, len(s.origins), s.idleConns)
	}
}
