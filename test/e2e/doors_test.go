package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// at is the address of a door, as the program has logged it.
func (w *world) at(key string) string {
	w.t.Helper()
	address, _ := w.log.wait(w.t, w.exited, `"message":"serving"`)[key].(string)
	if address == "" {
		w.t.Fatalf("the program does not say where %s is", key)
	}
	return address
}

// users writes a file of users in which ann has the password pw.
func users(t *testing.T) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("pw"), bcrypt.MinCost)
	must(t, err)
	file := filepath.Join(t.TempDir(), "htpasswd")
	must(t, os.WriteFile(file, []byte("ann:"+string(hash)+"\n"), 0o600))
	return file
}

// exitProxy is curl's exit code for a proxy that refuses.
const exitProxy = 97

// curl gets pages of all kinds by SOCKS, whoever looks their names up, and is refused those
// that robots.txt disallows.
func TestCurlBySOCKS(t *testing.T) {
	t.Parallel()
	w := start(t, "listen_socks: 127.0.0.1:0")
	socks := w.at("listen_socks")
	for _, scheme := range []string{"http", "https", "h2"} {
		l6, err := net.Listen("tcp", "[::1]:0")
		must(t, err) // the tests' network has IPv6
		for site, ways := range map[*origin][]string{
			newOrigin(t, scheme, shop(), nil):       {"--socks5", "--socks5-hostname"},
			newOriginOn(t, l6, scheme, shop(), nil): {"--socks5", "--socks5-hostname"},
		} {
			for _, way := range ways {
				trusted := []string{way, socks, "--cacert", w.caFile()}
				if answer := w.curl(append(trusted, site.URL+"/products/1")...); answer.status != 200 || answer.body != "the page /products/1" {
					t.Errorf("%s %s: exit %d, status %d: %s", way, site.URL, answer.exit, answer.status, answer.body)
				}
				wantRefused(t, w.curl(append(trusted, site.URL+"/cart")...), `"Disallow: /cart"`)
			}
			wantSame(t, "pages", site.pages(), []string{"/products/1", "/products/1"})
			w.decision(site.URL+"/cart").want(t, "door", "socks", "verdict", "disallowed")
		}
	}
	// A name that curl looks up itself is still the one that is judged.
	site := newOrigin(t, "http", shop(), nil)
	_, port, _ := net.SplitHostPort(site.Listener.Addr().String())
	named := "http://localhost:" + port
	if answer := w.curl("--socks5", socks, named+"/products/2"); answer.status != 200 {
		t.Errorf("exit %d, status %d: %s", answer.exit, answer.status, answer.body)
	}
	w.decision(named+"/products/2").want(t, "door", "socks")
}

// SOCKS has the users of clients.htpasswd, who are those of identities.
func TestCurlBySOCKSWithPassword(t *testing.T) {
	t.Parallel()
	site := newOrigin(t, "https", shop(), nil)
	w := start(t, "listen_socks: 127.0.0.1:0", "clients: {htpasswd: "+users(t)+"}",
		"identities: [{name: pictures, match: {users: [ann]}, product_tokens: [PictureBot]}]")
	socks := w.at("listen_socks")
	ask := func(flags ...string) reply {
		return w.curl(append(flags, "--cacert", w.caFile(), site.URL+"/products/1")...)
	}
	for _, flags := range [][]string{
		{"--socks5-hostname", socks},
		{"--socks5-hostname", socks, "--proxy-user", "ann:wrong"},
		{"--socks5-hostname", socks, "--proxy-user", "bob:pw"},
	} {
		if answer := ask(flags...); answer.exit != exitProxy {
			t.Errorf("%q: exit %d, status %d", flags, answer.exit, answer.status)
		}
	}
	wantRefused(t, ask("--socks5-hostname", socks, "--proxy-user", "ann:pw"), `"Disallow: /"`)
	wantRefused(t, ask("--proxy", "socks5h://ann:pw@"+socks), `"Disallow: /"`)
	w.decision(site.URL+"/products/1").want(t, "identity", "pictures", "door", "socks")
}

// A tunnel that is refused as a whole is refused by SOCKS too.
func TestCurlBySOCKSUnread(t *testing.T) {
	t.Parallel()
	open, shut := newOrigin(t, "https", says(""), nil), newOrigin(t, "https", says("User-agent: *\nDisallow: /"), nil)
	w := start(t, "listen_socks: 127.0.0.1:0", "https: {mode: tunnel}", "upstream: {ca_file: ORIGINS, insecure: [localhost]}")
	socks := w.at("listen_socks")
	named := func(site *origin) string { return strings.Replace(site.URL, "127.0.0.1", "localhost", 1) }
	if answer := w.curl("--socks5-hostname", socks, "--insecure", named(open)+"/"); answer.status != 200 {
		t.Errorf("exit %d, status %d", answer.exit, answer.status)
	}
	if answer := w.curl("--socks5-hostname", socks, "--insecure", named(shut)+"/"); answer.exit != exitProxy {
		t.Errorf("exit %d, status %d", answer.exit, answer.status)
	}
	if pages := shut.pages(); len(pages) > 0 {
		t.Errorf("the site was asked for %q", pages)
	}
}

// ownCertificate writes a certificate for hosts, and its key, to files that it returns. Its
// serial number is that given.
func ownCertificate(t *testing.T, dir string, serial int64, hosts ...string) (cert, key string) {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "a proxy"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
		DNSNames: hosts, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, // it is its own issuer
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(signer)
	must(t, err)
	cert, key = filepath.Join(dir, "own.pem"), filepath.Join(dir, "own.key")
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	return cert, key
}

