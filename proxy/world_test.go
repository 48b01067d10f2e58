package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"robotsproxy/certs"
	"robotsproxy/internal/logtest"
	"robotsproxy/proxy"
	"robotsproxy/proxy/access"
	"robotsproxy/proxy/conns"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/opaque"
	"robotsproxy/proxy/pace"
	"robotsproxy/proxy/upstream"
	"robotsproxy/robots/keeper"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
)

// testTimeout bounds every wait of a test. It is long enough to end only what hangs.
const testTimeout = 2 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(asSite) != "" {
		beSite()
	}
	goleak.VerifyTestMain(m)
}

// world is a proxy on a free port with origins beside it.
type world struct {
	t       *testing.T
	server  *proxy.Server
	gate    *gate.Gate
	addr    string // of the proxy
	ca      *certs.CA
	log     *logtest.Buffer
	metrics *prometheus.Registry

	redirects *redirects // of the transparent door; nil until it is opened
	socks     string     // address of the SOCKS door; "" until it is opened
	tls       string     // address at which the proxy speaks TLS itself; "" until it is opened

	onListener func(net.Listener) net.Listener
}

// settings are what a test may change.
type settings struct {
	proxy    proxy.Options
	clients  access.Options
	tunnels  opaque.Options
	upstream upstream.Options
	gate     gate.Settings
	policies gate.Policies // instead of the keeper's

	onTransport func(*upstream.Transport)
	onListener  func(net.Listener) net.Listener
}

func newWorld(t *testing.T, change ...func(*settings)) *world {
	t.Helper()
	dir := t.TempDir()
	set := settings{
		proxy:    proxy.Options{Name: "testproxy", Via: upstream.ViaBoth, Limits: conns.DefaultLimits()},
		clients:  access.Defaults(),
		tunnels:  opaque.Defaults(),
		upstream: upstream.Defaults(),
		gate:     gate.Settings{Identities: identity.Table{Default: identity.Default()}},
	}
	set.upstream.CAFile = originRoots(t, dir)
	for _, f := range change {
		f(&set)
	}
	if set.onListener == nil {
		set.onListener = func(l net.Listener) net.Listener { return l }
	}
	w := &world{t: t, log: &logtest.Buffer{}, metrics: prometheus.NewRegistry(), onListener: set.onListener}
	log := zerolog.New(w.log).Level(zerolog.DebugLevel)
	transport, err := upstream.NewTransport(set.upstream)
	must(t, err)
	if set.onTransport != nil {
		set.onTransport(transport)
	}
	if set.policies == nil {
		k, err := keeper.New(keeper.Setup{Options: policy.Defaults(), Memory: 1 << 20, Store: store.NewMemory(1 << 20), Transport: transport, Log: log})
		must(t, err)
		t.Cleanup(k.Close)
		set.policies = k
	}
	w.ca, err = certs.Open(certs.Options{}, dir)
	must(t, err)
	pacer := pace.New(pace.Defaults(), nil, log, w.metrics)
	g, err := gate.New(set.gate, set.policies, pacer, log, w.metrics)
	must(t, err)
	w.gate = g
	w.server = proxy.New(set.proxy, g, w.ca, transport, log, w.metrics)
	must(t, w.server.SetAccess(set.clients, set.tunnels))
	w.addr = w.open(w.server.Serve)
	return w
}

// open opens a door on a free port until the test ends.
func (w *world) open(serve func(net.Listener) error) (address string) {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(w.t, err)
	served := make(chan error, 1)
	go func() { served <- serve(w.onListener(l)) }()
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		w.server.Shutdown(ctx)
		if err := <-served; err != nil {
			w.t.Errorf("serving: %v", err)
		}
	})
	return l.Addr().String()
}

// originRoots writes the certificate of httptest's servers to a file.
func originRoots(t *testing.T, dir string) string {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	file := filepath.Join(dir, "origins.pem")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	return file
}

// origin is a web site that records its requests.
type origin struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

const someDisallowed = "User-agent: *\nDisallow: /private\n"

