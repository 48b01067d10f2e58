package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"robotsproxy/certs"
	"robotsproxy/cli/child"
	"robotsproxy/config"
	"robotsproxy/internal/clientsetup"
	"robotsproxy/internal/keyerr"
	"robotsproxy/proxy"
	"robotsproxy/proxy/seal"
	"robotsproxy/proxy/seal/cover"
	"robotsproxy/proxy/sealed"
	"robotsproxy/proxy/upstream"
)

// exitProxy is the exit code of run when its proxy could not start. All other codes of run
// come from its command.
const exitProxy = 125

// sealedSetting is a setting of run alone; see runFlags.
var sealedSetting = setting{"sealed", "run.sealed", "let the proxy be the command's only way out (Linux)"}

func runCommand() *cobra.Command {
	var add runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Run a command whose requests obey robots.txt",
		Long: `Run a command behind a private proxy. The command's environment points its clients
at the proxy and has them trust the proxy's CA. Signals are passed on. A summary on
standard error says at the end what was refused.

A proxy that your own variables name becomes the parent of this one. The exit code is
the command's own, 128+N if signal N ended it, 127 if it isn't found, 126 if it can't
be executed, 125 if the proxy could not start.

With --sealed, the command has a network of its own, whose only way out is the proxy.
So it obeys whether or not it heeds variables. HTTP and HTTPS to every port are led to
the proxy, and all else is refused but for what --allow and --forward name. The command
trusts the proxy's CA by the system's own files too. If the system can't do that, the
command is not started.

` + clientsHelp(),
		Example: `  robotsproxy run -- scrapy crawl books
  robotsproxy run -- python3 spider.py
  robotsproxy run --log-file decisions.log -- ./crawl.sh   # a line of JSON for each request
  robotsproxy run --config bots.yaml -- wget -r https://example.com/
  robotsproxy run --sealed -- npm start        # whatever its libraries do
  robotsproxy run --sealed --forward 5432 --allow git.example.com:22 -- ./crawl.sh`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return errors.New("there is no command to run")
			}
			return nil
		},
	}
	addSettings(cmd, commonSettings...)
	add.register(cmd)
	cmd.Flags().SetInterspersed(false) // flags after the command's name are the command's own
	cmd.RunE = func(cmd *cobra.Command, command []string) error {
		cfg, err := runConfig(cmd, add)
		if err != nil {
			return exit{exitProxy, err}
		}
		return run(cmd, cfg, command)
	}
	return cmd
}

// runFlags are what the flags of run add to the section "run" of the configuration.
type runFlags struct {
	allow   []string
	forward []string
}

func (f *runFlags) register(cmd *cobra.Command) {
	cmd.Flags().Bool(sealedSetting.flag, false, sealedSetting.help+" ["+sealedSetting.variable()+"]")
	cmd.Flags().StringArrayVar(&f.allow, "allow", nil, "`HOST:PORT` that a sealed command reaches without being judged; may be repeated")
	cmd.Flags().StringArrayVar(&f.forward, "forward", nil, "`PORT` of this machine's 127.0.0.1 that a sealed command finds at its own; may be repeated")
}

