package engine

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/config"
	"robotsproxy/internal/loopback"
	"robotsproxy/proxy/admin"
)

// An adminServer is the admin server with its listener.
type adminServer struct {
	listener net.Listener
	handler  *admin.Admin
	server   *http.Server
}

// openAdmin listens where cfg says. It sets setup's Listen and Token from cfg. Callers of
// serve must call close.
func openAdmin(cfg config.Config, log zerolog.Logger, setup admin.Setup) (*adminServer, error) {
	l, err := listen(cfg.AdminListen, "--admin-listen")
	if err != nil {
		return nil, err
	}
	if warning := cfg.AdminToken.Warning(l.Addr()); warning != "" {
		log.Warn().Stringer("admin_listen", l.Addr()).Msg(warning)
	}
	setup.Listen, setup.Token = cfg.AdminListen, cfg.AdminToken
	handler := admin.New(setup)
	server := &http.Server{
		Handler:           handler,
		ConnContext:       loopback.WithPeer,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
	return &adminServer{l, handler, server}, nil
}

// serve answers requests until close is called, and then returns nil. If serving fails, it
// returns the error.
func (s *adminServer) serve() error {
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the admin server: %w", err)
	}
	return nil
}

// close stops serving, and breaks off the responses that are under way.
func (s *adminServer) close() {
	s.handler.Close()
	s.server.Close()
}
