package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"robotsproxy/certs"
	"robotsproxy/config"
	"robotsproxy/proxy"
)

func runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Run a command whose requests obey robots.txt",
		Long: `Run a command behind a private proxy: its environment points every client that
can be told at the proxy, and has it trust the proxy's CA. Signals are passed on.
What was refused is told on standard error at the end.

The user's own proxy variables name the proxy that this one goes by. The exit code
is the command's own, 128+N if signal N ended it, 127 if it isn't found, 126 if
it can't be executed, 125 if the proxy could not start.

Most clients need nothing else: curl, wget, git, Python's requests, httpx, urllib
and Scrapy, Node 22.21 and later, Go, Java, Ruby, PHP's curl. Python's aiohttp wants
trust_env=True, PHP's streams a context with the proxy, older Node undici's
EnvHttpProxyAgent or global-agent, Chromium --proxy-server="$ROBOTSPROXY_URL" and the CA
in its own store. The README's table of clients says more.`,
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
	cmd.Flags().SetInterspersed(false) // what follows the command's name is the command's
	cmd.RunE = func(cmd *cobra.Command, command []string) error {
		cfg, err := runConfig(cmd)
		if err != nil {
			return exit{exitProxy, err}
		}
		return run(cmd, cfg, command)
	}
	return cmd
}

// runConfig reads the configuration. Standard error belongs to the command, so only
// errors are logged there; a file of its own gets the decisions too.
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
	// Of what is for all to use, nothing holds for a private proxy.
	cfg.Clients = proxy.DefaultClients()
	cfg.Clients.Connections = onlyCommandUsers()
	cfg.Listen, cfg.AdminListen = "127.0.0.1:0", ""
	cfg.Name += "-run-" + randomName()
	if cfg.Upstream.Proxy == "" {
		cfg.Upstream.Parents, err = proxy.ParentsOf(os.Getenv)
	}
	return cfg, err
}

// randomName is short and nobody else's.
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
	signals, stop := heed() // to the end: what the proxy has made is taken away then
	defer stop()
	p, err := startPrivate(cmd, cfg)
	if err != nil {
		return exit{exitProxy, err}
	}
	child := exec.Command(command[0], command[1:]...)
	if errors.Is(child.Err, exec.ErrDot) {
		child.Err = nil // it is the user's own PATH that has "." in it
	}
	child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	child.Env = os.Environ()
	for _, v := range clientVariables(p.address, p.trust, os.Getenv) {
		child.Env = append(child.Env, v.name+"="+v.value)
	}
	code, err := supervise(child, signals)
	closing := p.Close()
	if err == nil {
		p.tally.print(cmd.ErrOrStderr(), cfg.Upstream.Parents.Exempt(), p.server.Distrusted())
	}
	return exit{code, errors.Join(err, closing)}
}

// private is the proxy of one run.
type private struct {
	address string
	trust   certs.Trust
	tally   *tally

	house  *house
	server *proxy.Server
	served chan error
}

// startPrivate starts a proxy on a free port, with files for its clients in a folder
// of their own: what the user's variables name differs from run to run. The caller
// closes it.
func startPrivate(cmd *cobra.Command, cfg config.Config) (_ *private, err error) {
	ca, err := openCA(cfg)
	if unwritable(err) && cfg.HTTPS.Cert == "" {
		ca, err = passingCA(cfg)
	}
	if err != nil {
		return nil, err
	}
	p := &private{tally: newTally(), served: make(chan error, 1)}
	if p.house, err = openHouse(cmd.Context(), cfg, true, cmd.ErrOrStderr()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.house.Close()
		}
	}()
	folder, err := makeRunFolder(cfg.HTTPS.TrustDir)
	if err != nil {
		return nil, fmt.Errorf("making the folder for clients: %w; name another with https.trust_dir", err)
	}
	p.house.closers = append(p.house.closers, folder)
	if p.trust, err = ca.WriteTrust(folder.path, ownTrust(os.Getenv)); err != nil {
		return nil, err
	}
	for _, warning := range p.trust.Warnings {
		p.house.log.Warn().Msg(warning)
	}
	if cfg.Clients.Connections == nil {
		p.house.log.Warn().Msg("this system does not tell whose a connection is: other users of this machine may use the proxy")
	}
	g, server, err := p.house.openServer(cfg, ca)
	if err != nil {
		return nil, err
	}
	g.Watch(p.tally.add)
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	p.address, p.server = listener.Addr().String(), server
	p.house.transport.Own(listener.Addr())
	go func() { p.served <- server.Serve(listener) }()
	return p, nil
}

// passingCA is a CA for this run alone, of which no file stays.
func passingCA(cfg config.Config) (*certs.CA, error) {
	folder, err := os.MkdirTemp("", "robotsproxy-ca-") // for its owner alone
	if err != nil {
		return nil, fmt.Errorf("making a CA for this run: %w", err)
	}
	defer os.RemoveAll(folder)
	return certs.Open(cfg.HTTPS.Options, folder)
}

// afterwards is how long requests may take to end that the command has left behind.
const afterwards = time.Second

// Close ends the proxy and takes its files away.
func (p *private) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), afterwards)
	defer cancel()
	p.server.Shutdown(ctx) // says only that requests were broken off
	return errors.Join(<-p.served, p.house.Close())
}
