// Package upstream is the way out: it reaches origins over HTTP, TLS and FTP, directly or
// through a parent proxy, and only where the operator lets it go.
//
// A [Transport] made of [Options] sends requests ([Transport.RoundTrip]) and opens tunnels
// ([Transport.Dial]). [Failure] says how to answer a request when either has failed.
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
	"robotsproxy/proxy/upstream/ftp"
	"robotsproxy/proxy/upstream/pool"
	"robotsproxy/robots"
)

// Transport is the only way to origins, for pages and for robots.txt files. It sends
// requests unchanged, in the version of HTTP that they state. It ignores the environment's
// proxy variables, which name this very proxy where it is a sidecar.
type Transport struct {
	forLocal     *route // for clients on this machine
	forOthers    *route // for other clients; it never has a connection to this machine's loopback
	parents      Parents
	byParent     map[*url.URL]*route
	insecure     []identity.HostGlob
	destinations destinations
	descriptors  *slots.Slots // shared with the connections of clients
	open         openConns
}

// route leads to origins directly or through one parent proxy.
type route struct {
	parent    *url.URL // nil: origins are dialled directly
	dialer    *dialer
	verifying transports
	lenient   transports
	ftp       *ftp.Transport // for routes without a parent
}

// transports send requests in the version of HTTP that clients speak: turning an HTTP/1.1
// request into a stream of HTTP/2 costs more than it saves.
type transports struct {
	tls   *tls.Config
	http1 *pool.Pool
	http2 *pool.Pool // for https; it speaks HTTP/1.1 with origins that have no HTTP/2
}

func (t transports) of(r *http.Request) *pool.Pool {
	if r.ProtoMajor == 2 && r.URL.Scheme == "https" {
		return t.http2
	}
	return t.http1
}

// http2StreamWindow is how many octets of a response over HTTP/2 are held for a client that
// reads slowly. To a fast client, as many can be on their way at once. net/http's default is
// four times as much.
const http2StreamWindow = 1 << 20

// maxResponseHeader bounds a response's header, in octets. Once parsed, it takes up to ten
// times as much memory.
const maxResponseHeader = 256 << 10

// NewTransport returns the transport that opts describe. It reads the file of trusted roots.
func NewTransport(opts Options) (*Transport, error) {
	roots, err := trustedRoots(opts.CAFile)
	if err != nil {
		return nil, err
	}
	parents, err := opts.parents()
	if err != nil {
		return nil, fmt.Errorf("upstream.proxy: %w", err)
	}
	t := &Transport{
		parents:      parents,
		byParent:     map[*url.URL]*route{},
		insecure:     opts.Insecure,
		destinations: destinations{deny: opts.Deny},
		descriptors:  slots.OfDescriptors(),
	}
	t.descriptors.MakeRoom = []func(){t.CloseIdleConnections}
	t.forLocal, t.forOthers = t.newRoute(opts, roots, nil), t.newRoute(opts, roots, nil)
	for _, r := range t.dialling() {
		r.dialer.ControlContext = t.destinations.control
	}
	for _, parent := range parents.byScheme {
		if t.byParent[parent] == nil {
			t.byParent[parent] = t.newRoute(opts, roots, parent)
			t.byParent[parent].dialer.parent = parents.describe(parent)
		}
	}
	return t, nil
}

// Descriptors returns the slots for all connections, each of which holds a file descriptor.
// The transport takes one for each connection to an origin. Listeners must take theirs from
// the same slots.
func (t *Transport) Descriptors() *slots.Slots { return t.descriptors }

// dialling returns the routes without a parent.
func (t *Transport) dialling() []*route { return []*route{t.forLocal, t.forOthers} }

func (t *Transport) newRoute(opts Options, roots *x509.CertPool, parent *url.URL) *route {
	r := &route{parent: parent, dialer: &dialer{Dialer: net.Dialer{Timeout: opts.ConnectTimeout}, descriptors: t.descriptors, open: &t.open}}
	r.verifying = r.newTransports(opts, &tls.Config{RootCAs: roots})
	r.lenient = r.newTransports(opts, &tls.Config{RootCAs: roots, InsecureSkipVerify: true})
	r.ftp = &ftp.Transport{Dial: r.dialer.DialContext, ReplyTimeout: opts.ResponseHeaderTimeout}
	return r
}

// maxSessions bounds the TLS sessions that new connections can resume, one for each host.
const maxSessions = 512

// newTransports returns transports with a session cache of their own. A session vouches for
// what was verified when it began, so it must not be resumed under a stricter configuration.
func (r *route) newTransports(opts Options, config *tls.Config) transports {
	config.ClientSessionCache = tls.NewLRUClientSessionCache(maxSessions)
	return transports{
		tls: config,
		http1: pool.New(r.dialer.DialContext, func(dial pool.DialFunc) *http.Transport {
			return r.newTransport(opts, config, dial)
		}),
		http2: pool.NewHTTP2(r.dialCoalescing, func(dial pool.DialFunc) *http.Transport {
			t := r.newTransport(opts, config.Clone(), dial)
			t.ForceAttemptHTTP2 = true
			t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: http2StreamWindow}
			return t
		}),
	}
}

func (r *route) newTransport(opts Options, config *tls.Config, dial pool.DialFunc) *http.Transport {
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
		MaxIdleConnsPerHost:   pool.MaxIdleConns,

		MaxResponseHeaderBytes: maxResponseHeader,
		DisableCompression:     true,
	}
}

func (r *route) dialCoalescing(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := r.dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return coalesce.New(conn), nil
}

