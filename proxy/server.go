// Package proxy holds the doors by which requests come in: plain HTTP, CONNECT,
// and TLS inside it. All of them lead to one gate.
package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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
	"robotsproxy/internal/slots"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/upstream"
	"robotsproxy/robots"
)

// Options say how a Server presents itself and what it bounds.
type Options struct {
	// Name is this deployment's name in Via and Proxy-Status: a token.
	Name   string
	Via    upstream.Via
	Limits Limits
}

// entry says who may come in and which tunnels are read. It is replaced as a whole.
type entry struct {
	clients Clients
	users   *users // nil: any, on trust
	tunnels Tunnels
}

// Server is the proxy. Make one with [New].
type Server struct {
	opts      Options
	gate      *gate.Gate
	ca        *certs.CA
	transport *upstream.Transport
	log       zerolog.Logger
	via       via

	entry     atomic.Pointer[entry]
	forwarder http.Handler // goproxy: leads every request by admit and ask
	home      http.Handler
	outer     *http.Server // what clients connect to
	inner     *http.Server // what is inside their tunnels
	inside    *handoff     // leads from outer to inner
	tls       *tls.Config

	// Connections that neither server looks after: tunnels in which nothing has
	// been asked yet; tunnels that are not read, and WebSockets.
	unread, hijacked connections
	// Those by which the gathering ones of inner send.
	gathered connections

	stallTimeout atomic.Int64 // a time.Duration
	clients      *clients
	slots        *slots.Slots // of clients' connections

	exchanges sync.RWMutex // each holds it for reading until it is written down

	connections prometheus.Gauge
	open        prometheus.Gauge // tunnels that are not read
	failures    *prometheus.CounterVec
	distrust    *distrust
	foreign     sync.Once // for the log: a client of another user's
}

// New makes a proxy that asks g and reaches origins by t. It registers its
// metrics with metrics; nil leaves them unregistered. It serves nobody before
// Admit has said whom.
func New(opts Options, g *gate.Gate, ca *certs.CA, t *upstream.Transport, log zerolog.Logger, metrics prometheus.Registerer) *Server {
	s := &Server{
		opts:      opts,
		gate:      g,
		ca:        ca,
		transport: t,
		log:       log,
		via:       newVia(opts.Name),
		inside:    newHandoff(),
		clients:   newClients(),
		connections: promauto.With(metrics).NewGauge(prometheus.GaugeOpts{
			Name: "robotsproxy_connections",
			Help: "Client connections that are open.",
		}),
		open: promauto.With(metrics).NewGauge(prometheus.GaugeOpts{
			Name: "robotsproxy_tunnels",
			Help: "Tunnels that are open and not read.",
		}),
		failures: newFailures(metrics),
		distrust: newDistrust(log, metrics),
	}
	s.SetStallTimeout(opts.Limits.StallTimeout)
	s.bound(metrics)
	s.forwarder = s.newForwarder()
	s.home = s.newHome()
	s.tls = s.newTLS()
	s.outer = s.newHTTPServer(s.serveOuter)
	s.outer.ConnContext = s.withClient
	s.outer.ConnState = s.watchIdle
	s.inner = s.newHTTPServer(s.serveInner)
	s.inner.ConnContext = withTunnel
	s.inner.ConnState = s.watchTunnel
	s.entry.Store(&entry{})
	return s
}

// Admit says who may use the proxy and which tunnels are read, from the next
// request on. An error says that the file of users cannot be read; then all stays
// as it was.
func (s *Server) Admit(clients Clients, tunnels Tunnels) error {
	users, err := readUsers(clients.Htpasswd)
	if err != nil {
		return fmt.Errorf("clients.htpasswd: %w", err)
	}
	s.entry.Store(&entry{clients, users, tunnels})
	return nil
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

// bound has the connections keep to max_connections and to the limit on open files.
func (s *Server) bound(metrics prometheus.Registerer) {
	reached := promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "robotsproxy_limit_reached_total",
		Help: "Connections that found no place: max_connections of clients, or descriptors of clients and origins.",
	}, []string{"limit"})
	tell := func(limit, advice string) func(int64, bool) {
		count := reached.WithLabelValues(limit)
		return func(max int64, first bool) {
			count.Inc()
			if first {
				s.log.Warn().Str("limit", limit).Int64("max", max).Msg(advice)
			}
		}
	}
	s.slots = &slots.Slots{
		Max:      int64(s.opts.Limits.MaxConnections),
		MakeRoom: []func(){s.clients.closeIdlest},
		Reached:  tell("max_connections", "all client connections are in use: idle ones are closed, and others wait; raise limits.max_connections if the machine can bear it"),
	}
	d := s.transport.Descriptors()
	d.MakeRoom = append(d.MakeRoom, s.clients.closeIdlest)
	d.Reached = tell("descriptors", "as many connections are open as the limit on open files leaves room for: idle ones are closed, others wait or get 503; raise the limit (ulimit -n, LimitNOFILE= in systemd)")
}

