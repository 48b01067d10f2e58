// Package proxy takes in the requests of clients: plain HTTP, CONNECT, and TLS inside
// it. It puts each of them to the one gate, sends on what may pass, and answers what may
// not. A [Server] does all of this.
package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"robotsproxy/certs"
	"robotsproxy/proxy/conns"
	"robotsproxy/proxy/distrust"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/home"
	"robotsproxy/proxy/message"
	"robotsproxy/proxy/upstream"
)

// Options say what a Server calls itself and what it bounds.
type Options struct {
	// Name is this deployment's name in Via and Proxy-Status: a token.
	Name   string
	Via    upstream.Via
	Limits Limits
}

// Server is the proxy. Make one with [New].
type Server struct {
	opts      Options
	gate      *gate.Gate
	ca        *certs.CA
	transport *upstream.Transport
	log       zerolog.Logger
	via       message.Via

	access    atomic.Pointer[access]
	forwarder http.Handler // goproxy: calls admit and ask for every request
	home      http.Handler
	outer     *http.Server // what clients connect to
	inner     *http.Server // what is inside their tunnels
	inside    *conns.Feed  // leads from outer to inner
	tls       *tls.Config

	opening   conns.Set // tunnels without a request yet, which are no server's
	hijacked  conns.Set // tunnels that are not read, and WebSockets
	coalesced conns.Set // those under a coalesce.Conn, which inner closes too slowly

	stallTimeout atomic.Int64 // a time.Duration
	clients      *conns.Clients

	exchanges sync.RWMutex // each exchange holds it for reading until it has been logged

	openTunnels    prometheus.Gauge // those that are not read
	upstreamErrors *prometheus.CounterVec
	distrust       *distrust.Detector
	logRefused     sync.Once // for the first connection that Clients.Connections refuses
}

// New makes a proxy that asks g and reaches origins by t. It registers its metrics with
// metrics; nil leaves them unregistered. It serves nobody until SetAccess is called.
func New(opts Options, g *gate.Gate, ca *certs.CA, t *upstream.Transport, log zerolog.Logger, metrics prometheus.Registerer) *Server {
	s := &Server{
		opts:      opts,
		gate:      g,
		ca:        ca,
		transport: t,
		log:       log,
		via:       message.NewVia(opts.Name),
		inside:    conns.NewFeed(),
		openTunnels: promauto.With(metrics).NewGauge(prometheus.GaugeOpts{
			Name: "robotsproxy_tunnels",
			Help: "Tunnels that are open and not read.",
		}),
		upstreamErrors: newUpstreamErrors(metrics),
		distrust:       distrust.New(log, metrics),
	}
	s.SetStallTimeout(opts.Limits.StallTimeout)
	s.clients = conns.New(conns.Options{Max: opts.Limits.MaxConnections, StallTimeout: s.stallLimit, Descriptors: t.Descriptors()}, log, metrics)
	s.forwarder = s.newForwarder()
	s.home = home.Site{
		Name:     opts.Name,
		CA:       ca.PEM(),
		Identify: func(r *http.Request) (string, []string) { return g.Identify(askerOf(r)) },
		NotFound: s.pageNotFound,
	}.Handler()
	s.tls = s.newTLS()
	s.outer = s.newHTTPServer(s.serveOuter)
	s.outer.ConnContext = s.withClient
	s.outer.ConnState = s.clients.NoteState
	s.inner = s.newHTTPServer(s.serveInner)
	s.inner.ConnContext = withTunnel
	s.inner.ConnState = s.noteTunnelState
	s.access.Store(&access{})
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

// Distrusted are the hosts, sorted, whose certificate made a client leave, as one does that
// does not trust the CA. They are complete after Shutdown.
func (s *Server) Distrusted() []string { return s.distrust.Hosts() }

// serverLog logs what net/http says of clients that misbehave.
type serverLog struct{ log zerolog.Logger }

func (l serverLog) Write(line []byte) (int, error) {
	l.log.Debug().Msg(string(line[:max(len(line)-1, 0)]))
	return len(line), nil
}

// Serve accepts clients from l until Shutdown is called, and closes l. It returns nil
// after Shutdown, otherwise the error that ended it.
func (s *Server) Serve(l net.Listener) error {
	inner := make(chan error, 1)
	go func() { inner <- s.inner.Serve(s.inside) }()
	err := s.outer.Serve(s.clients.Listener(l))
	s.inside.Close()
	return errors.Join(unlessClosed(err), unlessClosed(<-inner))
}

// unlessClosed is err, or nil if it only says that the server or listener was closed.
func unlessClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// openingGrace is how long Shutdown waits for tunnels in which nothing has been asked.
const openingGrace = 250 * time.Millisecond

// Shutdown stops accepting and lets the requests in flight end. If ctx ends first, it
// breaks off the rest and returns the context's error. When it returns, every request has
// been counted and logged, unless something hangs.
func (s *Server) Shutdown(ctx context.Context) error {
	select { // a client that has just left is seen to have left, and why
	case <-s.opening.Drained():
	case <-time.After(openingGrace):
		s.opening.CloseAll()
	}
	inner := make(chan error, 1)
	go func() { inner <- s.inner.Shutdown(ctx) }()
	err := s.outer.Shutdown(ctx)
	err = errors.Join(err, <-inner)
	select {
	case <-s.hijacked.Drained():
	case <-ctx.Done():
		err = errors.Join(err, ctx.Err())
	}
	s.distrust.Close()
	s.outer.Close()
	s.coalesced.CloseAll() // inner would wait for each to send what its client does not read
	s.inner.Close()
	s.hijacked.CloseAll()
	s.settle()
	s.transport.CloseIdleConnections()
	return err
}

// settleTimeout is how long what has been broken off may take to be logged.
const settleTimeout = time.Second

// settle waits until what has been broken off is logged.
func (s *Server) settle() {
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		s.exchanges.Lock()
		defer s.exchanges.Unlock()
		<-s.hijacked.Drained()
	}()
	select {
	case <-settled:
	case <-time.After(settleTimeout):
	}
}
