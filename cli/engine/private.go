package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"time"

	"robotsproxy/certs"
	"robotsproxy/certs/trust"
	"robotsproxy/cli/child"
	"robotsproxy/cli/environment"
	"robotsproxy/config"
	"robotsproxy/proxy"
	"robotsproxy/proxy/admin"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/seal/cover"
	"robotsproxy/proxy/sealed"
	"robotsproxy/proxy/sign/directory"
)

// A Private is the proxy of one command.
type Private struct {
	Address string      // where the command finds it, as host:port
	Trust   trust.Files // by which the command's clients trust its CA

	AdminAddress string // of the admin server, as host:port; "" if there is none

	engine  *Engine
	server  *proxy.Server
	served  chan error      // nil in a sealed network
	network *sealed.Network // nil unless the command is sealed
	admin   *adminServer    // nil if admin_listen is empty

	adminServed chan error // nil without an admin server
}

// OpenPrivate starts a proxy at cfg's address, or prepares one that the command alone finds
// in its sealed network. It starts the admin server that cfg names, if it names one. It calls watch for each decision, from several goroutines. The files
// for its clients are in a folder of their own, since they depend on the user's variables,
// which differ from run to run. The log goes to stderr unless cfg names a file. Callers must
// call Close.
func OpenPrivate(ctx context.Context, cfg config.Config, watch func(decision.Decision), stderr io.Writer) (_ *Private, err error) {
	ca, err := openRunCA(cfg)
	if err != nil {
		return nil, err
	}
	p := &Private{}
	if p.engine, err = Open(ctx, cfg, true, stderr); err != nil {
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
	var hooks func(*proxy.Options)
	if cfg.Run.Sealed {
		p.network = sealed.New(sealed.Setup{
			Options:   cfg.Run,
			Trust:     cover.Trust{CA: p.Trust.CA, Bundle: p.Trust.Bundle, Store: p.Trust.Cacerts},
			HasParent: cfg.Upstream.HasParent(),
			Log:       p.engine.log,
		})
		p.Address, hooks = p.network.ProxyAddress().String(), p.network.Hooks
	}
	g, err := p.openProxy(cfg, ca, hooks, watch)
	if err != nil {
		return nil, err
	}
	if p.network == nil {
		if err = p.listen(cfg.Listen); err != nil {
			return nil, err
		}
	}
	if cfg.AdminListen != "" {
		if err = p.openAdmin(cfg, ca, g); err != nil && p.served != nil {
			p.stopServing()
		}
	}
	return p, err
}

// openAdmin starts the admin server.
func (p *Private) openAdmin(cfg config.Config, ca *certs.CA, g *gate.Gate) error {
	at, err := netip.ParseAddrPort(p.Address)
	if err != nil {
		return fmt.Errorf("the proxy's own address: %w", err)
	}
	keys := directory.New(time.Now)
	if err := keys.SetAgents(directory.AgentsOf(g.Identities())); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.AdminListen)
	if err != nil {
		return fmt.Errorf("listening for the admin server: %w; choose another address with --admin-listen", err)
	}
	p.AdminAddress = listener.Addr().String()
	cfg.AdminListen = p.AdminAddress
	p.admin = newAdmin(cfg, admin.Setup{
		Proxy:     net.TCPAddrFromAddrPort(at),
		Gate:      g,
		Pacer:     p.engine.pacer,
		Origins:   p.engine.keeper,
		CA:        ca.PEM(),
		Directory: keys,
		Metrics:   p.engine.metrics,
		Report:    p.engine.Report,
		Ready:     func() bool { return true },
		Reload:    func() error { return errors.New("run reads its configuration only once; start it again") },
	})
	if warning := cfg.AdminToken.Warning(listener.Addr()); warning != "" {
		p.engine.log.Error().Stringer("admin_listen", listener.Addr()).Msg(warning)
	}
	p.adminServed = make(chan error, 1)
	go func() { p.adminServed <- p.admin.serve(listener) }()
	return nil
}

func (p *Private) listen(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	p.Address = listener.Addr().String()
	p.engine.transport.SetOwnAddresses(listener.Addr())
	p.served = make(chan error, 1)
	go func() { p.served <- p.server.Serve(listener) }()
	return nil
}

// writeTrust writes the files by which the command's clients trust the CA.
func (p *Private) writeTrust(cfg config.Config, ca *certs.CA) error {
	folder, err := child.MakeFolder(cfg.HTTPS.Trust.Dir)
	if err != nil {
		return fmt.Errorf("making the folder for clients: %w; name another with https.trust_dir", err)
	}
	p.engine.onClose(folder.Close)
	if p.Trust, err = trust.Write(ca, folder.Path, environment.OwnTrust(os.Getenv)); err != nil {
		return err
	}
	for _, warning := range p.Trust.Warnings {
		p.engine.log.Warn().Msg(warning)
	}
	return nil
}

func (p *Private) openProxy(cfg config.Config, ca *certs.CA, hooks func(*proxy.Options), watch func(decision.Decision)) (*gate.Gate, error) {
	if p.network == nil && cfg.Clients.Connections == nil {
		p.engine.log.Warn().Msg("this system does not tell which user a connection belongs to: other users of this machine may use the proxy")
	}
	g, server, err := p.engine.openProxy(cfg, ca, hooks)
	if err != nil {
		return nil, err
	}
	g.Watch(watch)
	p.server = server
	return g, nil
}

// Start starts the command, in its network if it is sealed.
func (p *Private) Start(ctx context.Context, cmd *exec.Cmd) error {
	if p.network == nil {
		return cmd.Start()
	}
	return p.network.Start(ctx, cmd, p.server)
}

// TellWaits calls tell, until stop is called, with a line for each origin whose requests have
// waited for their turns for a few seconds.
func (p *Private) TellWaits(tell func(line string)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { tellWaits(ctx, p.engine.pacer.Waits, tell) })
	return func() {
		cancel()
		running.Wait()
	}
}

// Distrusted are the hosts that the command did not ask because it does not trust the CA.
func (p *Private) Distrusted() []string { return p.server.Distrusted() }

// Sealed is what became of the connections that were not judged; nil if the command is not
// sealed. It is complete after Close.
func (p *Private) Sealed() *sealed.Report {
	if p.network == nil {
		return nil
	}
	report := p.network.Report()
	return &report
}

// leftoverGrace is how long Close waits for requests that the command has left behind.
const leftoverGrace = time.Second

// Close ends the proxy and removes its files.
func (p *Private) Close() error {
	err := p.stopServing()
	if p.admin != nil {
		p.admin.close()
		err = errors.Join(err, <-p.adminServed)
	}
	return errors.Join(err, p.engine.Close())
}

func (p *Private) stopServing() error {
	ctx, cancel := context.WithTimeout(context.Background(), leftoverGrace)
	defer cancel()
	p.server.Shutdown(ctx) // its error says only that requests were broken off
	if p.network != nil {
		return p.network.Close()
	}
	return <-p.served
}
