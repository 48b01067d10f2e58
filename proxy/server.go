// Package proxy is the doors of the proxy: a [Server] takes plain HTTP, CONNECT, SOCKS, TLS
// and HTTP inside tunnels, and connections that the kernel leads to it. From each door a
// request goes on by package forward, which has it judged.
//
// The outer server's handler (outer.go) takes what comes outside of tunnels, in TLS too
// (secure.go). CONNECT (connect.go), SOCKS (socks.go) and the transparent door
// (transparent.go) all open tunnels in one way (open.go): a tunnel that need not be read is
// judged as a whole and joined to its origin by package opaque. In any other, the first octets
// tell TLS from HTTP (tunnel.go), TLS is ended (intercept.go), and the inner server's handler
// (inner.go) takes the requests.
package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"robotsproxy/certs"
	"robotsproxy/proxy/access"
	"robotsproxy/proxy/conns"
	"robotsproxy/proxy/distrust"
	"robotsproxy/proxy/forward"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/home"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/upstream"
)

// Options say what a Server calls itself and what it bounds.
type Options struct {
	// Name is this deployment's name in Via and Proxy-Status: a token.
	Name   string
	Via    upstream.Via
	Limits conns.Limits

	// The functions below are for [Server.ServeTransparent]. Many goroutines call them at
	// once. Each may be nil.

	// Direct returns the address, HOST:PORT, that a connection to wanted is led to although
	// nothing of it is judged; "" for all that is judged. It is asked before anything is
	// read. dialled is then told once how dialling went; it must not block.
	Direct func(ctx context.Context, wanted netip.AddrPort) (dial string, dialled func(error))
	// NameOf returns the host name that an address only stands for.
	NameOf func(addr netip.Addr) (name string, ok bool)
	// OnRefusedConnection is told of each connection that is closed since it speaks neither
	// TLS nor HTTP. It must not block.
	OnRefusedConnection func(wanted netip.AddrPort)
}

// Server is the proxy. Make it with [New].
type Server struct {
	opts      Options
	gate      *gate.Gate
	ca        *certs.CA
	transport *upstream.Transport
	log       zerolog.Logger

	settings  atomic.Pointer[settings]
	forwarder *forward.Forwarder
	home      http.Handler
	outer     *http.Server                    // for clients' connections
	inner     *http.Server                    // for what is inside tunnels
	inside    *conns.Feed                     // leads tunnels to inner
	byHost    *http.Server                    // for plain HTTP at the transparent door
	atHost    *conns.Feed                     // leads its connections to byHost
	feedsOnce sync.Once                       // has inner and byHost accept from their feeds
	tls       *tls.Config                     // inside tunnels
	own       atomic.Pointer[tls.Certificate] // of ServeTLS

	accepting sync.RWMutex // locked for reading while connections are accepted
	entering  conns.Set    // tunnels that may be on their way to inner or byHost
	hijacked  conns.Set    // opaque tunnels, those that are judged as such, and WebSockets
	coalesced conns.Set    // connections under a coalesce.Conn, which inner closes too slowly

	clients *conns.Clients

	stopping context.Context // ends when Shutdown begins
	stop     func()
	broken   context.Context // ends when Shutdown breaks off what is left
	breakOff func()

	openTunnels prometheus.Gauge // those that are not read
	distrust    *distrust.Detector
	logRefused  sync.Once // for the first connection that Clients.Connections refuses
}

// New returns a proxy that asks g and reaches origins through t. It registers its metrics
// with metrics; nil leaves them unregistered. It serves nobody until SetAccess is called.
func New(opts Options, g *gate.Gate, ca *certs.CA, t *upstream.Transport, log zerolog.Logger, metrics prometheus.Registerer) *Server {
	s := &Server{
		opts:      opts,
		gate:      g,
		ca:        ca,
		transport: t,
		log:       log,
		inside:    conns.NewFeed(),
		atHost:    conns.NewFeed(),
		openTunnels: promauto.With(metrics).NewGauge(prometheus.GaugeOpts{
			Name: "robotsproxy_tunnels",
			Help: "Tunnels that are open and not read.",
		}),
		distrust: distrust.New(log, metrics),
	}
	s.forwarder = forward.New(forward.Options{Name: opts.Name, Via: opts.Via, Hijacked: &s.hijacked}, g, t, log, metrics)
	s.SetStallTimeout(opts.Limits.StallTimeout)
	s.clients = conns.New(conns.Options{Max: opts.Limits.MaxConnections, StallTimeout: s.forwarder.StallTimeout, Descriptors: t.Descriptors()}, log, metrics)
	s.home = home.Site{
		Name: opts.Name,
		CA:   ca.PEM(),
		Identify: func(r *http.Request) (*identity.Identity, string) {
			user, _, _ := access.Credentials(r.Header)
			return g.Identify(identity.Asker{Addr: forward.ClientAddr(r), User: user, Header: r.Header})
		},
		NotFound: s.pageNotFound,
	}.Handler()
	s.tls = s.newTLS()
	s.outer = s.newHTTPServer(s.serveOuter)
	s.outer.ConnContext = s.withClient
	s.outer.ConnState = s.clients.NoteState
	s.inner = s.newHTTPServer(s.serveInner)
	s.inner.ConnContext = withTunnel
	s.inner.ConnState = s.noteTunnelState
	s.byHost = s.newHTTPServer(s.serveByHost)
	s.byHost.ConnContext = withTunnel
	s.byHost.ConnState = s.noteTunnelState
	s.byHost.Protocols = new(http.Protocols)
	s.byHost.Protocols.SetHTTP1(true)
	s.byHost.Protocols.SetUnencryptedHTTP2(true)
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.broken, s.breakOff = context.WithCancel(context.Background())
	s.settings.Store(&settings{})
	return s
}