// listenTLS is the configuration of a proxy that speaks TLS itself.
func listenTLS(cert, key string) string {
	return fmt.Sprintf("listen_tls: {address: 127.0.0.1:0, cert: %q, key: %q}", cert, key)
}

// curl speaks TLS to the proxy, states its password there, and gets what it may.
func TestCurlOverTLSToTheProxy(t *testing.T) {
	t.Parallel()
	cert, key := ownCertificate(t, t.TempDir(), 1, "proxy.test")
	w := start(t, listenTLS(cert, key), "clients: {htpasswd: "+users(t)+"}")
	secure := w.at("listen_tls")
	flags := []string{"--proxy", "https://" + secure, "--proxy-cacert", cert, "--cacert", w.caFile()}
	for _, scheme := range []string{"http", "https", "h2"} {
		site := newOrigin(t, scheme, shop(), nil)
		known := append(flags, "--proxy-user", "ann:pw")
		if answer := w.curl(append(known, site.URL+"/products/1")...); answer.status != 200 {
			t.Errorf("%s: exit %d, status %d: %s", site.URL, answer.exit, answer.status, answer.body)
		}
		wantRefused(t, w.curl(append(known, site.URL+"/cart")...), `"Disallow: /cart"`)
		wantSame(t, "pages", site.pages(), []string{"/products/1"})
	}
	site := newOrigin(t, "http", shop(), nil)
	answer := w.curl(append(flags, site.URL+"/products/1")...)
	if answer.status != 407 || !strings.Contains(answer.body, "https://USER:PASSWORD@"+secure) {
		t.Errorf("without a password: status %d: %s", answer.status, answer.body)
	}
	// What the proxy says of itself names it as it was reached.
	_, port, _ := net.SplitHostPort(secure)
	page := w.curl("--noproxy", "*", "--cacert", cert, "--resolve", "proxy.test:"+port+":127.0.0.1", "https://proxy.test:"+port+"/")
	if !strings.Contains(page.body, "curl -x https://proxy.test:"+port+" ") {
		t.Errorf("the page: %s", page.body)
	}
	pac := w.curl("--noproxy", "*", "--cacert", cert, "--resolve", "proxy.test:"+port+":127.0.0.1", "https://proxy.test:"+port+"/proxy.pac")
	if !strings.Contains(pac.body, `return "HTTPS proxy.test:`+port+`";`) {
		t.Errorf("the PAC: %s", pac.body)
	}
}

// SIGHUP reads the proxy's own certificate again, and breaks no connection. A certificate that
// can't be used is refused, and the one before stays.
func TestOwnCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := ownCertificate(t, dir, 1)
	w := start(t, listenTLS(cert, key))
	secure := w.at("listen_tls")
	shown := func() int64 {
		conn, err := tls.Dial("tcp", secure, &tls.Config{InsecureSkipVerify: true})
		must(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	site := newOrigin(t, "https", shop(), nil)
	roots := x509.NewCertPool()
	for _, file := range []string{w.caFile(), cert} {
		text, err := os.ReadFile(file)
		must(t, err)
		roots.AppendCertsFromPEM(text)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "https", Host: secure}), TLSClientConfig: &tls.Config{RootCAs: roots}, MaxConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	ask := func() {
		t.Helper()
		resp, err := client.Get(site.URL + "/products/1")
		must(t, err)
		io.Copy(io.Discard, resp.Body) // else the connection is not used again
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("got %s", resp.Status)
		}
	}
	ask()
	ownCertificate(t, dir, 2)
	w.reload(true, listenTLS(cert, key))
	ask() // by the same connection: the client does not trust the new certificate
	if got := shown(); got != 2 {
		t.Errorf("shows the certificate %d", got)
	}
	must(t, os.WriteFile(cert, []byte("none"), 0o600))
	if line := w.refusedReload(listenTLS(cert, key)); !strings.Contains(line, "there is no PEM certificate in "+cert) {
		t.Errorf("logged %s", line)
	}
	if got := shown(); got != 2 {
		t.Errorf("shows the certificate %d", got)
	}
	ask()
}

// A browser that is given the proxy auto-configuration alone is refused what is disallowed.
func TestBrowserByPAC(t *testing.T) {
	t.Parallel()
	w := start(t, `overrides: [{origin: "http://*.test", verdict: disallow}]`)
	page := w.browse("http://shop.test/", "--proxy-pac-url=http://"+w.proxy+"/proxy.pac")
	if !strings.Contains(page, "http://shop.test/") || !strings.Contains(page, "the operator's own word") {
		t.Errorf("the browser shows %s", page)
	}
}

// Every door that other machines can reach, while none of them may use the proxy, is warned
// of; so is a key that everyone can read.
func TestDoorsBeyondTheMachine(t *testing.T) {
	t.Parallel()
	cert, key := ownCertificate(t, t.TempDir(), 1)
	must(t, os.Chmod(key, 0o644))
	w := start(t, "listen_socks: 0.0.0.0:0", fmt.Sprintf("listen_tls: {address: 0.0.0.0:0, cert: %q, key: %q}", cert, key))
	for _, name := range []string{"listen_socks", "listen_tls"} {
		w.log.wait(t, w.exited, `"level":"warn"`, `"`+name+`":"`, "listens beyond this machine")
	}
	w.log.wait(t, w.exited, `"level":"warn"`, "chmod 600", key)
}
