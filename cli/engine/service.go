package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"robotsproxy/config"
	"robotsproxy/internal/build"
	"robotsproxy/internal/listen"
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
	// EnvCommand returns the command line that prints the variables for clients of this service,
	// for people who watch it start, if its proxy listens at that address; nil: they are not told.
	EnvCommand func(listen net.Addr) string

	engine *Engine
	gate   *gate.Gate
	proxy  *proxy.Server
	ready  atomic.Bool

	keys      *directory.Directory
	directory *directory.Server // serves keys
	admin     *adminServer      // nil if admin_listen is empty

	listeners *listen.Listeners
	doors     []door // that of listen first

	openFiles int64 // how many files this process may have open

	load    func() (config.Config, error) // reads the configuration again
	started config.Config                 // what the service was opened with
	mu      sync.Mutex                    // held while the configuration is reloaded
	current config.Config
}

// A door is a listener and the server behind it.
type door struct {
	net.Listener
	key   string // under which its address is in the configuration and in the log
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
	s.directory = directory.NewServer(s.keys, s.engine.log)
	if cfg.AdminListen != "" {
		s.admin = newAdmin(cfg, admin.Setup{
			Proxy:     s.doors[0].Addr(),
			Gate:      s.gate,
			Pacer:     s.engine.pacer,
			Origins:   s.engine.keeper,
			CA:        ca.PEM(),
			Directory: s.keys,
			Metrics:   s.engine.metrics,
			Report:    s.engine.Report,
			Counts:    s.engine.counts,
			LastHour:  s.engine.decisions.LastHour,
			Changes:   s.engine.changes,
			Distrust:  s.proxy.DistrustingClients,
			Ready:     s.ready.Load,
			Reload:    s.Reload,
		})
	}
	return s, nil
}

// publishKeys has the directories publish the keys of the gate's identities.
func (s *Service) publishKeys() error {
	return s.keys.SetAgents(directory.AgentsOf(s.gate.Identities()))
}

// listen opens the doors that cfg names. If that fails, it leaves none open.
func (s *Service) listen(cfg config.Config) (err error) {
	if s.listeners, err = listen.Open(cfg.ReusePort); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.listeners.Close()
			s.closeDoors()
		}
	}()
	var known []string
	for _, d := range []struct {
		key, address, remedy string
		warning              func(net.Addr) string // nil: none
		serve                func(net.Listener) error
	}{
		{"listen", cfg.Listen, "--listen", cfg.Clients.Warning, s.proxy.Serve},
		{"listen_tls", cfg.ListenTLS.Address, "listen_tls.address", cfg.Clients.Warning, s.proxy.ServeTLS},
		{"listen_socks", cfg.ListenSOCKS, "listen_socks", cfg.Clients.Warning, s.proxy.ServeSOCKS},
		{transparentKey, cfg.Transparent, "transparent", cfg.Clients.Warning, s.serveRedirected},
		{directoryKey, cfg.DirectoryListen, "directory_listen", nil, func(l net.Listener) error { return s.directory.Serve(l) }},
		{"admin_listen", cfg.AdminListen, "--admin-listen", cfg.AdminToken.Warning, func(l net.Listener) error { return s.admin.serve(l) }},
	} {
		known = append(known, d.key)
		if d.address == "" {
			continue
		}
		opened, err := s.listeners.Listen(listen.Place{Key: d.key, Address: d.address, Remedy: d.remedy, Redirected: d.key == transparentKey})
		if err != nil {
			return err
		}
		for _, l := range opened {
			s.doors = append(s.doors, door{l, d.key, d.serve})
			if d.warning == nil {
				continue
			}
			if warning := d.warning(l.Addr()); warning != "" {
				s.engine.log.Warn().Stringer(d.key, l.Addr()).Msg(warning)
			}
		}
		if d.key == transparentKey && len(opened) == 1 {
			s.listenToOtherFamily(opened[0].Addr())
		}
	}
	return s.listeners.CheckTaken(known)
}

// The keys of the doors that are not like the others.
const (
	transparentKey = "transparent"
	directoryKey   = "directory_listen"
)

// listenToOtherFamily listens on ::1 too if the transparent door is at 127.0.0.1, and the
// other way round, since the kernel redirects what leaves this machine to the loopback
// address of the same family.
func (s *Service) listenToOtherFamily(transparent net.Addr) {
	ipv4 := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	at := transparent.(*net.TCPAddr).AddrPort()
	other, known := map[netip.Addr]netip.Addr{ipv4: netip.IPv6Loopback(), netip.IPv6Loopback(): ipv4}[at.Addr().Unmap()]
	if !known {
		return
	}
	address := netip.AddrPortFrom(other, at.Port()).String()
	opened, err := s.listeners.Listen(listen.Place{Key: transparentKey, Address: address, Remedy: transparentKey, Redirected: true})
	switch {
	case err == nil:
		s.doors = append(s.doors, door{opened[0], transparentKey, s.serveRedirected})
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
		if d.key != directoryKey { // which is a site like others
			own = append(own, d.Addr())
		}
	}
	s.engine.transport.SetOwnAddresses(own...)
	for _, d := range s.doors {
		servers.Go(func() error { return d.serve(d.Listener) })
	}
	servers.Go(func() error { s.gate.WarnOfOverrides(ctx); return nil })
	servers.Go(func() error { releaseMemory(ctx, s.proxy.Connections, debug.FreeOSMemory); return nil })
	if log := s.engine.log; s.engine.logWriter.Console() {
		servers.Go(func() error {
			tellWaits(ctx, s.engine.pacer.Waits, func(line string) { log.Info().Msg(line) })
			return nil
		})
	}
	s.ready.Store(true)
	daemon.SdNotify(false, daemon.SdNotifyReady) // does nothing unless a supervisor waits for it
}

func (s *Service) logServing() {
	version, _ := build.Version()
	line := s.engine.log.Info().Str("name", s.started.Name).Str("version", version).Int64("open_files", s.openFiles)
	said := ""
	for _, d := range s.doors {
		if d.key != said { // of several listeners of one door, the first
			line.Stringer(d.key, d.Addr())
		}
		said = d.key
	}
	line.Msg("serving")
	if !s.engine.logWriter.Console() {
		return
	}
	if at := slices.IndexFunc(s.doors, func(d door) bool { return d.key == "admin_listen" }); at >= 0 {
		s.engine.log.Info().Msgf("the dashboard is at http://%s/", s.doors[at].Addr())
	}
	if s.EnvCommand != nil {
		s.engine.log.Info().Msgf("to point a shell's programs here: eval \"$(%s)\"", s.EnvCommand(s.doors[0].Addr()))
	}
}

// shutDown ends all servers. Requests in flight have up to shutdown_grace to end. The key
// directories come last: sites look up the keys of the requests that are still under way.
func (s *Service) shutDown() {
	s.ready.Store(false)
	daemon.SdNotify(false, daemon.SdNotifyStopping)
	if err := s.listeners.Yield(); err != nil {
		s.engine.log.Warn().Err(err).Msg("connections that clients are opening may be reset")
	}
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
	s.directory.Close()
}
