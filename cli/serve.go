package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"robotsproxy/config"
	"robotsproxy/internal/shortage"
	"robotsproxy/proxy/admin"
)

func serveCommand() *cobra.Command {
	settings := append(listenSettings, commonSettings...)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy until SIGINT or SIGTERM",
		Long: `Run the proxy and the admin server until SIGINT or SIGTERM; then requests in flight
may end for up to shutdown_grace, and a second signal stops at once. SIGHUP reads
the configuration again. Without a configuration, every bot is judged by the name
in its own User-Agent.`,
		Example: `  robotsproxy serve
  robotsproxy serve --config /etc/robotsproxy/robotsproxy.yaml
  robotsproxy serve --listen 0.0.0.0:8080 --data-dir /data   # then admit clients by clients.allow
  kill -HUP PID                                              # read the configuration again`,
		Args: cobra.NoArgs,
	}
	addSettings(cmd, settings...)
	cmd.RunE = runs(func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadConfig(cmd, config.Default(), settings...)
		if err != nil {
			return err
		}
		return serve(cmd, cfg, func() (config.Config, error) { return loadConfig(cmd, config.Default(), settings...) })
	})
	return cmd
}

// serve runs the proxy and the admin server until a signal comes or one of them
// fails. It reads the configuration again by load.
func serve(cmd *cobra.Command, cfg config.Config, load func() (config.Config, error)) error {
	signal.Ignore(syscall.SIGPIPE) // a reader of the log that leaves does not end the proxy
	signalled, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	group, ctx := errgroup.WithContext(signalled)

	ca, err := openCA(cfg)
	if err != nil {
		return err
	}
	folder, err := trustFolder(cfg)
	if err != nil {
		return err
	}
	trust, err := ca.WriteTrust(folder, ownTrust(os.Getenv))
	if err != nil {
		return err
	}
	h, err := openHouse(ctx, cfg, false, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer h.Close()
	for _, warning := range append(ca.Warnings(), trust.Warnings...) {
		h.log.Warn().Msg(warning)
	}
	files := shortage.Descriptors()
	if warning := cfg.Limits.Warning(files); warning != "" {
		h.log.Warn().Int64("open_files", files).Msg(warning)
	}
	g, server, err := h.openServer(cfg, ca)
	if err != nil {
		return err
	}
	reloader := &reloader{load: load, log: h.log, reopen: h.logWriter.Reopen, gate: g, pacer: h.pacer, keeper: h.keeper, server: server, started: cfg, current: cfg}
	reloader.onHangup(ctx)

	listener, err := listen(cfg.Listen, "--listen")
	if err != nil {
		return err
	}
	if warning := cfg.Clients.Warning(listener.Addr()); warning != "" {
		h.log.Warn().Stringer("listen", listener.Addr()).Msg(warning)
	}
	version, _ := buildVersion()
	own := []net.Addr{listener.Addr()}
	serving := h.log.Info().Str("name", cfg.Name).Str("version", version).Stringer("listen", listener.Addr()).Int64("open_files", files)
	var ready atomic.Bool
	var adminServer *adminServer // nil: none is wanted
	if cfg.AdminListen != "" {
		adminServer, err = openAdmin(cfg, h.log, admin.Setup{
			Proxy:   listener.Addr(),
			Gate:    g,
			Known:   h.keeper,
			CA:      ca.PEM(),
			Metrics: h.metrics,
			Ready:   ready.Load,
			Reload:  reloader.reload,
		})
		if err != nil {
			listener.Close()
			return err
		}
		serving.Stringer("admin_listen", adminServer.listener.Addr())
		own = append(own, adminServer.listener.Addr())
		group.Go(adminServer.serve)
	}
	h.transport.Own(own...)
	group.Go(func() error { return server.Serve(listener) })
	ready.Store(true)
	serving.Msg("serving")

	<-ctx.Done()
	ready.Store(false)
	stop() // a second signal ends the process at once
	length := reloader.grace()
	h.log.Info().Stringer("shutdown_grace", length).Msg("stopping: requests in flight may end")
	grace, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		h.log.Warn().Err(err).Msg("requests were broken off: shutdown_grace is over")
	}
	if adminServer != nil {
		adminServer.close()
	}
	return group.Wait()
}

func listen(address, flag string) (net.Listener, error) {
	l, err := listenConfig().Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening: %w; choose another address with %s", err, flag)
	}
	return l, nil
}
