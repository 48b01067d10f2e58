package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"robotsproxy/proxy/identity"
)

// Transport is the one way to origins: pages and robots.txt files take it
// alike. It sends requests as they are and never looks at the environment's
// proxy variables, which in a sidecar name this proxy itself.
type Transport struct {
	verifying *http.Transport
	lenient   *http.Transport
	insecure  []identity.HostGlob
}

// NewTransport makes the transport that opts describe.
func NewTransport(opts Upstream) (*Transport, error) {
	roots, err := trustedRoots(opts.CAFile)
	if err != nil {
		return nil, err
	}
	t := &Transport{verifying: newTransport(opts, &tls.Config{RootCAs: roots}), insecure: opts.Insecure}
	t.lenient = newTransport(opts, &tls.Config{InsecureSkipVerify: true})
	return t, nil
}

func newTransport(opts Upstream, config *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: opts.ConnectTimeout}).DialContext,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   opts.ConnectTimeout,
		ResponseHeaderTimeout: opts.ResponseHeaderTimeout,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConns:          1024,
		MaxIdleConnsPerHost:   256,
		ForceAttemptHTTP2:     true,

		MaxResponseHeaderBytes: 1 << 20,
		DisableCompression:     true,
	}
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
		return nil, fmt.Errorf("reading trusted roots: %s holds no PEM certificate; name a file that does in upstream.ca_file", file)
	}
	return roots, nil
}

// RoundTrip sends one request to its origin. Certificates are verified but for
// the hosts that the operator excepts.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
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