// origin starts a site over http, https, or https without HTTP/2 ("https/1.1"). Its
// robots.txt refuses /private.
func (w *world) origin(scheme string, page http.HandlerFunc) *origin {
	o := &origin{}
	o.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			io.WriteString(rw, someDisallowed)
			return
		}
		o.mu.Lock()
		o.seen = append(o.seen, r)
		o.mu.Unlock()
		if page != nil {
			page(rw, r)
			return
		}
		io.WriteString(rw, "page "+r.RequestURI)
	}))
	o.EnableHTTP2 = scheme == "https"
	o.Config.ErrorLog = nil
	if strings.HasPrefix(scheme, "https") {
		o.StartTLS()
	} else {
		o.Start()
	}
	w.t.Cleanup(o.Close)
	return o
}

// pages returns the targets that the origin was asked for, without robots.txt.
func (o *origin) pages() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	targets := []string{}
	for _, r := range o.seen {
		targets = append(targets, r.RequestURI)
	}
	return targets
}

func (o *origin) host() string { return strings.SplitN(o.URL, "://", 2)[1] }

// client returns an ordinary HTTP client that uses the world's proxy.
func (w *world) client(version string) *http.Client {
	transport := &http.Transport{
		Proxy:              http.ProxyURL(&url.URL{Scheme: "http", Host: w.addr}),
		TLSClientConfig:    w.trust(),
		ForceAttemptHTTP2:  version == "h2",
		DisableCompression: true,
	}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// trust returns the TLS configuration of a client that trusts the CA.
func (w *world) trust() *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.ca.PEM())
	return &tls.Config{RootCAs: roots}
}

// dial connects to the proxy for a test that writes requests by hand.
func (w *world) dial() *rawConn { return w.dialAt(w.addr) }

func (w *world) dialAt(address string) *rawConn {
	conn, err := net.Dial("tcp", address)
	must(w.t, err)
	w.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testTimeout))
	return &rawConn{w.t, conn, bufio.NewReader(conn)}
}

// rawConn is a connection on which a test writes requests octet by octet.
type rawConn struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func (c *rawConn) Read(p []byte) (int, error) { return c.r.Read(p) }

func (c *rawConn) send(text string) {
	_, err := io.WriteString(c.Conn, text)
	must(c.t, err)
}

func (c *rawConn) response(method string) (*http.Response, string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, &http.Request{Method: method})
	must(c.t, err)
	if method == http.MethodConnect {
		return resp, ""
	}
	body, err := io.ReadAll(resp.Body)
	must(c.t, err)
	return resp, string(body)
}

// tunnel opens a tunnel to host.
func (w *world) tunnel(host string) *rawConn {
	w.t.Helper()
	return w.tunnelIn(w.dial(), host)
}

// tunnelIn opens a tunnel to host on a connection to the proxy.
func (w *world) tunnelIn(c *rawConn, host string) *rawConn {
	w.t.Helper()
	c.send("CONNECT " + host + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
	if resp, _ := c.response(http.MethodConnect); resp.StatusCode != 200 {
		w.t.Fatalf("CONNECT %s: %s", host, resp.Status)
	}
	return c
}

// secure opens a tunnel to host with TLS in it.
func (w *world) secure(host string, protocols ...string) *rawConn {
	w.t.Helper()
	return w.secureIn(w.tunnel(host), host, protocols...)
}

// secureIn speaks TLS to host in a tunnel.
func (w *world) secureIn(tunnel net.Conn, host string, protocols ...string) *rawConn {
	w.t.Helper()
	config := w.trust()
	config.ServerName, _, _ = net.SplitHostPort(host)
	config.NextProtos = protocols
	conn := tls.Client(tunnel, config)
	must(w.t, conn.Handshake())
	return &rawConn{w.t, conn, bufio.NewReader(conn)}
}

// gauge waits until a metric without labels has a value.
func (w *world) gauge(name string, want float64) {
	w.t.Helper()
	var got float64
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		families, err := w.metrics.Gather()
		must(w.t, err)
		for _, f := range families {
			if f.GetName() == name {
				m := f.GetMetric()[0]
				got = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		if got == want {
			return
		}
	}
	w.t.Errorf("%s is %v, want %v", name, got, want)
}

func get(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := c.Get(url)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp, string(body)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
