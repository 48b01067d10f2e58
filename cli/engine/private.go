package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/seal/cover"
	"robotsproxy/proxy/sealed"
)

// A Private is the proxy of one command.
type Private struct {
	Address string      // where the command finds it, as host:port
	Trust   trust.Files // by which the command's clients trust its CA

	engine  *Engine
	server  *proxy.Server
	served  chan error      // nil in a sealed network
	network *sealed.Network // nil unless the command is sealed
}

// OpenPrivate starts a proxy at cfg's address, or prepares one that the command alone finds
// in its sealed network. It calls watch for each decision, from several goroutines. The files
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
	if cfg.Run.Sealed {
		p.network = sealed.New(sealed.Setup{
			Options:   cfg.Run,
			Trust:     cover.Trust{CA: p.Trust.CA, Bundle: p.Trust.Bundle, Store: p.Trust.Cacerts},
			HasParent: cfg.Upstream.HasParent(),
			Log:       p.engine.log,
		})
		p.Address = p.network.ProxyAddress().String()
		return p, p.openProxy(cfg, ca, p.network.Hooks, watch)
	}
	if err = p.openProxy(cfg, ca, nil, watch); err != nil {
		return nil, err
	}
	return p, p.listen(cfg.Listen)
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

func (p *Private) openProxy(cfg config.Config, ca *certs.CA, hooks func(*proxy.Options), watch func(decision.Decision)) error {
	if p.network == nil && cfg.Clients.Connections == nil {
		p.engine.log.Warn().Msg("this system does not tell which user a connection belongs to: other users of this machine may use the proxy")
	}
	g, server, err := p.engine.openProxy(cfg, ca, hooks)
	if err != nil {
		return err
	}
	g.Watch(watch)
	p.server = server
	return nil
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
