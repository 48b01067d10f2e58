package directory

import (
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/netutil"
)

const (
	// maxConnections is how many connections a server takes at once, so that the world cannot
	// take the descriptors that are reserved for this server and others. More connections wait.
	maxConnections = 64
	// exchangeTimeout bounds a request and its response, which are small.
	exchangeTimeout = 10 * time.Second
	// idleTimeout ends connections that wait for their next request.
	idleTimeout    = 30 * time.Second
	maxHeaderBytes = 16 << 10
)

// A Server serves a directory to the world by HTTP/1.1. It leaves TLS to a server in front of
// it.
type Server struct{ server http.Server }

// NewServer returns a server of d, which logs what goes wrong while it accepts connections.
func NewServer(d *Directory, errors zerolog.Logger) *Server {
	return &Server{http.Server{
		Handler:        d,
		ReadTimeout:    exchangeTimeout,
		WriteTimeout:   exchangeTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       log.New(errors.With().Str(zerolog.LevelFieldName, zerolog.LevelWarnValue).Logger(), "", 0),
	}}
}

// Serve answers requests until [Server.Close] is called, and then returns nil. It closes the
// listener. If serving fails, it returns the error.
func (s *Server) Serve(l net.Listener) error {
	if err := s.server.Serve(netutil.LimitListener(l, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the key directory: %w", err)
	}
	return nil
}

// Close stops serving, and breaks off the responses that are under way.
func (s *Server) Close() { s.server.Close() }
