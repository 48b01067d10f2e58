package proxy_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// dialTLS speaks TLS to the proxy itself, which shows a certificate for 127.0.0.1.
func (w *world) dialTLS(protocols ...string) *rawConn {
	w.t.Helper()
	if w.tls == "" {
		w.showCertificate("127.0.0.1")
		w.tls = w.open(w.server.ServeTLS)
	}
	return w.secureIn(w.dialAt(w.tls), w.tls, protocols...)
}

func (w *world) showCertificate(host string) {
	w.t.Helper()
	own, err := w.ca.Leaf(host)
	must(w.t, err)
	w.server.SetCertificate(own)
}

// Go's client reaches sites of every kind through a proxy that speaks TLS.
func TestTLSToTheProxy(t *testing.T) {
	w := newWorld(t)
	w.dialTLS().Close()
	for _, scheme := range []string{"http", "https", "https/1.1"} {
		site := w.origin(scheme, nil)
		transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "https", Host: w.tls}), TLSClientConfig: w.trust(), ForceAttemptHTTP2: true}
		client := &http.Client{Transport: transport}
		if resp, body := get(t, client, site.URL+"/public"); resp.StatusCode != 200 || body != "page /public" {
			t.Errorf("%s: %s %s", scheme, resp.Status, body)
		}
		if resp, _ := get(t, client, site.URL+"/private"); resp.StatusCode != 403 {
			t.Errorf("%s: %s", scheme, resp.Status)
		}
		transport.CloseIdleConnections()
		if pages := site.pages(); !slices.Equal(pages, []string{"/public"}) {
			t.Errorf("%s: the site was asked for %q", scheme, pages)
		}
	}
	w.gauge("robotsproxy_connections", 0)
}

// A new certificate is for new connections. Those that are open go on.
func TestCertificateIsReplaced(t *testing.T) {
	w := newWorld(t)
	site := w.origin("http", nil)
	shown := func(c *rawConn) string {
		return c.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].NotAfter.String()
	}
	first, busy := w.dialTLS(), w.tunnelIn(w.dialTLS(), site.host())
	if name := first.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].IPAddresses; len(name) != 1 {
		t.Fatalf("shown %v at %s", name, shown(first))
	}
	w.showCertificate("proxy.test")
	if status, _ := busy.ask("/public", site.host()); status != 200 {
		t.Errorf("a tunnel got %d", status)
	}
	config := w.trust()
	config.ServerName = "proxy.test"
	conn := tls.Client(w.dialAt(w.tls), config)
	must(t, conn.Handshake())
	second := &rawConn{t, conn, bufio.NewReader(conn)}
	for _, c := range []*rawConn{first, second} {
		c.send("GET " + site.URL + "/public HTTP/1.1\r\nHost: " + site.host() + "\r\n\r\n")
		if resp, _ := c.response(http.MethodGet); resp.StatusCode != 200 {
			t.Errorf("got %s", resp.Status)
		}
	}
}

// A client that does not speak TLS where TLS is spoken, or wants HTTP/2 alone, is turned away
// before it has sent a password.
func TestTLSIsSpokenThere(t *testing.T) {
	w := newWorld(t)
	if got := w.dialTLS("h2", "http/1.1").Conn.(*tls.Conn).ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("negotiated %q", got)
	}
	c := w.dialAt(w.tls)
	c.send("GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n")
	if answer, _ := io.ReadAll(c); strings.HasPrefix(string(answer), "HTTP/1.1") {
		t.Errorf("got %q", answer)
	}
	config := w.trust()
	config.ServerName, config.NextProtos = "127.0.0.1", []string{"h2"}
	if err := tls.Client(w.dialAt(w.tls), config).Handshake(); err == nil {
		t.Error("negotiated HTTP/2")
	}
}
