package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"robotsproxy/certs"
	"robotsproxy/cli/child"
	"robotsproxy/config"
	"robotsproxy/internal/clientsetup"
	"robotsproxy/proxy"
	"robotsproxy/proxy/upstream"
)

// exitProxy is the exit code of run when its proxy could not start. All other codes of run
// come from its command.
const exitProxy = 125

func runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Run a command whose requests obey robots.txt",
		Long: `Run a command behind a private proxy. The command's environment points its clients
at the proxy and has them trust the proxy's CA. Signals are passed on. A summary on
standard error says at the end what was refused.

A proxy that your own variables name becomes the parent of this one. The exit code is
the command's own, 128+N if signal N ended it, 127 if it isn't found, 126 if it can't
be executed, 125 if the proxy could not start.

` + clientsHelp(),
		Example: `  robotsproxy run -- scrapy crawl books
  robotsproxy run -- python3 spider.py
  robotsproxy run --log-file decisions.log -- ./crawl.sh   # a line of JSON for each request
  robotsproxy run --config bots.yaml -- wget -r https://example.com/`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return errors.New("there is no command to run")
			}
			return nil
		},
	}
	addSettings(cmd, commonSettings...)
	cmd.Flags().SetInterspersed(false) // flags after the command's name are the command's own
	cmd.RunE = func(cmd *cobra.Command, command []string) error {
		cfg, err := runConfig(cmd)
		if err != nil {
			return exit{exitProxy, err}
		}
		return run(cmd, cfg, command)
	}
	return cmd
}

// clientsHelp says what each client needs besides the variables.
func clientsHelp() string {
	var table strings.Builder
	for _, c := range clientsetup.Clients {
		fmt.Fprintf(&table, "\n  %-36s%s", c.Name, cmp.Or(c.Needs, "nothing"))
	}
	return "What each client needs besides the variables (README.md has the details):\n" + table.String()
}

// runConfig reads the configuration. Standard error belongs to the command, so the log
// has only errors there. A log file gets the default level, with every decision.
func runConfig(cmd *cobra.Command) (config.Config, error) {
	base := config.Default()
	base.Log.Level = "error"
	cfg, err := loadConfig(cmd, base, commonSettings...)
	if err == nil && cfg.Log.File != "" {
		cfg, err = loadConfig(cmd, config.Default(), commonSettings...)
	}
	if err != nil {
		return cfg, err
	}
	// The settings that say who may use a shared proxy, and where, are not for a private one.
	cfg.Clients = proxy.DefaultClients()
	cfg.Clients.Connections = child.CommandUsers()
	cfg.Listen, cfg.AdminListen = "127.0.0.1:0", ""
	cfg.Name += "-run-" + randomName()
	if cfg.Upstream.Proxy == "" {
		cfg.Upstream.Parents, err = upstream.ParentsOf(os.Getenv)
	}
	return cfg, err
}

// randomName is short, and unlikely to be another run's.
func randomName() string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	name := make([]byte, 6)
	for i := range name {
		name[i] = letters[rand.IntN(len(letters))]
	}
	return string(name)
}

// run runs the command behind a proxy of its own. The error is an exit with the
// command's code.
func run(cmd *cobra.Command, cfg config.Config, command []string) error {
	// Until the end: a signal must not keep the proxy's files from being removed.
	signals, stop := child.NotifySignals()
	defer stop()
	p, err := startPrivateProxy(cmd, cfg)
	if err != nil {
		return exit{exitProxy, err}
	}
	code, err := child.Run(newChild(cmd, command, p), signals)
	closeErr := p.Close()
	if err == nil {
		p.summary.print(cmd.ErrOrStderr(), cfg.Upstream.Parents.Exempt(), p.server.Distrusted())
	}
	return exit{code, errors.Join(err, closeErr)}
}

// newChild returns the user's command, with an environment that points its clients at p.
func newChild(cmd *cobra.Command, command []string, p *privateProxy) *exec.Cmd {
	c := child.Command(command[0], command[1:]...)
	c.Stdin, c.Stdout, c.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	c.Env = os.Environ()
	for _, v := range clientVariables(p.address, p.trust, os.Getenv) {
		c.Env = append(c.Env, v.name+"="+v.value)
	}
	return c
}

// A privateProxy is the proxy of one run.
type privateProxy struct {
	address string
	trust   certs.Trust
	summary *summary

	engine *engine
	server *proxy.Server
	served chan error
}

// startPrivateProxy starts a proxy on a free port. The files for its clients are in a
// folder of their own, since they depend on the user's variables, which differ from run
// to run. Callers must call Close.
func startPrivateProxy(cmd *cobra.Command, cfg config.Config) (_ *privateProxy, err error) {
	ca, err := openRunCA(cfg)
	if err != nil {
		return nil, err
	}
	p := &privateProxy{summary: newSummary(), served: make(chan error, 1)}
	if p.engine, err = openEngine(cmd.Context(), cfg, true, cmd.ErrOrStderr()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.engine.Close()
		}
	}()
	if err = p.writeTrust(cfg, ca); err != nil {
		return nil, err
	}
	if err = p.openServer(cfg, ca); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	p.address = listener.Addr().String()
	p.engine.transport.SetOwnAddresses(listener.Addr())
	go func() { p.served <- p.server.Serve(listener) }()
	return p, nil
}

// openRunCA opens the CA of the data directory. If that cannot be written, it makes one
// that lasts for this run alone.
func openRunCA(cfg config.Config) (*certs.CA, error) {
	ca, err := openCA(cfg)
	if !isUnwritable(err) || cfg.HTTPS.Cert != "" {
		return ca, err
	}
	folder, err := os.MkdirTemp("", "robotsproxy-ca-") // for its owner alone
	if err != nil {
		return nil, fmt.Errorf("making a CA for this run: %w", err)
	}
	defer os.RemoveAll(folder)
	return certs.Open(cfg.HTTPS.Options, folder)
}

// writeTrust writes the files by which the command's clients trust the CA.
func (p *privateProxy) writeTrust(cfg config.Config, ca *certs.CA) error {
	folder, err := child.MakeFolder(cfg.HTTPS.TrustDir)
	if err != nil {
		return fmt.Errorf("making the folder for clients: %w; name another with https.trust_dir", err)
	}
	p.engine.onClose(folder.Close)
	if p.trust, err = ca.WriteTrust(folder.Path, ownTrust(os.Getenv)); err != nil {
		return err
	}
	for _, warning := range p.trust.Warnings {
		p.engine.log.Warn().Msg(warning)
	}
	return nil
}

func (p *privateProxy) openServer(cfg config.Config, ca *certs.CA) error {
	if cfg.Clients.Connections == nil {
		p.engine.log.Warn().Msg("this system does not tell which user a connection belongs to: other users of this machine may use the proxy")
	}
	g, server, err := p.engine.openServer(cfg, ca)
	if err != nil {
		return err
	}
	g.Watch(p.summary.add)
	p.server = server
	return nil
}

// leftoverGrace is how long Close waits for requests that the command has left behind.
const leftoverGrace = time.Second

// Close ends the proxy and removes its files.
func (p *privateProxy) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), leftoverGrace)
	defer cancel()
	p.server.Shutdown(ctx) // its error says only that requests were broken off
	return errors.Join(<-p.served, p.engine.Close())
}
