package cli

import (
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"robotsproxy/cli/engine"
	"robotsproxy/config"
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
		Args: noArguments,
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
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // one that comes too early must not end the process
	defer signal.Stop(hangups)
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := engine.OpenService(ctx, cfg, load, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer s.Close()
	s.EnvCommand = func(listen net.Addr) string { return envCommandFor(cmd, cfg.Listen, listen) }
	go func() {
		for {
			select {
			case <-hangups:
				s.Reload() // the log says how it went
			case <-ctx.Done():
				return
			}
		}
	}()
	return s.Serve(ctx, stop) // after stop, a second signal ends the process at once
}

// envCommandFor returns the command line of env that reads the same settings as serve, which is
// configured to listen at configured and does at actual. It does not repeat what the environment
// sets.
func envCommandFor(serve *cobra.Command, configured string, actual net.Addr) string {
	line := "robotsproxy env"
	for _, flag := range []string{configFlag.flag, "data-dir"} {
		if f := serve.Flags().Lookup(flag); f.Changed {
			line += " --" + flag + " " + quoteForShell(f.Value.String())
		}
	}
	if strings.HasSuffix(configured, ":0") {
		return line + " --listen " + actual.String()
	}
	if serve.Flags().Changed(listenSetting.flag) {
		line += " --listen " + quoteForShell(configured)
	}
	return line
}