// SetOwnAddresses tells the transport which addresses this program listens on. It dials none
// of them, since such a request would come back. An unspecified address stands for all of the
// machine's.
func (t *Transport) SetOwnAddresses(listening ...net.Addr) {
	var own []netip.AddrPort
	for _, addr := range listening {
		if tcp, ok := addr.(*net.TCPAddr); ok {
			ap := tcp.AddrPort()
			own = append(own, netip.AddrPortFrom(underlying(ap.Addr()), ap.Port()))
		}
	}
	t.destinations.own.Store(&own)
}

// CheckOrigin returns why this transport must not reach an origin for the client of ctx; nil
// if it may. It may have to resolve the origin's name.
func (t *Transport) CheckOrigin(ctx context.Context, origin robots.Origin) error {
	if parent := t.parents.of(origin); parent != nil { // it resolves names, so only literal addresses can be checked
		if origin.Scheme == "ftp" && parent.Scheme == "socks5" {
			return errFTPBySOCKS
		}
		if _, err := netip.ParseAddr(origin.Host); err != nil {
			return CheckLoopback(ctx, origin)
		}
	}
	return t.destinations.checkAll(ctx, origin.Host, origin.Port)
}

// errFTPBySOCKS says why an ftp URL is not fetched.
var errFTPBySOCKS = errors.New("ftp is not served through a SOCKS5 parent proxy; an HTTP one in upstream.proxy may serve it")

// trustedRoots returns the system's roots and those in a PEM file; nil, which stands for the
// system's, if there is no file.
func trustedRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
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

// routeTo returns the route to an origin for the client of ctx.
func (t *Transport) routeTo(ctx context.Context, origin robots.Origin) *route {
	if parent := t.parents.of(origin); parent != nil {
		return t.byParent[parent]
	}
	return t.directRoute(ctx)
}

// directRoute returns the route without a parent for the client of ctx. Only clients on this
// machine use connections that may lead to its loopback. Each dial is checked as well.
func (t *Transport) directRoute(ctx context.Context) *route {
	if loopback.Of(ctx).Check() == nil {
		return t.forLocal
	}
	return t.forOthers
}

// RoundTrip sends a request to its origin, as [http.RoundTripper] does. It verifies
// certificates, except those of the hosts in [Options.Insecure].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	way := (*route)(nil)
	if len(t.byParent) == 0 {
		way = t.directRoute(r.Context())
	} else {
		origin, err := robots.ParseOrigin(r.URL.Scheme + "://" + r.URL.Host)
		if err != nil {
			return nil, err
		}
		if way = t.routeTo(r.Context(), origin); way.parent != nil {
			if err := t.CheckOrigin(r.Context(), origin); err != nil {
				return nil, err
			}
			r = forParent(r, way.parent)
		}
	}
	if r.URL.Scheme == "ftp" {
		return way.ftp.RoundTrip(r)
	}
	if fetch := loopback.Of(r.Context()).Fetch(); fetch.IsFirst() {
		led := way.parent != nil && namesLoopback(r.URL.Hostname())
		if way.parent == nil {
			r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
				to, isTCP := got.Conn.RemoteAddr().(*net.TCPAddr)
				led = isTCP && underlying(to.AddrPort().Addr()).IsLoopback()
			}}))
		}
		defer func() { fetch.NoteFirst(led) }()
	}
	via := way.verifying
	if t.isInsecure(r.URL.Hostname()) {
		via = way.lenient
	}
	asksParent := way.parent != nil && way.parent.Scheme != "socks5" && r.URL.Scheme == "http"
	peer := r.URL.Host
	if asksParent {
		peer = way.parent.Host
	}
	if r.ProtoMajor == 2 && HasLargeHeader(r) {
		// The origin may break off the connection, on which no other request must be.
		peer = "large headers to " + peer
	}
	resp, err := via.of(r).RoundTrip(peer, r)
	if failure, ok := errors.AsType[*parentError](err); ok {
		return nil, failure // without what net/http puts before it
	}
	if err == nil && asksParent {
		if err = challenged(resp); err != nil {
			resp.Body.Close()
			return nil, err
		}
	}
	return resp, err
}

// errChallenged says that a parent proxy wants credentials. If its 407 were passed on, it
// would be taken for the origin's, and a 4xx for robots.txt allows everything.
var errChallenged = errors.New("the parent proxy wants a user and a password that it knows; put them into its URL")

// challenged returns errChallenged if a parent's response asks for credentials.
func challenged(resp *http.Response) error {
	if resp.StatusCode == http.StatusProxyAuthRequired {
		return errChallenged
	}
	return nil
}

// forParent returns a request in the form that a parent proxy takes.
func forParent(r *http.Request, parent *url.URL) *http.Request {
	var whole *url.URL
	switch {
	case r.URL.Scheme == "http" && parent.Scheme != "socks5" && r.URL.Opaque != "" && !strings.HasPrefix(r.URL.Opaque, "//"):
		absolute := *r.URL
		absolute.Opaque = "//" + r.URL.Host + r.URL.Opaque // RFC 9112 3.2.2
		whole = &absolute
	case r.URL.Scheme == "ftp": // the parent is asked in HTTP
		whole = &url.URL{Scheme: "http", Host: r.URL.Host, Opaque: "ftp://" + r.URL.Host + r.URL.RequestURI()}
	default:
		return r
	}
	r = r.WithContext(r.Context())
	r.URL = whole
	return r
}

// isInsecure reports whether a host's certificates are not to be verified.
func (t *Transport) isInsecure(host string) bool {
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
	for _, t := range []transports{r.verifying, r.lenient} {
		t.http1.CloseIdleConnections()
		t.http2.CloseIdleConnections()
	}
}
