package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"robotsproxy/proxy/identity"
	"robotsproxy/robots"
)

// Transport is the one way to origins: pages and robots.txt files take it
// alike. It sends requests as they are and never looks at the environment's
// proxy variables, which in a sidecar name this proxy itself.
type Transport struct {
	verifying *http.Transport
	lenient   *http.Transport
	insecure  []identity.HostGlob
	ftp       *ftpTransport

	parent       *url.URL // nil: origins are dialled
	dialer       *net.Dialer
	destinations destinations
}

// unread is how much of a response over HTTP/2 waits here for a client that reads
// slowly: as much as a fast one can have on its way. Four times that is usual.
const unread = 1 << 20

// NewTransport makes the transport that opts describe.
func NewTransport(opts Upstream) (*Transport, error) {
	roots, err := trustedRoots(opts.CAFile)
	if err != nil {
		return nil, err
	}
	parent, err := opts.parent()
	if err != nil {
		return nil, fmt.Errorf("upstream.proxy: %w", err)
	}
	t := &Transport{
		insecure:     opts.Insecure,
		parent:       parent,
		dialer:       &net.Dialer{Timeout: opts.ConnectTimeout},
		destinations: destinations{deny: opts.Deny},
	}
	if parent == nil {
		t.dialer.Control = t.destinations.control
	}
	t.verifying = t.newTransport(opts, &tls.Config{RootCAs: roots})
	t.lenient = t.newTransport(opts, &tls.Config{RootCAs: roots, InsecureSkipVerify: true})
	t.ftp = &ftpTransport{t.dialer, opts.ResponseHeaderTimeout}
	return t, nil
}

func (t *Transport) newTransport(opts Upstream, config *tls.Config) *http.Transport {
	var via func(*http.Request) (*url.URL, error)
	if t.parent != nil {
		via = http.ProxyURL(t.parent)
	}
	return &http.Transport{
		Proxy:                 via,
		DialContext:           t.dialer.DialContext,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   opts.ConnectTimeout,
		ResponseHeaderTimeout: opts.ResponseHeaderTimeout,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConns:          1024,
		MaxIdleConnsPerHost:   256,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{MaxReceiveBufferPerStream: unread},

		MaxResponseHeaderBytes: 1 << 20,
		DisableCompression:     true,
	}
}

// Own tells the transport which addresses this program listens on: a request to
// one of them would come back. On an address of all interfaces, each of the
// machine's counts.
func (t *Transport) Own(listening ...net.Addr) {
	var own []netip.AddrPort
	for _, addr := range listening {
		if tcp, ok := addr.(*net.TCPAddr); ok {
			ap := tcp.AddrPort()
			own = append(own, netip.AddrPortFrom(underlying(ap.Addr()), ap.Port()))
		}
	}
	t.destinations.own.Store(&own)
}

// Forbids says why an origin is none that this transport goes to, nil if it is. It
// may have to resolve the origin's name.
func (t *Transport) Forbids(ctx context.Context, origin robots.Origin) error {
	if t.parent != nil { // which resolves names: only literal addresses can be checked
		if origin.Scheme == "ftp" && t.parent.Scheme == "socks5" {
			return errFTPBySOCKS
		}
		if _, err := netip.ParseAddr(origin.Host); err != nil {
			return nil
		}
	}
	return t.destinations.forbids(ctx, origin.Host, origin.Port)
}

// trustedRoots are the system's and those in the PEM file.
func trustedRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil // the system's
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the system's trusted roots: %w", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading trusted roots: %w", err)
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("reading trusted roots: %s holds no certificate in PEM", file)
	}
	return roots, nil
}

// RoundTrip sends one request to its origin. Certificates are verified but for
// the hosts that the operator excepts.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.parent != nil {
		origin, err := robots.ParseOrigin(r.URL.Scheme + "://" + r.URL.Host)
		if err != nil {
			return nil, err
		}
		if err := t.Forbids(r.Context(), origin); err != nil {
			return nil, err
		}
		if r.URL.Scheme == "http" && t.parent.Scheme != "socks5" && r.URL.Opaque != "" && !strings.HasPrefix(r.URL.Opaque, "//") {
			whole := *r.URL
			whole.Opaque = "//" + whole.Host + whole.Opaque // a proxy wants the absolute form (RFC 9112 3.2.2)
			r = r.WithContext(r.Context())
			r.URL = &whole
		}
		if r.URL.Scheme == "ftp" { // the parent is asked in HTTP
			whole := &url.URL{Scheme: "http", Host: r.URL.Host, Opaque: "ftp://" + r.URL.Host + r.URL.RequestURI()}
			r = r.WithContext(r.Context())
			r.URL = whole
		}
	} else if r.URL.Scheme == "ftp" {
		return t.ftp.RoundTrip(r)
	}
	if t.excepts(r.URL.Hostname()) {
		return t.lenient.RoundTrip(r)
	}
	return t.verifying.RoundTrip(r)
}

func (t *Transport) excepts(host string) bool {
	return slices.ContainsFunc(t.insecure, func(g identity.HostGlob) bool { return g.Match(host) })
}

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() {
	t.verifying.CloseIdleConnections()
	t.lenient.CloseIdleConnections()
}
