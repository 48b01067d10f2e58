package e2e

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A site cannot send curl to another host by Alt-Svc, where its robots.txt would not apply.
func TestAltSvcIsRemoved(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"intercept", "when_needed"} {
		w := start(t, "https: {mode: "+mode+"}")
		other := newOrigin(t, "h2", says(""), nil)
		site := newOrigin(t, "h2", says("User-agent: *\nDisallow: /private\n"), func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Alt-Svc", `h2="`+other.Listener.Addr().String()+`"; ma=3600`)
			io.WriteString(rw, "the page")
		})
		cache := filepath.Join(t.TempDir(), "alt-svc")
		for range 2 {
			if r := w.curl("--alt-svc", cache, site.URL+"/page"); r.status != 200 || r.body != "the page" || r.header["Alt-Svc"] != nil {
				t.Errorf("%s: %+v", mode, r)
			}
		}
		wantRefused(t, w.curl("--alt-svc", cache, site.URL+"/private"), "Disallow: /private")
		wantSame(t, "pages of the other site", other.pages(), nil)
	}
}

// In a tunnel to one host, a client that names another one in its TLS does not reach it.
func TestServerNamesInTunnels(t *testing.T) {
	t.Parallel()
	open := newOrigin(t, "h2", says(""), nil)
	_, port, _ := net.SplitHostPort(open.Listener.Addr().String())
	elsewhere := []string{"--insecure", "--connect-to", "localhost:443:" + open.Listener.Addr().String()}
	for mode, want := range map[string]reply{"when_needed": {status: 421}, "tunnel": {exit: 35}} {
		w := start(t, "https: {mode: "+mode+"}\nupstream: {insecure: [localhost], ca_file: ORIGINS}")
		if r := w.curl(append(elsewhere, "https://localhost/private")...); r.status != want.status || r.exit != want.exit {
			t.Errorf("%s: %+v", mode, r)
		}
		wantSame(t, "pages", open.pages(), nil)
		if mode == "tunnel" {
			line := w.decision("https://" + open.Listener.Addr().String() + "/")
			line.want(t, "verdict", "disallowed", "reason", "tunnel", "status", 200)
			if cause, _ := line["error"].(string); !strings.Contains(cause, `asks for the server "localhost"`) {
				t.Errorf("error %q", cause)
			}
		}
	}
	// The same name passes.
	w := start(t, "https: {mode: tunnel}\nupstream: {insecure: [localhost], ca_file: ORIGINS}")
	if r := w.curl("--insecure", "https://localhost:"+port+"/page"); r.status != 200 {
		t.Errorf("the same name: %+v", r)
	}
}

// A stalled page is broken off, after the stall_timeout that held when it began.
func TestWhatStandsStillIsBrokenOff(t *testing.T) {
	t.Parallel()
	w := start(t)
	site := newOrigin(t, "http", says(""), func(rw http.ResponseWriter, r *http.Request) {
		io.WriteString(rw, "begun")
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	w.configure("limits: {stall_timeout: 50ms}")
	w.signal(syscall.SIGHUP)
	w.log.wait(t, w.exited, "the configuration was reloaded")
	if r := w.curl(site.URL + "/page"); r.status != 200 || r.exit != 18 || r.body != "begun" { // 18: a part of the page is missing
		t.Errorf("%+v", r)
	}
	w.decision(site.URL+"/page").want(t, "error", "broken off: neither side sent anything for 50ms")
	w.wantMetric(`robotsproxy_upstream_errors_total{error="connection_read_timeout"}`, "1")
}
