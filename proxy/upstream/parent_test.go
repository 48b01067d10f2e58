package upstream_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"robotsproxy/internal/loopback"
	"robotsproxy/proxy/upstream"
	"robotsproxy/robots"
)

// Each parent answers with its own name, so the answers show which one was asked.
func TestParentsOfVariables(t *testing.T) {
	parent := func(name string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, name)
		}))
		t.Cleanup(s.Close)
		return s
	}
	one, two := parent("one"), parent("two")
	direct := parent("direct")
	port := direct.URL[strings.LastIndex(direct.URL, ":"):]
	for _, c := range []struct {
		variables map[string]string
		url, want string
	}{
		{nil, direct.URL, "direct"},
		{map[string]string{"http_proxy": one.URL}, "http://shop.test/", "one"},
		{map[string]string{"HTTP_PROXY": one.URL}, "http://shop.test/", "one"},
		{map[string]string{"all_proxy": one.URL}, "http://shop.test/", "one"},
		{map[string]string{"http_proxy": one.URL, "HTTP_PROXY": two.URL, "ALL_PROXY": two.URL}, "http://shop.test/", "one"},
		{map[string]string{"http_proxy": strings.TrimPrefix(one.URL, "http://")}, "http://shop.test/", "one"},
		{map[string]string{"https_proxy": one.URL}, direct.URL, "direct"},
		{map[string]string{"http_proxy": one.URL, "ftp_proxy": two.URL}, "ftp://shop.test/", "two"},
		{map[string]string{"http_proxy": one.URL}, direct.URL, "one"}, // loopback is no exception by itself
		{map[string]string{"http_proxy": one.URL, "no_proxy": "localhost, 127.0.0.1"}, direct.URL, "direct"},
		{map[string]string{"http_proxy": one.URL, "NO_PROXY": "127.0.0.0/8"}, direct.URL, "direct"},
		{map[string]string{"http_proxy": one.URL, "no_proxy": "*"}, direct.URL, "direct"},
		{map[string]string{"http_proxy": one.URL, "no_proxy": "localhost"}, "http://localhost" + port, "direct"},
		{map[string]string{"http_proxy": one.URL, "no_proxy": "localhost"}, direct.URL, "one"},
		{map[string]string{"http_proxy": one.URL, "no_proxy": "other.test"}, "http://shop.test/", "one"},
		{map[string]string{"http_proxy": one.URL, "no_proxy": "shop.test"}, "http://www.shop.test/", "no such host"},
	} {
		parents, err := upstream.ParentsOf(func(name string) string { return c.variables[name] })
		if err != nil {
			t.Fatal(err)
		}
		opts := upstream.Defaults()
		opts.Parents = parents
		transport, err := upstream.NewTransport(opts)
		if err != nil {
			t.Fatal(err)
		}
		target, _ := url.Parse(c.url)
		r := &http.Request{Method: http.MethodGet, URL: target, Header: http.Header{}}
		resp, err := transport.RoundTrip(r.WithContext(loopback.With(t.Context(), loopback.Here)))
		if c.want == "no such host" {
			if _, ok := err.(*net.OpError); !ok {
				t.Errorf("%v %s: %v, want that the name is looked for", c.variables, c.url, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v %s: %v", c.variables, c.url, err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != c.want {
			t.Errorf("%v %s went to %s, want %s", c.variables, c.url, body, c.want)
		}
		transport.CloseIdleConnections()
	}
}

// A parent's demand for credentials is not the origin's answer.
func TestParentThatWantsCredentials(t *testing.T) {
	parent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	t.Cleanup(parent.Close)
	opts := upstream.Defaults()
	opts.Proxy = parent.URL
	transport, err := upstream.NewTransport(opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, origin := range []string{"http://shop.test/robots.txt", "https://shop.test/robots.txt", "ftp://shop.test/robots.txt"} {
		target, _ := url.Parse(origin)
		resp, err := transport.RoundTrip(&http.Request{Method: http.MethodGet, URL: target, Header: http.Header{}})
		if err == nil {
			resp.Body.Close()
			t.Errorf("%s: status %d, want an error", origin, resp.StatusCode)
		} else if !strings.Contains(err.Error(), "the parent proxy wants a user and a password") {
			t.Errorf("%s: %v", origin, err)
		}
	}
}

// The error of a parent that is away names it, and where the user has named it.
func TestParentThatRefusesTheConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := listener.Addr().String()
	listener.Close()
	for _, scheme := range []string{"http", "socks5"} {
		byKey, byVariable := upstream.Defaults(), upstream.Defaults()
		byKey.Proxy = scheme + "://me:secret@" + gone
		byVariable.Parents, err = upstream.ParentsOf(func(name string) string {
			if name == "all_proxy" {
				return byKey.Proxy
			}
			return ""
		})
		if err != nil {
			t.Fatal(err)
		}
		for from, opts := range map[string]upstream.Options{"upstream.proxy": byKey, "all_proxy": byVariable} {
			transport, err := upstream.NewTransport(opts)
			if err != nil {
				t.Fatal(err)
			}
			want := "the parent proxy " + gone + " (from " + from + ") refused the connection"
			for _, page := range []string{"http://shop.test/", "https://shop.test/"} {
				target, _ := url.Parse(page)
				resp, err := transport.RoundTrip(&http.Request{Method: http.MethodGet, URL: target, Header: http.Header{}})
				if err == nil {
					resp.Body.Close()
				}
				if err == nil || err.Error() != want {
					t.Errorf("%s by %s: %v, want %s", page, scheme, err, want)
				} else if _, kind := upstream.Failure(err); kind != "connection_refused" {
					t.Errorf("%s by %s: %s", page, scheme, kind)
				}
			}
			if _, err := transport.Dial(t.Context(), robots.Origin{Scheme: "https", Host: "shop.test", Port: "443"}); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("a tunnel by %s: %v, want %s", scheme, err, want)
			}
		}
	}
}

func TestInvalidParents(t *testing.T) {
	for _, value := range []string{"ldap://host:1", "http://", "http://user:secret@host:port:1", "socks4://host"} {
		_, err := upstream.ParentsOf(func(name string) string {
			if name == "HTTPS_PROXY" {
				return value
			}
			return ""
		})
		if err == nil || !strings.Contains(err.Error(), "HTTPS_PROXY") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want an error that names the variable and no secret", value, err)
		}
	}
}