// watchIdle is the outer server's ConnState.
func (s *Server) watchIdle(conn net.Conn, state http.ConnState) {
	s.idles(conn.(*countedConn), state)
}

// idles notes whether a client's connection waits for its next request.
func (s *Server) idles(conn *countedConn, state http.ConnState) {
	s.clients.idles(conn, state == http.StateIdle)
	if state == http.StateIdle {
		s.slots.LookAgain()
		s.transport.Descriptors().LookAgain()
	}
}

// serverLog takes what net/http has to say of clients that misbehave.
type serverLog struct{ log zerolog.Logger }

func (l serverLog) Write(line []byte) (int, error) {
	l.log.Debug().Msg(string(line[:max(len(line)-1, 0)]))
	return len(line), nil
}

// Serve takes clients from l until Shutdown, and closes l. It returns nil after
// Shutdown, else the error that ended it.
func (s *Server) Serve(l net.Listener) error {
	inner := make(chan error, 1)
	go func() { inner <- s.inner.Serve(s.inside) }()
	err := s.outer.Serve(newCountingListener(l, s))
	s.inside.Close()
	return errors.Join(ended(err), ended(<-inner))
}

func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// moment is how long a tunnel in which nothing has been asked may go on at the end.
const moment = 250 * time.Millisecond

// Shutdown stops accepting and lets the requests in flight end. When ctx ends
// first, what is left is broken off and the context's error returned. All of it has
// been counted and logged then, unless something hangs.
func (s *Server) Shutdown(ctx context.Context) error {
	select { // clients that have left already are seen to do so, and why
	case <-s.unread.drained():
	case <-time.After(moment):
		s.unread.closeAll()
	}
	inner := make(chan error, 1)
	go func() { inner <- s.inner.Shutdown(ctx) }()
	err := s.outer.Shutdown(ctx)
	err = errors.Join(err, <-inner)
	select {
	case <-s.hijacked.drained():
	case <-ctx.Done():
		err = errors.Join(err, ctx.Err())
	}
	s.distrust.close()
	s.outer.Close()
	s.gathered.closeAll() // inner would wait for each to send what its client does not read
	s.inner.Close()
	s.hijacked.closeAll()
	s.settle()
	s.transport.CloseIdleConnections()
	return err
}

// settling is how long that may take which has been broken off.
const settling = time.Second

// settle waits until what has been broken off is written down.
func (s *Server) settle() {
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		s.exchanges.Lock()
		defer s.exchanges.Unlock()
		<-s.hijacked.drained()
	}()
	select {
	case <-settled:
	case <-time.After(settling):
	}
}

// serveOuter is the first door: absolute-form requests, CONNECT, and what comes
// to the proxy as if it were a web server.
func (s *Server) serveOuter(w http.ResponseWriter, r *http.Request) {
	client, entry := clientOf(r), s.entry.Load()
	switch proxied := r.Method == http.MethodConnect || r.URL.IsAbs(); {
	case !entry.clients.admits(client):
		s.answer(w, r, answer{
			status:  http.StatusForbidden,
			kind:    "http_request_denied",
			details: client.String() + " may not use this proxy",
			advice:  "Its operator admits clients by their address in clients.allow.",
		})
	case entry.clients.Connections != nil && refused(r.Context()) != nil:
		s.answer(w, r, answer{
			status:  http.StatusForbidden,
			kind:    "http_request_denied",
			details: refused(r.Context()).Error(),
			advice:  "Run a proxy of your own with robotsproxy run, or one for all with robotsproxy serve.",
		})
	case proxied && !entry.users.knows(r):
		s.answer(w, r, answer{
			status:  http.StatusProxyAuthRequired,
			kind:    "http_request_denied",
			details: "this proxy wants a user and a password that it knows",
			advice:  "Name it as http://USER:PASSWORD@" + localAddress(r) + " in the client.",
			header:  http.Header{"Proxy-Authenticate": {`Basic realm="` + s.opts.Name + `", charset="UTF-8"`}},
		})
	case r.Method == http.MethodConnect:
		s.connect(w, r)
	case r.RequestURI == "*":
		s.asterisk(w, r)
	case r.URL.IsAbs():
		target, err := robots.ParseTarget(r.RequestURI)
		switch {
		case err != nil:
			s.answer(w, r, badRequest(http.StatusBadRequest, err.Error()))
		case target.Origin.Scheme == "ftp":
			s.serveFTP(w, r, target)
		default:
			s.forward(w, r, target)
		}
	default:
		s.home.ServeHTTP(w, r)
	}
}

// asterisk answers OPTIONS *, which asks about the proxy and not about any
// origin (RFC 9110 9.3.7). No other method has that target.
func (s *Server) asterisk(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodOptions {
		s.answer(w, r, badRequest(http.StatusBadRequest, "only OPTIONS has the target *"))
		return
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
}

// clientOf is the address that a request comes from.
func clientOf(r *http.Request) netip.Addr {
	ap, _ := netip.ParseAddrPort(r.RemoteAddr)
	return ap.Addr().Unmap()
}
