package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"robotsproxy/certs"
	"robotsproxy/config"
	"robotsproxy/internal/redirected"
	"robotsproxy/internal/shortage"
	"robotsproxy/proxy"
	"robotsproxy/proxy/admin"
	"robotsproxy/proxy/gate"
)

func serveCommand() *cobra.Command {
	settings := append([]setting{listenSetting, adminListenSetting}, commonSettings...)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy until SIGINT or SIGTERM",
		Long: `Run the proxy and the admin server until SIGINT or SIGTERM. Requests in flight then
have up to shutdown_grace to end; a second signal stops at once. SIGHUP reads the
configuration again. Without a configuration, every bot is judged by the name in its
own User-Agent.`,
		Example: `  robotsproxy serve
  robotsproxy serve --config /etc/robotsproxy/robotsproxy.yaml
  robotsproxy serve --listen 0.0.0.0:8080 --data-dir /data   # then admit clients by clients.allow
  kill -HUP PID                                              # read the configuration again`,
		Args: cobra.NoArgs,
	}
	addSettings(cmd, settings...)
	cmd.RunE = withExitCode(func(cmd *cobra.Command, _ []string) error {
		load := func() (config.Config, error) { return loadConfig(cmd, config.Default(), settings...) }
		cfg, err := load()
		if err != nil {
			return err
		}
		return serve(cmd, cfg, load)
	})
	return cmd
}

// serve runs the proxy and the admin server until a signal comes or one of them
// fails. load reads the configuration again.
func serve(cmd *cobra.Command, cfg config.Config, load func() (config.Config, error)) error {
	signal.Ignore(syscall.SIGPIPE) // the proxy outlives a reader of its log
	signalled, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	servers, ctx := errgroup.WithContext(signalled)

	s, err := openService(ctx, cfg, load, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer s.engine.Close()
	s.start(servers)
	s.logServing(cfg)
	<-ctx.Done()
	stop() // a second signal ends the process at once
	s.shutDown()
	return servers.Wait()
}

// A service is what serve runs: the proxy and the admin server, each listening.
type service struct {
	engine   *engine
	gate     *gate.Gate
	proxy    *proxy.Server
	doors    []door       // that of listen first
	admin    *adminServer // nil if admin_listen is empty
	reloader *reloader
	ready    atomic.Bool

	openFiles int64 // how many files this process may have open
}

// A door is a listener of the proxy.
type door struct {
	net.Listener
	key   string // under which its address is in the configuration and in the log; "" if it only goes with the door before
	serve func(net.Listener) error
}

// openService opens all that cfg names and listens. SIGHUP reloads the configuration
// until ctx ends. Callers must close the engine.
func openService(ctx context.Context, cfg config.Config, load func() (config.Config, error), stderr io.Writer) (_ *service, err error) {
	ca, trustWarnings, err := openTrust(cfg)
	if err != nil {
		return nil, err
	}
	s := &service{}
	if s.engine, err = openEngine(ctx, cfg, false, stderr); err != nil {
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
	if s.gate, s.proxy, err = s.engine.openServer(cfg, ca, nil); err != nil {
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
	s.reloader = newReloader(s.engine, s.gate, s.proxy, cfg, load)
	s.reloader.onHangup(ctx)
	if err = s.listen(cfg); err != nil {
		return nil, err
	}
	if err = s.openAdmin(cfg, ca); err != nil {
		s.closeDoors()
		return nil, err
	}
	return s, nil
}

// openTrust opens the CA and writes the files by which clients trust it.
func openTrust(cfg config.Config) (ca *certs.CA, warnings []string, err error) {
	if ca, err = openCA(cfg); err != nil {
		return nil, nil, err
	}
	folder, err := trustFolder(cfg)
	if err != nil {
		return nil, nil, err
	}
	trust, err := ca.WriteTrust(folder, ownTrust(os.Getenv))
	if err != nil {
		return nil, nil, err
	}
	return ca, append(ca.Warnings(), trust.Warnings...), nil
}

// listen opens the doors that cfg names.
func (s *service) listen(cfg config.Config) error {
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
func (s *service) listenToOtherFamily(config *net.ListenConfig, transparent net.Addr) {
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
func (s *service) serveRedirected(l net.Listener) error {
	return s.proxy.ServeTransparent(redirected.Listener{TCPListener: l.(*net.TCPListener), Destination: redirected.Original})
}

func (s *service) closeDoors() {
	for _, d := range s.doors {
		d.Close()
	}
}

func (s *service) openAdmin(cfg config.Config, ca *certs.CA) (err error) {
	if cfg.AdminListen == "" {
		return nil
	}
	s.admin, err = openAdmin(cfg, s.engine.log, admin.Setup{
		Proxy:   s.doors[0].Addr(),
		Gate:    s.gate,
		Origins: s.engine.keeper,
		CA:      ca.PEM(),
		Metrics: s.engine.metrics,
		Ready:   s.ready.Load,
		Reload:  s.reloader.reload,
	})
	return err
}

// start serves in goroutines of the group. From then on the proxy is ready.
func (s *service) start(servers *errgroup.Group) {
	var own []net.Addr
	for _, d := range s.doors {
		own = append(own, d.Addr())
	}
	if s.admin != nil {
		own = append(own, s.admin.listener.Addr())
		servers.Go(s.admin.serve)
	}
	s.engine.transport.SetOwnAddresses(own...)
	for _, d := range s.doors {
		servers.Go(func() error { return d.serve(d.Listener) })
	}
	s.ready.Store(true)
}

func (s *service) logServing(cfg config.Config) {
	version, _ := buildVersion()
	line := s.engine.log.Info().Str("name", cfg.Name).Str("version", version).Int64("open_files", s.openFiles)
	for _, d := range s.doors {
		if d.key != "" {
			line.Stringer(d.key, d.Addr())
		}
	}
	if s.admin != nil {
		line.Stringer("admin_listen", s.admin.listener.Addr())
	}
	line.Msg("serving")
}

// shutDown ends both servers. Requests in flight have up to shutdown_grace to end.
func (s *service) shutDown() {
	s.ready.Store(false)
	grace := s.reloader.shutdownGrace()
	s.engine.log.Info().Stringer("shutdown_grace", grace).Msg("stopping: requests in flight may end")
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := s.proxy.Shutdown(ctx); err != nil {
		s.engine.log.Warn().Err(err).Msg("requests were broken off: shutdown_grace is over")
	}
	if s.admin != nil {
		s.admin.close()
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