// newHTTPServer leaves ReadTimeout and WriteTimeout unset: they would end long
// uploads and streams.
func (s *Server) newHTTPServer(handler http.HandlerFunc) *http.Server {
	return &http.Server{
		Handler:                      handler,
		ReadHeaderTimeout:            s.opts.Limits.HeaderTimeout,
		IdleTimeout:                  s.opts.Limits.IdleTimeout,
		MaxHeaderBytes:               int(s.opts.Limits.MaxHeaderBytes),
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(serverLog{s.log}, "", 0),
	}
}

// SetStallTimeout sets how long the requests and tunnels that begin from now on may stand
// still; see [conns.Limits.StallTimeout].
func (s *Server) SetStallTimeout(limit time.Duration) { s.forwarder.SetStallTimeout(limit) }

// Connections is how many connections of clients are open.
func (s *Server) Connections() int { return s.clients.Len() }

// Distrusted are the hosts, sorted, whose certificate made a client leave, as one does that
// does not trust the CA. They are complete after Shutdown.
func (s *Server) Distrusted() []string { return s.distrust.Hosts() }

// DistrustingClients returns up to limit of the clients that do not trust the CA, each with a
// host whose certificate made it leave, and how many there are.
func (s *Server) DistrustingClients(limit int) ([]distrust.Client, int) {
	return s.distrust.Clients(limit)
}

// serverLog logs what net/http reports of clients that misbehave.
type serverLog struct{ log zerolog.Logger }

func (l serverLog) Write(line []byte) (int, error) {
	l.log.Debug().Msg(string(line[:max(len(line)-1, 0)]))
	return len(line), nil
}

// Serve accepts clients from l until Shutdown is called, and closes l. It returns nil after
// Shutdown, else the error that ended it.
func (s *Server) Serve(l net.Listener) error {
	return s.serveOuterAt(s.clients.Listener(l))
}

// serveOuterAt has the outer server accept from l until Shutdown is called.
func (s *Server) serveOuterAt(l net.Listener) error {
	s.serveFeeds()
	s.accepting.RLock()
	defer s.accepting.RUnlock()
	defer context.AfterFunc(s.stopping, func() { l.Close() })()
	return unlessClosed(s.outer.Serve(l))
}

// serveFeeds has the servers behind the doors accept from their feeds until Shutdown is
// called. A feed can't fail before.
func (s *Server) serveFeeds() {
	s.feedsOnce.Do(func() {
		go s.inner.Serve(s.inside)
		go s.byHost.Serve(s.atHost)
	})
}

// unlessClosed returns err, or nil if it only says that the server or listener was closed.
func unlessClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// newGrace is how long Shutdown waits for clients that have sent no request so far: as long
// as a TLS handshake takes over a slow network.
const newGrace = 2 * time.Second

// Shutdown stops accepting and waits for the requests and tunnels in flight, and for the
// first request of each connection that was accepted before. If ctx ends first, it breaks off
// the rest and returns the context's error. When it returns, every request has been counted
// and logged, unless something hangs.
func (s *Server) Shutdown(ctx context.Context) error {
	servers := []*http.Server{s.outer, s.inner, s.byHost}
	for _, server := range servers { // from now on, each response says that it is the last
		server.SetKeepAlivesEnabled(false)
	}
	s.stop()
	s.awaitAccepting()
	s.awaitFirstRequests(ctx)
	ended := make(chan error)
	for _, server := range servers {
		go func() { ended <- server.Shutdown(ctx) }()
	}
	var err error
	for range servers {
		err = errors.Join(err, unlessClosed(<-ended))
	}
	select {
	case <-s.hijacked.Drained():
	case <-ctx.Done():
		err = errors.Join(err, ctx.Err())
	}
	s.breakOff()
	s.distrust.Close()
	s.outer.Close()
	s.coalesced.CloseAll() // inner would wait until each has sent what its client does not read
	s.inner.Close()
	s.byHost.Close()
	s.hijacked.CloseAll()
	s.settle()
	s.transport.CloseIdleConnections()
	return err
}

// awaitAccepting waits until nothing more is accepted.
func (s *Server) awaitAccepting() {
	s.accepting.Lock()
	defer s.accepting.Unlock()
}

const (
	// firstRequestsPoll is how often awaitFirstRequests looks.
	firstRequestsPoll = 5 * time.Millisecond
	// firstRequestsQuiet is how long it must find nothing. A request that has been read is
	// on its way to its handler meanwhile.
	firstRequestsQuiet = 25 * time.Millisecond
)

// awaitFirstRequests waits until each connection has sent its first request, in a tunnel too,
// or ctx ends. net/http drops such requests once it shuts down. Connections whose clients send
// nothing are closed after newGrace. Where no client is left, there is nothing to wait for: as
// after a command that was run behind the proxy.
func (s *Server) awaitFirstRequests(ctx context.Context) {
	poll := time.NewTicker(firstRequestsPoll)
	defer poll.Stop()
	grace := time.After(newGrace)
	for quiet := time.Duration(0); quiet < firstRequestsQuiet && s.clients.Len()+s.entering.Len() > 0; {
		select {
		case <-poll.C:
		case <-grace:
			s.clients.CloseNew()
		case <-ctx.Done():
			s.clients.CloseNew()
			return
		}
		quiet += firstRequestsPoll
		if s.clients.HasNew() || s.entering.Len() > 0 {
			quiet = 0
		}
	}
}

// settleTimeout bounds how long broken-off requests may take to be logged.
const settleTimeout = time.Second

// settle waits until the requests and tunnels that were broken off are logged.
func (s *Server) settle() {
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		s.forwarder.Wait()
		<-s.hijacked.Drained()
	}()
	select {
	case <-settled:
	case <-time.After(settleTimeout):
	}
}
