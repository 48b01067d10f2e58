// Package upstream is the way out: it reaches origins, directly or by a parent proxy, over
// HTTP, TLS and FTP, and goes only where the operator lets it.
package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"robotsproxy/internal/coalesce"
	"robotsproxy/internal/loopback"
	"robotsproxy/internal/slots"
	"robotsproxy/proxy/identity"
	"robotsproxy/robots"
)

// Transport is the one way to origins: pages and robots.txt files take it
// alike. It sends requests as they are, in the version of HTTP that they state, and
// never looks at the environment's proxy variables, which in a sidecar name this
// proxy itself.
type Transport struct {
	direct       *route // for clients on this machine
	outward      *route // for others: no connection to this machine's loopback is among its own
	parents      Parents
	byParent     map[*url.URL]*route
	insecure     []identity.HostGlob
	destinations destinations
	descriptors  *slots.Slots // of connections to clients, too
}

// route leads to origins directly or by one parent proxy.
type route struct {
	parent    *url.URL // nil: origins are dialled
	dialer    *dialer
	verifying versions
	lenient   versions
	ftp       *ftpTransport // of those that dial
}

// versions are the ways to ask an origin. To turn each request of HTTP/1.1 into a
// stream of HTTP/2 takes more than it saves.
type versions struct {
	http1 *http.Transport
	http2 *sharing // speaks HTTP/1.1 too, where an origin has no HTTP/2
}

func (v versions) of(r *http.Request) http.RoundTripper {
	if r.ProtoMajor == 2 {
		return v.http2
	}
	return v.http1
}

// http2StreamWindow is how much of a response over HTTP/2 waits here for a client that
// reads slowly: as much as a fast one can have on its way. Four times that is usual.
const http2StreamWindow = 1 << 20

// maxPageHeader bounds the header of a response, in octets. Held as fields it takes up to
// ten times as much.
const maxPageHeader = 256 << 10

// NewTransport makes the transport that opts describe.
func NewTransport(opts Options) (*Transport, error) {
	roots, err := trustedRoots(opts.CAFile)
	if err != nil {
		return nil, err
	}
	parents, err := opts.parents()
	if err != nil {
		return nil, fmt.Errorf("upstream.proxy: %w", err)
	}
	descriptors := slots.OfDescriptors()
	t := &Transport{
		direct:       newRoute(opts, roots, nil, descriptors),
		outward:      newRoute(opts, roots, nil, descriptors),
		parents:      parents,
		byParent:     map[*url.URL]*route{},
		insecure:     opts.Insecure,
		destinations: destinations{deny: opts.Deny},
		descriptors:  descriptors,
	}
	descriptors.MakeRoom = []func(){t.CloseIdleConnections}
	for _, r := range t.dialling() {
		r.dialer.ControlContext = t.destinations.control
	}
	for _, parent := range parents.byScheme {
		if t.byParent[parent] == nil {
			t.byParent[parent] = newRoute(opts, roots, parent, descriptors)
		}
	}
	return t, nil
}

// Descriptors are the slots of all connections that hold a descriptor: the transport takes
// one for each connection to an origin. Listeners take theirs from the same ones.
func (t *Transport) Descriptors() *slots.Slots { return t.descriptors }

// dialling are the routes without a parent.
func (t *Transport) dialling() []*route { return []*route{t.direct, t.outward} }

func newRoute(opts Options, roots *x509.CertPool, parent *url.URL, descriptors *slots.Slots) *route {
	r := &route{parent: parent, dialer: &dialer{net.Dialer{Timeout: opts.ConnectTimeout}, descriptors}}
	r.verifying = r.newVersions(opts, &tls.Config{RootCAs: roots})
	r.lenient = r.newVersions(opts, &tls.Config{RootCAs: roots, InsecureSkipVerify: true})
	r.ftp = &ftpTransport{r.dialer, opts.ResponseHeaderTimeout}
	return r
}

// maxIdle bounds the idle connections over HTTP/1.1, some 40 KB each, also to one origin:
// a crowd that has it asked keeps them all.
const maxIdle = 2048

// maxSessions bounds the TLS sessions that a new connection may go on with. There is one
// for each host.
const maxSessions = 512

// newVersions takes sessions from no other: what has been verified is part of them.
func (r *route) newVersions(opts Options, config *tls.Config) versions {
	config.ClientSessionCache = tls.NewLRUClientSessionCache(maxSessions)
	return versions{
		http1: r.newTransport(opts, config, r.dialer.DialContext),
		http2: newSharing(r.dialGathering, func(dial dialFunc) *http.Transport {
			t := r.newTransport(opts, config.Clone(), dial)
			t.ForceAttemptHTTP2 = true
			t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: http2StreamWindow}
			return t
		}),
	}
}

