package cli

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

// adminServer is the admin server and where it listens.
type adminServer struct {
	listener net.Listener
	handler  *admin.Admin
	server   *http.Server
}

// openAdmin listens where cfg says; it completes setup by what cfg holds. Who calls
// serve calls close in the end.
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
	return &adminServer{l, handler, &http.Server{Handler: handler, ConnContext: loopback.WithPeer, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}}, nil
}

// serve answers until close. It returns nil then, else the error that ended it.
func (s *adminServer) serve() error {
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the admin server: %w", err)
	}
	return nil
}

// close breaks off what is being answered.
func (s *adminServer) close() {
	s.handler.Close()
	s.server.Close()
}
