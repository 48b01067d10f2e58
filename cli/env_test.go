package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"robotsproxy/certs"
)

// env warns unless the proxy with its own CA answers.
func TestWarnOfAnotherProxy(t *testing.T) {
	open := func() *certs.CA {
		ca, err := certs.Open(certs.Defaults(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return ca
	}
	own, other := open(), open()
	for want, answer := range map[string]http.HandlerFunc{
		"": func(w http.ResponseWriter, _ *http.Request) { w.Write(own.PEM()) },
		"has another CA than " + own.Path() + ", so clients will not trust it": func(w http.ResponseWriter, _ *http.Request) { w.Write(other.PEM()) },
		"is not robotsproxy": http.NotFound,
	} {
		plain, secure := httptest.NewServer(answer), httptest.NewTLSServer(answer)
		for scheme, server := range map[string]*httptest.Server{"http": plain, "https": secure} {
			got := warnOfAnother(t.Context(), scheme, server.Listener.Addr().String(), own)
			if want == "" && got != "" || !strings.Contains(got, want) {
				t.Errorf("%s: %q, want %q", scheme, got, want)
			}
			server.Close()
		}
	}
	// A proxy that does not admit this client says nothing of its CA.
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Proxy-Status", "robotsproxy; error=http_request_denied")
		w.WriteHeader(http.StatusForbidden)
	}))
	defer closed.Close()
	if got := warnOfAnother(t.Context(), "http", closed.Listener.Addr().String(), own); got != "" {
		t.Errorf("a proxy that refuses: %q", got)
	}
}