func (r *route) newTransport(opts Options, config *tls.Config, dial dialFunc) *http.Transport {
	return &http.Transport{
		Proxy: func(*http.Request) (*url.URL, error) { return r.parent, nil },
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
			return challenged(resp)
		},
		DialContext:           dial,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   opts.ConnectTimeout,
		ResponseHeaderTimeout: opts.ResponseHeaderTimeout,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConns:          maxIdle,
		MaxIdleConnsPerHost:   maxIdle,

		MaxResponseHeaderBytes: maxPageHeader,
		DisableCompression:     true,
	}
}

func (r *route) dialGathering(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := r.dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return coalesce.New(conn), nil
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

// Forbids says why an origin is none that this transport goes to for the client of
// ctx, nil if it is. It may have to resolve the origin's name.
func (t *Transport) Forbids(ctx context.Context, origin robots.Origin) error {
	if parent := t.parents.of(origin); parent != nil { // which resolves names: only literal addresses can be checked
		if origin.Scheme == "ftp" && parent.Scheme == "socks5" {
			return errFTPBySOCKS
		}
		if _, err := netip.ParseAddr(origin.Host); err != nil {
			return Bars(ctx, origin)
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

// routeTo is the way to an origin for the client of ctx.
func (t *Transport) routeTo(ctx context.Context, origin robots.Origin) *route {
	if parent := t.parents.of(origin); parent != nil {
		return t.byParent[parent]
	}
	return t.routeFor(ctx)
}

// routeFor is the way without a parent. A connection that leads to this machine's
// loopback is kept for clients on this machine; what is dialled is checked besides.
func (t *Transport) routeFor(ctx context.Context) *route {
	if loopback.Of(ctx).Bar() == nil {
		return t.direct
	}
	return t.outward
}

// RoundTrip sends one request to its origin. Certificates are verified but for
// the hosts that the operator excepts.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	way := (*route)(nil)
	if len(t.byParent) == 0 {
		way = t.routeFor(r.Context())
	} else {
		origin, err := robots.ParseOrigin(r.URL.Scheme + "://" + r.URL.Host)
		if err != nil {
			return nil, err
		}
		if way = t.routeTo(r.Context(), origin); way.parent != nil {
			if err := t.Forbids(r.Context(), origin); err != nil {
				return nil, err
			}
			r = forParent(r, way.parent)
		}
	}
	if r.URL.Scheme == "ftp" {
		return way.ftp.RoundTrip(r)
	}
	if client := loopback.Of(r.Context()); client.Begins() {
		led := way.parent != nil && namesLoopback(r.URL.Hostname())
		if way.parent == nil {
			r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
				to, isTCP := got.Conn.RemoteAddr().(*net.TCPAddr)
				led = isTCP && underlying(to.AddrPort().Addr()).IsLoopback()
			}}))
		}
		defer func() { client.Led(led) }()
	}
	via := way.verifying
	if t.excepts(r.URL.Hostname()) {
		via = way.lenient
	}
	resp, err := via.of(r).RoundTrip(r)
	if err == nil && way.parent != nil && way.parent.Scheme != "socks5" && r.URL.Scheme == "http" {
		if err = challenged(resp); err != nil {
			resp.Body.Close()
			return nil, err
		}
	}
	return resp, err
}

// errChallenged is for a parent proxy that does not let us through. As a response it
// would be taken for the origin's: a robots.txt that answers 4xx restricts nothing.
var errChallenged = errors.New("the parent proxy wants a user and a password that it knows; put them into its URL")

// challenged reports whether a response is a proxy's demand for credentials.
func challenged(resp *http.Response) error {
	if resp.StatusCode == http.StatusProxyAuthRequired {
		return errChallenged
	}
	return nil
}

// forParent is a request as a parent proxy wants it.
func forParent(r *http.Request, parent *url.URL) *http.Request {
	var whole *url.URL
	switch {
	case r.URL.Scheme == "http" && parent.Scheme != "socks5" && r.URL.Opaque != "" && !strings.HasPrefix(r.URL.Opaque, "//"):
		absolute := *r.URL
		absolute.Opaque = "//" + r.URL.Host + r.URL.Opaque // RFC 9112 3.2.2
		whole = &absolute
	case r.URL.Scheme == "ftp": // it is asked in HTTP
		whole = &url.URL{Scheme: "http", Host: r.URL.Host, Opaque: "ftp://" + r.URL.Host + r.URL.RequestURI()}
	default:
		return r
	}
	r = r.WithContext(r.Context())
	r.URL = whole
	return r
}

func (t *Transport) excepts(host string) bool {
	return slices.ContainsFunc(t.insecure, func(g identity.HostGlob) bool { return g.Match(host) })
}

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() {
	for _, r := range t.dialling() {
		r.closeIdleConnections()
	}
	for _, r := range t.byParent {
		r.closeIdleConnections()
	}
}

func (r *route) closeIdleConnections() {
	for _, v := range []versions{r.verifying, r.lenient} {
		v.http1.CloseIdleConnections()
		v.http2.CloseIdleConnections()
	}
}
