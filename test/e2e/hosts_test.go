package e2e

import (
	"crypto/tls"
	"net/http"
	"testing"
)

// The configuration may spell hosts as URLs may: in capitals, in Unicode and in full-width
// letters.
func TestHostsInTheConfiguration(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, "https", says("User-agent: *\nDisallow: /closed\n"), nil)
	w := start(t, `https: {passthrough: ["BÜCHER.example", "ｗｉｄｅ.Example"]}
overrides: [{origin: "HTTPS://GESCHÜTZT.example:443", verdict: disallow}, {origin: "https://*.example", verdict: allow}]
# ORIGINS
upstream: {proxy: "http://`+newParent(t, o)+`", insecure: ["GELESEN-Ü.example"]}`)
	client := w.client(false)
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	for host, want := range map[string]struct {
		status int
		isRead bool
	}{
		"bücher.example":        {200, false},
		"xn--bcher-kva.example": {200, false},
		"wide.example":          {200, false},
		"gelesen-ü.example":     {200, true},
		"geschützt.example":     {403, true},
	} {
		resp, err := client.Get("https://" + host + "/page")
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		resp.Body.Close()
		isRead := !resp.TLS.PeerCertificates[0].Equal(o.Certificate())
		if resp.StatusCode != want.status || isRead != want.isRead {
			t.Errorf("%s: %s, read: %v", host, resp.Status, isRead)
		}
	}
}
