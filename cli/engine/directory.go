package engine

import (
	"net"

	"github.com/rs/zerolog"

	"robotsproxy/config"
	"robotsproxy/proxy/sign/directory"
)

// A directoryServer serves the key directories with its listener.
type directoryServer struct {
	listener net.Listener
	server   *directory.Server
}

// openDirectory listens where cfg says. It returns nil if that is nowhere. Callers of serve
// must call close.
func openDirectory(cfg config.Config, log zerolog.Logger, directories *directory.Directory) (*directoryServer, error) {
	if cfg.DirectoryListen == "" {
		return nil, nil
	}
	l, err := listen(cfg.DirectoryListen, "directory_listen")
	if err != nil {
		return nil, err
	}
	return &directoryServer{l, directory.NewServer(directories, log)}, nil
}

// serve answers requests until close is called, and then returns nil. If serving fails, it
// returns the error.
func (s *directoryServer) serve() error { return s.server.Serve(s.listener) }

func (s *directoryServer) close() { s.server.Close() }
