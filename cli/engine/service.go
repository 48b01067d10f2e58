package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"robotsproxy/certs"
	"robotsproxy/config"
	"robotsproxy/internal/build"
	"robotsproxy/internal/redirected"
	"robotsproxy/internal/shortage"
	"robotsproxy/proxy"
	"robotsproxy/proxy/admin"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/sign/directory"
)

// A Service is the proxy, the admin server and the key directories, each listening, for all
// who may use them.
type Service struct {
	engine *Engine
	gate   *gate.Gate
	proxy  *proxy.Server
	doors  []door       // that of listen first
	admin  *adminServer // nil if admin_listen is empty
	ready  atomic.Bool

	keys      *directory.Directory
	directory *directoryServer // serves keys; nil if directory_listen is empty

	openFiles int64 // how many files this process may have open

	load    func() (config.Config, error) // reads the configuration again
	started config.Config                 // what the service was opened with
	mu      sync.Mutex                    // held while the configuration is reloaded
	current config.Config
}

// A door is a listener of the proxy.
type door struct {
	net.Listener
	key   string // under which its address is in the configuration and in the log; "" if it only goes with the door before
	serve func(net.Listener) error
}

// OpenService opens all that cfg names and listens. load reads the configuration again for
// [Service.Reload]. The log goes to stderr unless cfg names a file. Callers must call Close.
func OpenService(ctx context.Context, cfg config.Config, load func() (config.Config, error), stderr io.Writer) (_ *Service, err error) {
	ca, trustWarnings, err := openTrust(cfg)
	if err != nil {
		return nil, err
	}
	s := &Service{load: load, started: cfg, current: cfg}
	if s.engine, err = Open(ctx, cfg, false, stderr); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.engine.Close()
		}
	}()
	s.openFiles = shortage.Descriptors()
	if warning := cfg.Limits.Warning(s.openFiles); warning != "" {
		s.engine.log.Warn().Int64("open_files", s.openFiles).Msg(warning)
	}
	if s.gate, s.proxy, err = s.engine.openProxy(cfg, ca, nil); err != nil {
		return nil, err
	}
	s.keys = directory.New(time.Now)
	if err = s.publishKeys(); err != nil {
		return nil, err
	}
	own, ownWarnings, err := cfg.ListenTLS.Load()
	if err != nil {
		return nil, fmt.Errorf("listen_tls: %w", err)
	}
	s.proxy.SetCertificate(own)
	for _, warning := range append(trustWarnings, ownWarnings...) {
		s.engine.log.Warn().Msg(warning)
	}
	if err = s.listen(cfg); err != nil {
		return nil, err
	}
	if s.directory, err = openDirectory(cfg, s.engine.log, s.keys); err != nil {
		s.closeDoors()
		return nil, err
	}
	if err = s.openAdmin(cfg, ca); err != nil {
		s.closeDoors()
		if s.directory != nil {
			s.directory.listener.Close()
		}
		return nil, err
	}
	return s, nil
}

// publishKeys has the directories publish the keys of the gate's identities.
func (s *Service) publishKeys() error {
	return s.keys.SetAgents(directory.AgentsOf(s.gate.Identities()))
}

// listen opens the doors that cfg names.
func (s *Service) listen(cfg config.Config) error {
	for _, d := range []struct {
		key, address, remedy string
		serve                func(net.Listener) error
	}{
		{"listen", cfg.Listen, "--listen", s.proxy.Serve},
		{"listen_tls", cfg.ListenTLS.Address, "listen_tls.address", s.proxy.ServeTLS},
		{"listen_socks", cfg.ListenSOCKS, "listen_socks", s.proxy.ServeSOCKS},
		{"transparent", cfg.Transparent, "transparent", s.serveRedirected},
	} {
		if d.address == "" {
			continue
		}
		config := listenConfig()
		if d.key == "transparent" {
			config.SetMultipathTCP(false) // the kernel does not tell where such connections were to go
		}
		l, err := listenBy(config, d.address, d.remedy)
		if err != nil {
			s.closeDoors()
			return err
		}
		s.doors = append(s.doors, door{l, d.key, d.serve})
		if warning := cfg.Clients.Warning(l.Addr()); warning != "" {
			s.engine.log.Warn().Stringer(d.key, l.Addr()).Msg(warning)
		}
		if d.key == "transparent" {
			s.listenToOtherFamily(config, l.Addr())
		}
	}
	return nil
}

