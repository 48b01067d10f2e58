package engine

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"robotsproxy/config"
	"robotsproxy/internal/loopback"
	"robotsproxy/proxy/admin"
)

// An adminServer is the admin server.
type adminServer struct {
	handler *admin.Admin
	server  *http.Server
}

// newAdmin sets setup's Listen and Token from cfg. Callers must call close.
func newAdmin(cfg config.Config, setup admin.Setup) *adminServer {
	setup.Listen, setup.Token = cfg.AdminListen, cfg.AdminToken
	handler := admin.New(setup)
	return &adminServer{handler, &http.Server{
		Handler:           handler,
		ConnContext:       loopback.WithPeer,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}}
}

// serve answers requests until close is called, and then returns nil. If serving fails, it
// returns the error.
func (s *adminServer) serve(l net.Listener) error {
	if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the admin server: %w", err)
	}
	return nil
}

// close stops serving, and breaks off the responses that are under way.
func (s *adminServer) close() {
	s.handler.Close()
	s.server.Close()
}