// addTo adds to the options of a configuration.
func (f runFlags) addTo(o *sealed.Options) error {
	if !o.Sealed && len(f.allow)+len(f.forward) > 0 {
		return errors.New("--allow and --forward are for a sealed command alone; add --sealed")
	}
	for _, text := range f.allow {
		var d sealed.Destination
		if err := d.UnmarshalText([]byte(text)); err != nil {
			return fmt.Errorf("--allow: %w", err)
		}
		o.Allow = append(slices.Clip(o.Allow), d)
	}
	for _, text := range f.forward {
		var p sealed.Port
		if err := p.UnmarshalText([]byte(text)); err != nil {
			return fmt.Errorf("--forward: %w", err)
		}
		if !slices.Contains(o.Forward, p) {
			o.Forward = append(slices.Clip(o.Forward), p)
		}
	}
	return keyerr.In("run", o.Validate())
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
func runConfig(cmd *cobra.Command, add runFlags) (config.Config, error) {
	settings := append(slices.Clip(commonSettings), sealedSetting)
	base := config.Default()
	base.Log.Level = "error"
	cfg, err := loadConfig(cmd, base, settings...)
	if err == nil && cfg.Log.File != "" {
		cfg, err = loadConfig(cmd, config.Default(), settings...)
	}
	if err == nil {
		err = add.addTo(&cfg.Run)
	}
	if err != nil {
		return cfg, err
	}
	// The settings that say who may use a shared proxy, and where, are not for a private one.
	cfg.Clients = proxy.DefaultClients()
	if !cfg.Run.Sealed {
		// Nobody else reaches the sockets of a sealed command's network. So its connections
		// are its own, and the kernel would not find their users in this network.
		cfg.Clients.Connections = child.CommandUsers()
	}
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
	c := newChild(cmd, command, p)
	start := c.Start
	if p.network != nil {
		start = func() error { return p.network.Start(cmd.Context(), c, p.server) }
	}
	code, err := child.Run(c, start, signals)
	if failure, unsealed := errors.AsType[*seal.Error](err); unsealed {
		code, err = notSealed(failure)
	}
	closeErr := p.Close()
	if err == nil {
		p.printSummary(cmd.ErrOrStderr(), cfg)
	}
	return exit{code, errors.Join(err, closeErr)}
}

// notSealed is the exit code of a run whose command could not be sealed, and its error.
func notSealed(failure *seal.Error) (code int, err error) {
	// Ctrl-C in a terminal reaches a command that is being sealed too.
	if s, ended := errors.AsType[seal.Signaled](failure); ended && syscall.Signal(s) == syscall.SIGINT {
		return child.ExitSignalled + int(s), nil
	}
	return exitProxy, failure
}

// newChild returns the user's command, with an environment that points its clients at p.
func newChild(cmd *cobra.Command, command []string, p *privateProxy) *exec.Cmd {
	c := child.Command(command[0], command[1:]...)
	c.Stdin, c.Stdout, c.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	c.Env = os.Environ()
	for _, v := range clientVariables("http", p.address, p.trust, os.Getenv) {
		c.Env = append(c.Env, v.name+"="+v.value)
	}
	return c
}

// A privateProxy is the proxy of one run.
type privateProxy struct {
	address string // where the command finds it
	trust   certs.Trust
	summary *summary

	engine  *engine
	server  *proxy.Server
	served  chan error      // nil in a sealed network
	network *sealed.Network // nil unless the command is sealed
}

// startPrivateProxy starts a proxy on a free port, or prepares one that the command alone
// finds in its sealed network. The files for its clients are in a folder of their own, since
// they depend on the user's variables, which differ from run to run. Callers must call Close.
func startPrivateProxy(cmd *cobra.Command, cfg config.Config) (_ *privateProxy, err error) {
	ca, err := openRunCA(cfg)
	if err != nil {
		return nil, err
	}
	p := &privateProxy{summary: newSummary()}
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
	if cfg.Run.Sealed {
		p.network = sealed.New(sealed.Setup{
			Options:   cfg.Run,
			Trust:     cover.Trust{CA: p.trust.CA, Bundle: p.trust.Bundle, Store: p.trust.Cacerts},
			HasParent: cfg.Upstream.HasParent(),
			Log:       p.engine.log,
		})
		p.address = p.network.ProxyAddress().String()
		return p, p.openServer(cfg, ca, p.network.Hooks)
	}
	if err = p.openServer(cfg, ca, nil); err != nil {
		return nil, err
	}
	return p, p.listen(cfg.Listen)
}

func (p *privateProxy) listen(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	p.address = listener.Addr().String()
	p.engine.transport.SetOwnAddresses(listener.Addr())
	p.served = make(chan error, 1)
	go func() { p.served <- p.server.Serve(listener) }()
	return nil
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

func (p *privateProxy) openServer(cfg config.Config, ca *certs.CA, hooks func(*proxy.Options)) error {
	if p.network == nil && cfg.Clients.Connections == nil {
		p.engine.log.Warn().Msg("this system does not tell which user a connection belongs to: other users of this machine may use the proxy")
	}
	g, server, err := p.engine.openServer(cfg, ca, hooks)
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
	var err error
	if p.network != nil {
		err = p.network.Close()
	} else {
		err = <-p.served
	}
	return errors.Join(err, p.engine.Close())
}

// printSummary says what the proxy has refused. Callers must have closed it.
func (p *privateProxy) printSummary(w io.Writer, cfg config.Config) {
	p.summary.noProxy = cfg.Upstream.Parents.Exempt()
	p.summary.distrusted = p.server.Distrusted()
	p.summary.sealable = p.network == nil && seal.Likely()
	if p.network != nil {
		report := p.network.Report()
		p.summary.sealed = &report
	}
	p.summary.print(w)
}
