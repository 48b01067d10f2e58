package e2e

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"robotsproxy/internal/conntest"
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
			conntest.Tunnel(w, to.Host)
			return
		}
		plain.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// A parent that is away is named, and the site not blamed, also for a robots.txt.
func TestParentThatIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.errand([]string{"http_proxy=http://" + deadAddress}, "curl", "-s", "http://shop.test/")
	want := "the parent proxy " + deadAddress + " (from http_proxy) refused the connection"
	if got := e.must(t); !strings.Contains(got, "http://shop.test/robots.txt cannot be had ("+want+")") {
		t.Errorf("curl gets\n%s", got)
	}
	if !strings.Contains(e.err.String(), "its robots.txt cannot be had ("+want+")\n") {
		t.Errorf("the summary is\n%s", &e.err)
	}
}