// listenToOtherFamily listens on ::1 too if the transparent door is at 127.0.0.1, and the
// other way round, since the kernel redirects what leaves this machine to the loopback
// address of the same family.
func (s *Service) listenToOtherFamily(config *net.ListenConfig, transparent net.Addr) {
	ipv4 := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	at := transparent.(*net.TCPAddr).AddrPort()
	other, known := map[netip.Addr]netip.Addr{ipv4: netip.IPv6Loopback(), netip.IPv6Loopback(): ipv4}[at.Addr().Unmap()]
	if !known {
		return
	}
	l, err := listenBy(config, netip.AddrPortFrom(other, at.Port()).String(), "transparent")
	switch {
	case err == nil:
		s.doors = append(s.doors, door{l, "", s.serveRedirected})
	case errors.Is(err, syscall.EADDRINUSE): // otherwise this machine does not have the family
		s.engine.log.Warn().Err(err).Msg("the transparent door is open to one family of addresses alone")
	}
}

// serveRedirected serves what the kernel redirects to a TCP listener.
func (s *Service) serveRedirected(l net.Listener) error {
	return s.proxy.ServeTransparent(redirected.Listener{TCPListener: l.(*net.TCPListener), Destination: redirected.Original})
}

func (s *Service) closeDoors() {
	for _, d := range s.doors {
		d.Close()
	}
}

func (s *Service) openAdmin(cfg config.Config, ca *certs.CA) (err error) {
	if cfg.AdminListen == "" {
		return nil
	}
	s.admin, err = openAdmin(cfg, s.engine.log, admin.Setup{
		Proxy:     s.doors[0].Addr(),
		Gate:      s.gate,
		Pacer:     s.engine.pacer,
		Origins:   s.engine.keeper,
		CA:        ca.PEM(),
		Directory: s.keys,
		Metrics:   s.engine.metrics,
		Report:    s.engine.Report,
		Ready:     s.ready.Load,
		Reload:    s.Reload,
	})
	return err
}

// Serve serves until ctx ends or one of the servers fails. Then it calls stopping and shuts
// all of them down: requests in flight have up to shutdown_grace to end. It returns the error
// of the server that failed.
func (s *Service) Serve(ctx context.Context, stopping func()) error {
	servers, ctx := errgroup.WithContext(ctx)
	s.start(ctx, servers)
	s.logServing()
	<-ctx.Done()
	stopping()
	s.shutDown()
	return servers.Wait()
}

// Close closes what Serve has left open. Callers must not call it while Serve runs.
func (s *Service) Close() error { return s.engine.Close() }

// start serves in goroutines of the group, and until ctx ends has the gate warn of overrides.
// From then on the proxy is ready.
func (s *Service) start(ctx context.Context, servers *errgroup.Group) {
	var own []net.Addr
	for _, d := range s.doors {
		own = append(own, d.Addr())
	}
	if s.admin != nil {
		own = append(own, s.admin.listener.Addr())
		servers.Go(s.admin.serve)
	}
	if s.directory != nil {
		servers.Go(s.directory.serve)
	}
	s.engine.transport.SetOwnAddresses(own...)
	for _, d := range s.doors {
		servers.Go(func() error { return d.serve(d.Listener) })
	}
	servers.Go(func() error { s.gate.WarnOfOverrides(ctx); return nil })
	s.ready.Store(true)
}

func (s *Service) logServing() {
	version, _ := build.Version()
	line := s.engine.log.Info().Str("name", s.started.Name).Str("version", version).Int64("open_files", s.openFiles)
	for _, d := range s.doors {
		if d.key != "" {
			line.Stringer(d.key, d.Addr())
		}
	}
	if s.admin != nil {
		line.Stringer("admin_listen", s.admin.listener.Addr())
	}
	if s.directory != nil {
		line.Stringer("directory_listen", s.directory.listener.Addr())
	}
	line.Msg("serving")
}

// shutDown ends all servers. Requests in flight have up to shutdown_grace to end. The key
// directories come last: sites look up the keys of the requests that are still under way.
func (s *Service) shutDown() {
	s.ready.Store(false)
	grace := s.shutdownGrace()
	s.engine.log.Info().Stringer("shutdown_grace", grace).Msg("stopping: requests in flight may end")
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := s.proxy.Shutdown(ctx); err != nil {
		s.engine.log.Warn().Err(err).Msg("requests were broken off: shutdown_grace is over")
	}
	if s.admin != nil {
		s.admin.close()
	}
	if s.directory != nil {
		s.directory.close()
	}
}

// listen listens on a TCP address. An error names the flag or key with which the user can
// choose another address.
func listen(address, remedy string) (net.Listener, error) {
	return listenBy(listenConfig(), address, remedy)
}

func listenBy(config *net.ListenConfig, address, remedy string) (net.Listener, error) {
	l, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening: %w; choose another address with %s", err, remedy)
	}
	return l, nil
}
