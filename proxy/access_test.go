package proxy_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"robotsproxy/proxy/identity"
)

// htpasswd makes a file with one user, whose password is cheap to check.
func htpasswd(t *testing.T) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("pass:word"), bcrypt.MinCost)
	must(t, err)
	file := filepath.Join(t.TempDir(), "htpasswd")
	must(t, os.WriteFile(file, []byte("# who may\n\nimages:"+string(hash)+"\n"), 0o600))
	return file
}

func TestUsers(t *testing.T) {
	w := newWorld(t, func(s *settings) {
		s.clients.Htpasswd = htpasswd(t)
		s.gate.Identities.Entries = []identity.Entry{{Name: "image-bot", Match: identity.Match{Users: []string{"images"}}}}
	})
	plain, secure := w.origin("http", nil), w.origin("https", nil)
	for credentials, right := range map[string]bool{
		"":                 false,
		"images:pass:word": true,
		"images:wrong":     false,
		"other:pass:word":  false,
		"images:":          false,
	} {
		header := ""
		if credentials != "" {
			header = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(credentials)) + "\r\n"
		}
		for _, request := range []string{
			"GET " + plain.URL + "/public HTTP/1.1\r\nHost: " + plain.host() + "\r\n",
			"GET " + secure.URL + "/public HTTP/1.1\r\nHost: " + secure.host() + "\r\n",
			"CONNECT " + secure.host() + " HTTP/1.1\r\nHost: " + secure.host() + "\r\n",
		} {
			c := w.dial()
			c.send(request + header + "\r\n")
			resp, err := http.ReadResponse(c.r, nil)
			must(t, err)
			want, challenge := 200, ""
			if !right {
				want, challenge = 407, `Basic realm="testproxy", charset="UTF-8"`
			}
			if resp.StatusCode != want || resp.Header.Get("Proxy-Authenticate") != challenge {
				t.Errorf("%q, %s: %s %v", credentials, strings.Fields(request)[0], resp.Status, resp.Header)
			}
			if !right && !strings.Contains(resp.Header.Get("Proxy-Status"), "error=http_request_denied") {
				t.Errorf("Proxy-Status %q", resp.Header.Get("Proxy-Status"))
			}
		}
	}
	for _, o := range []*origin{plain, secure} {
		for _, r := range o.seen {
			if r.Header["Proxy-Authorization"] != nil {
				t.Error("the origin saw the proxy's credentials")
			}
		}
	}
	through := &url.URL{Scheme: "http", Host: w.addr, User: url.UserPassword("images", "pass:word")}
	transport := &http.Transport{Proxy: http.ProxyURL(through), TLSClientConfig: w.trust()}
	defer transport.CloseIdleConnections()
	if resp, _ := get(t, &http.Client{Transport: transport}, secure.URL+"/public"); resp.StatusCode != 200 {
		t.Errorf("a user through a tunnel: %s", resp.Status)
	}
	w.log.WaitLine(t, nil, `"message":"request"`, secure.URL, `"identity":"image-bot"`)
	if log := w.log.String(); strings.Contains(log, "pass:word") || strings.Contains(log, base64.StdEncoding.EncodeToString([]byte("images:pass:word"))) {
		t.Error("the log holds credentials")
	}
	c := w.dial()
	c.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp, _ := c.response("GET"); resp.StatusCode != 200 {
		t.Errorf("the proxy's own page: %s", resp.Status)
	}
}
