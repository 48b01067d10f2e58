// Package sealed runs a command in a network whose only way out is the proxy. Package seal
// makes the network; a [Network] serves what the command finds there: the proxy at the
// address that variables name, every connection to elsewhere, names, and what the
// [Options] lead elsewhere.
//
// New returns a Network. Its Hooks go into the options of the [proxy.Server] that Start has
// serve the connections. Report says at the end what was refused and what was let through.
package sealed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"robotsproxy/proxy"
	"robotsproxy/proxy/seal"
	"robotsproxy/proxy/seal/cover"
	"robotsproxy/proxy/seal/names"
)

// Setup is what a Network needs.
type Setup struct {
	Options
	// Trust are the files by which the command trusts the proxy's CA.
	Trust cover.Trust
	// HasParent says that names may resolve behind a parent proxy alone.
	HasParent bool
	Log       zerolog.Logger
}

// A Network is that of one command. Callers must call Close.
type Network struct {
	setup    Setup
	standIns *names.StandIns // nil without a parent proxy
	allow    *allowList
	tally    tally

	inside  *seal.Network // nil until Start has succeeded
	serving sync.WaitGroup
	stop    func()
	failed  chan error // what ended a door, from each at most one
}

// New returns the network for a command that is not started yet.
func New(s Setup) *Network {
	n := &Network{setup: s}
	if s.HasParent {
		n.standIns = new(names.StandIns)
	}
	n.allow = newAllowList(s.Allow, net.DefaultResolver, n.standIns)
	return n
}

// firstProxyPort begins the ports beyond those that systems give to clients, so that the
// command is not likely to want one.
const firstProxyPort = 61000

// ProxyAddress is where the command finds the proxy: an address in its own network, where
// nobody else can reach it.
func (n *Network) ProxyAddress() netip.AddrPort {
	port := Port(firstProxyPort)
	for slices.Contains(n.setup.Forward, port) || slices.Contains(n.setup.Ports, port) {
		port++
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
}

// Hooks sets the functions by which a server knows what is special in this network.
func (n *Network) Hooks(o *proxy.Options) {
	o.Direct = func(ctx context.Context, wanted netip.AddrPort) (dial string, dialled func(error)) {
		d, dial := n.allow.find(ctx, wanted)
		if d == nil {
			return "", nil
		}
		return dial, func(err error) { n.tally.addAllowed(d.String(), err) }
	}
	if n.standIns != nil {
		o.NameOf = n.standIns.Name
	}
	o.OnRefusedConnection = func(wanted netip.AddrPort) { n.tally.addRefused(n.nameOf(wanted)) }
}

// nameOf shows an address as --allow takes it: by the name for which the command was told
// it, if that is known.
func (n *Network) nameOf(address netip.AddrPort) string {
	name := n.allow.told.name(address.Addr())
	if n.standIns != nil {
		if standsFor, ok := n.standIns.Name(address.Addr()); ok {
			name = standsFor
		}
	}
	if name == "" {
		return address.String()
	}
	return net.JoinHostPort(name, fmt.Sprint(address.Port()))
}

// Start starts cmd as [seal.Start] does, and has server serve its connections.
func (n *Network) Start(ctx context.Context, cmd *exec.Cmd, server *proxy.Server) error {
	inside, err := seal.Start(ctx, cmd, seal.Options{
		Proxy:    n.ProxyAddress(),
		Ports:    numbers(n.setup.Ports),
		Forwards: numbers(n.setup.Forward),
		Trust:    n.setup.Trust,
	})
	if err != nil {
		return err
	}
	n.setup.Log.Debug().Bool("all_ports", inside.AllPorts).Msg("the command is sealed: connections to all ports, or to those in run.ports, come to the proxy")
	n.inside = inside
	n.failed = make(chan error, 1+len(inside.Caught))
	ctx, n.stop = context.WithCancel(context.Background())
	n.serving.Go(func() { n.failed <- server.Serve(inside.Proxy) })
	for _, l := range inside.Caught {
		n.serving.Go(func() { n.failed <- server.ServeTransparent(l) })
	}
	for port, l := range inside.Forwards {
		n.serving.Go(func() { forward(ctx, l, fmt.Sprintf("127.0.0.1:%d", port), n.setup.Log) })
	}
	n.serveNames(ctx)
	return nil
}

// resolvConf names the machine's own nameservers.
const resolvConf = "/etc/resolv.conf"

func (n *Network) serveNames(ctx context.Context) {
	text, _ := os.ReadFile(resolvConf) // without it, other types than addresses are not answered
	server := &names.Server{
		Resolver:    n.allow,
		Nameservers: names.Nameservers(string(text)),
		StandIns:    n.standIns,
		OnPanic: func(cause any) {
			n.setup.Log.Error().Interface("panic", cause).Msg("the question for a name was given up")
		},
	}
	for _, socket := range n.inside.NameSockets {
		n.serving.Go(func() { server.ServePackets(ctx, socket) })
	}
	for _, l := range n.inside.NameListeners {
		n.serving.Go(func() { server.ServeConns(ctx, l) })
	}
}

// Close ends all that is served and closes the network's sockets. Callers must have shut the
// server down. The error is what ended a door before that.
func (n *Network) Close() error {
	if n.inside == nil {
		return nil
	}
	n.stop()
	err := n.inside.Close()
	n.serving.Wait()
	close(n.failed)
	for failure := range n.failed {
		err = errors.Join(err, failure)
	}
	return err
}
