// Package seal gives a command a network of its own, from which every way leads to this
// process and none leads out. It needs Linux with unprivileged user namespaces, and no
// rights of root.
//
// A program that seals calls [Main] first in its main function. It then starts the
// command with [Start] in place of [exec.Cmd.Start]; everything else about the
// exec.Cmd stays as it is: the process is the command's own, with its standard files,
// folder, process group, terminal and signals. Start returns the [Network], whose
// sockets lie in the command's network and are served in this process:
//
//   - Each TCP connection to an address that is not loopback arrives at a listener in
//     Caught, with the address that the command wanted as its LocalAddr.
//   - Packets and connections to port 53 of any address arrive at NameSockets and
//     NameListeners; package names answers them.
//   - The explicit proxy address and the forwarded ports have listeners of their own.
//
// Everything else is refused by the kernel: other UDP, ICMP, raw sockets, changes to the
// network. The command's own connections to 127.0.0.0/8 and ::1 stay inside.
//
// In its mount namespace the command also finds the caller's CA in the files where
// programs look for roots, and nothing behind the Unix sockets that lead out. Its user
// namespace holds its user and group alone: files of others show as nobody's, and
// programs like sudo give no rights. The command has no capability; one that root runs
// may therefore touch the files that root owns, and no others.
//
// What stays possible: a process outside that does what a file, a pipe, an inherited
// descriptor, a terminal or another Unix socket asks of it; what the files that root owns
// allow to a command that root runs; and, in a virtual machine, the sockets that lead to
// its host alone (vsock(7)), which have no namespaces.
package seal

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"

	"robotsproxy/proxy/seal/cover"
)

// Options say what a sealed command finds inside.
type Options struct {
	// Proxy is the loopback address of a proxy that clients use by their own choice.
	// The zero value makes none.
	Proxy netip.AddrPort
	// Ports are the TCP ports on which connections are caught where the kernel doesn't
	// let all be caught. The kernel refuses connections to others. Inside, the command
	// can't listen on these ports itself.
	Ports []uint16
	// Forwards are ports that the command finds at 127.0.0.1.
	Forwards []uint16
	Trust    cover.Trust

	// onlyPorts catches connections on Ports alone.
	onlyPorts bool
}

// MaxPorts bounds Ports and Forwards together, since one message can carry 253 sockets.
const MaxPorts = 100

func (o Options) validate() error {
	if len(o.Ports)+len(o.Forwards) > MaxPorts {
		return fmt.Errorf("a sealed command can have at most %d ports", MaxPorts)
	}
	if slices.Contains(o.Ports, 0) || slices.Contains(o.Forwards, 0) {
		return errors.New("a sealed command can't have port 0")
	}
	if o.Proxy.IsValid() && !o.Proxy.Addr().IsLoopback() {
		return fmt.Errorf("the proxy's address in a sealed network is %s, which is not loopback", o.Proxy)
	}
	return nil
}

// A Network holds the sockets of one sealed command's network. Its fields must not be
// changed. The network lasts until the command and all its children have ended and
// Close was called.
type Network struct {
	// Caught listen for the connections that the command believes to go elsewhere. They
	// accept connections with all methods of a [net.TCPConn]. LocalAddr is the address
	// that the command wanted, never a loopback address; RemoteAddr is a loopback address.
	Caught []net.Listener
	// AllPorts reports whether Caught catch connections to all ports, or only to
	// Options.Ports.
	AllPorts bool
	// Proxy listens at Options.Proxy; nil if there is none.
	Proxy net.Listener
	// Forwards listen at 127.0.0.1, by port.
	Forwards map[uint16]net.Listener
	// NameSockets get the packets to port 53 of every address. An answer that is sent with the
	// control message that came with the query comes from the address that was asked.
	NameSockets []*net.UDPConn
	// NameListeners accept the TCP connections to port 53 of every address.
	NameListeners []net.Listener
	// Warnings are sentences about what could not be had, although the command is
	// sealed: a browser's policies, for instance.
	Warnings []string
}

// Close closes the sockets that are still open. From then on all connections of the
// command fail.
func (n *Network) Close() error {
	sockets := []io.Closer{}
	for _, l := range slices.Concat(n.Caught, n.NameListeners, slices.Collect(maps.Values(n.Forwards))) {
		sockets = append(sockets, l)
	}
	for _, s := range n.NameSockets {
		sockets = append(sockets, s)
	}
	if n.Proxy != nil {
		sockets = append(sockets, n.Proxy)
	}
	var errs []error
	for _, s := range sockets {
		if err := s.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
