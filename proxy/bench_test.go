package proxy_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/certs"
	"robotsproxy/proxy"
	"robotsproxy/proxy/access"
	"robotsproxy/proxy/admin"
	"robotsproxy/proxy/conns"
	"robotsproxy/proxy/counter"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/opaque"
	"robotsproxy/proxy/upstream"
	"robotsproxy/robots"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/sqlitestore"
)

// BenchmarkRequest measures a request for 1 KiB over kept-alive connections, with client and
// origin: through this proxy, in plain HTTP, unsigned and signed, and in HTTP/2 inside TLS, and
// through the simplest proxy that net/http allows.
func BenchmarkRequest(b *testing.B) {
	page := strings.Repeat("x", 1024)
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, page) }))
	defer o.Close()
	target, _ := url.Parse(o.URL)

	b.Run("by=robotsproxy", func(b *testing.B) {
		address, _ := serveBench(b)
		ask(b, address, o.URL+"/public/page")
	})
	b.Run("by=robotsproxy-signed", func(b *testing.B) {
		address, g := serveBench(b)
		var set gate.Settings
		set.Identities.Default.Signing = newKeyring(b, 1).signing(0)
		set.Identities.Default.Signing.HTTP = true
		if err := g.SetSettings(set); err != nil {
			b.Fatal(err)
		}
		ask(b, address, o.URL+"/public/page")
	})
	b.Run("by=robotsproxy-h2", func(b *testing.B) {
		secure := httptest.NewUnstartedServer(o.Config.Handler)
		secure.EnableHTTP2 = true
		secure.StartTLS()
		defer secure.Close()
		address, _ := serveBench(b)
		ask(b, address, secure.URL+"/public/page")
	})
	b.Run("by=reverseproxy", func(b *testing.B) {
		server := httptest.NewServer(&httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 256},
		})
		defer server.Close()
		ask(b, server.Listener.Addr().String(), o.URL+"/public/page")
	})
}

// serveBench runs a proxy until b ends.
func serveBench(b *testing.B) (address string, g *gate.Gate) {
	b.Helper()
	opts := upstream.Defaults()
	opts.Insecure = hosts([]string{"*"})
	transport, err := upstream.NewTransport(opts)
	if err != nil {
		b.Fatal(err)
	}
	ca, err := certs.Open(certs.Options{}, b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	rules := &policy.Policy{Outcome: policy.Rules, File: robots.Parse([]byte(someDisallowed))}
	policies := gate.OnePolicy(rules)
	g, err = gate.New(gate.Settings{}, policies, nil, zerolog.New(io.Discard), nil)
	if err != nil {
		b.Fatal(err)
	}
	server := proxy.New(proxy.Options{Name: "bench", Via: upstream.ViaBoth, Limits: conns.DefaultLimits()},
		g, ca, transport, zerolog.Nop(), nil)
	if err := server.SetAccess(access.Defaults(), opaque.Defaults()); err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	b.Cleanup(func() {
		server.Shutdown(context.Background())
		<-served
	})
	return l.Addr().String(), g
}

// BenchmarkWatched measures what observers cost: none, counts that SQLite keeps, an admin server
// that keeps the decisions, and one browser that gets every decision live. cpu-ns/op is the time
// of client, proxy and origin together.
func BenchmarkWatched(b *testing.B) {
	page := strings.Repeat("x", 1024)
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, page) }))
	defer o.Close()
	for _, by := range []string{"nobody", "counter", "admin", "browser"} {
		b.Run("by="+by, func(b *testing.B) {
			address, g := serveBench(b)
			switch by {
			case "counter":
				kept, err := sqlitestore.Open(b.Context(), store.Defaults(), b.TempDir(), zerolog.Nop())
				if err != nil {
					b.Fatal(err)
				}
				defer kept.Close()
				c := counter.New(kept, time.Now, zerolog.Nop())
				defer c.Close()
				g.Watch(c.Add)
			case "admin", "browser":
				a := admin.New(admin.Setup{Gate: g})
				defer a.Close()
				server := httptest.NewServer(a)
				defer server.Close()
				if by == "browser" {
					defer look(b, server.URL)()
				}
			}
			before := cpuTime(b)
			ask(b, address, o.URL+"/public/page")
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// look reads live decisions until stop is called.
func look(b *testing.B, adminURL string) (stop func()) {
	b.Helper()
	resp, err := http.Get(adminURL + "/api/v1/decisions/stream")
	if err != nil {
		b.Fatal(err)
	}
	events := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, resp.Body)
		events <- n
	}()
	return func() {
		resp.Body.Close()
		b.ReportMetric(float64(<-events)/b.Elapsed().Seconds()/1e6, "MB-watched/s")
	}
}

// ask runs b: many clients at once ask for a page through a proxy.
func ask(b *testing.B, proxyAddr, page string) {
	transport := &http.Transport{
		Proxy:               http.ProxyURL(&url.URL{Scheme: "http", Host: proxyAddr}),
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true},
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 256,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			resp, err := client.Get(page)
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
	b.StopTimer()
}
