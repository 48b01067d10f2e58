package e2e

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
)

// newParent starts a proxy that sends all requests to one site, whatever host they name.
func newParent(t *testing.T, site *origin) (address string) {
	t.Helper()
	to, err := url.Parse(site.URL)
	must(t, err)
	plain := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
		},
		Transport: &http.Transport{DisableKeepAlives: true},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			tunnel(w, to.Host)
			return
		}
		plain.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// tunnel connects a client that has sent CONNECT with an address.
func tunnel(w http.ResponseWriter, address string) {
	up, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer up.Close()
	down, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer down.Close()
	fmt.Fprint(down, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		defer up.Close()
		io.Copy(up, down)
	}()
	io.Copy(down, up)
}
