package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gallery starts web sites on several addresses of this machine. Their pages show pictures
// from all of them, so that a browser opens connections in advance.
func gallery(t *testing.T, sites int) (first string) {
	t.Helper()
	var listeners []net.Listener
	for i := range sites {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:0", 11+i))
		must(t, err)
		listeners = append(listeners, l)
	}
	page := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".png") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<!doctype html><title>gallery</title>")
		for _, l := range listeners {
			fmt.Fprintf(w, "<link rel=preconnect href=https://%[1]s><link rel=preconnect href=https://%[1]s crossorigin>", l.Addr())
		}
		for i := range 4 {
			for _, l := range listeners {
				fmt.Fprintf(w, "<img src=https://%s/%d.png>", l.Addr(), i)
			}
		}
		io.WriteString(w, "<p>the gallery is here")
	}
	for _, l := range listeners {
		newOriginOn(t, l, "h2", says("User-agent: *\nDisallow: /private\n"), page)
	}
	return "https://" + listeners[0].Addr().String()
}

// A browser abandons connections that it has opened in advance. If it trusts the CA, they
// are counted separately, and there is no warning.
func TestBrowserThatTrustsTheCA(t *testing.T) {
	t.Parallel()
	certutil, err := exec.LookPath("certutil")
	if err != nil {
		t.Skip("there is no certutil; install the package libnss3-tools, as make deps does")
	}
	w := start(t, noBackground, `upstream: {ca_file: ORIGINS, insecure: ["127.0.0.*"]}`)
	home := t.TempDir()
	store := filepath.Join(home, ".pki", "nssdb")
	must(t, os.MkdirAll(store, 0o700))
	for _, args := range [][]string{
		{"-N", "--empty-password"},
		{"-A", "-n", "robotsproxy", "-t", "C,,", "-i", w.caFile()},
	} {
		if out, err := exec.Command(certutil, append(args, "-d", "sql:"+store)...).CombinedOutput(); err != nil {
			t.Fatalf("certutil %q: %v\n%s", args, err, out)
		}
	}
	first := gallery(t, 4)
	for range 3 {
		if page := w.browseFrom(home, first+"/", w.throughProxy()...); !strings.Contains(page, "the gallery is here") {
			t.Fatalf("the page did not come:\n%s", page)
		}
	}
	w.wantMetric("robotsproxy_client_tls_failures_total", "0")
	w.stop()
	if lines := w.log.Lines("does not trust"); len(lines) > 0 {
		t.Errorf("false alarms: %s", lines)
	}
}

func TestBrowserThatDistrustsTheCA(t *testing.T) {
	t.Parallel()
	w := start(t, noBackground, `upstream: {ca_file: ORIGINS, insecure: ["127.0.0.*"]}`)
	page := w.browse(gallery(t, 1)+"/", w.throughProxy()...)
	if strings.Contains(page, "the gallery is here") {
		t.Errorf("the page came without the CA:\n%s", page)
	}
	w.stop()
	if lines := w.log.Lines("does not trust", `"host":"127.0.0.11"`); len(lines) != 1 { // the browser asks other hosts too
		t.Errorf("%d warnings, want one for a client and host: %s", len(lines), lines)
	}
}

// throughProxy returns the options that make Chromium use the proxy for everything.
func (w *world) throughProxy() []string {
	return []string{"--proxy-server=http://" + w.proxy, "--proxy-bypass-list=<-loopback>"}
}
