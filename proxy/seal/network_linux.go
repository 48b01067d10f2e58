package seal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"robotsproxy/internal/nfexpr"
)

// loopbackIndex is the number of lo in every network namespace.
const loopbackIndex = 1

func loopbackUp() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}

// makeAddressesLocal adds routes by which every address is one of this machine, so that
// the kernel delivers here what is for anywhere. Without IPv6, its addresses stay
// unreachable.
func makeAddressesLocal() error {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := addLocalRoute(conn, unix.AF_INET, unix.RT_SCOPE_HOST); err != nil {
		return err
	}
	if err := addAddress(conn, dummy4); err != nil || !hasIPv6() {
		return err
	}
	if err := addLocalRoute(conn, unix.AF_INET6, unix.RT_SCOPE_UNIVERSE); err != nil {
		return err
	}
	return addAddress(conn, dummy6)
}

// Where an interface has no address of a family but loopback, resolvers find none of that
// family either for clients that ask for what the machine can use (AI_ADDRCONFIG of
// getaddrinfo(3)). So lo gets one of each, which no site can have (RFC 7600, RFC 3879). The
// scope of fec0::1 is too small for sites, so that clients try IPv4 first (RFC 6724): they
// can't see whether the machine outside has IPv6.
var (
	dummy4 = netip.MustParseAddr("192.0.0.8")
	dummy6 = netip.MustParseAddr("fec0::1")
)

// addAddress gives the loopback interface another address (rtnetlink(7)).
func addAddress(conn *netlink.Conn, address netip.Addr) error {
	attributes := netlink.NewAttributeEncoder()
	attributes.Bytes(unix.IFA_LOCAL, address.AsSlice())
	attributes.Bytes(unix.IFA_ADDRESS, address.AsSlice())
	encoded, err := attributes.Encode()
	if err != nil {
		return err
	}
	family := byte(unix.AF_INET)
	if address.Is6() {
		family = unix.AF_INET6
	}
	// A struct ifaddrmsg.
	message := []byte{family, byte(address.BitLen()), 0, unix.RT_SCOPE_UNIVERSE}
	message = binary.NativeEndian.AppendUint32(message, loopbackIndex)
	_, err = conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_NEWADDR, Flags: netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Excl},
		Data:   append(message, encoded...),
	})
	return err
}

// hasIPv6 reports whether the loopback interface has its IPv6 address.
func hasIPv6() bool {
	socket, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(socket)
	return unix.Bind(socket, &unix.SockaddrInet6{Addr: netip.IPv6Loopback().As16()}) == nil
}

// addLocalRoute adds a default route of type local (rtnetlink(7)).
func addLocalRoute(conn *netlink.Conn, family, scope uint8) error {
	attributes := netlink.NewAttributeEncoder()
	attributes.Uint32(unix.RTA_OIF, loopbackIndex)
	encoded, err := attributes.Encode()
	if err != nil {
		return err
	}
	// A struct rtmsg; the length of the destination is 0.
	message := []byte{family, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, scope, unix.RTN_LOCAL, 0, 0, 0, 0}
	_, err = conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_NEWROUTE, Flags: netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Excl},
		Data:   append(message, encoded...),
	})
	return err
}

// sockets are those that go to the parent.
type sockets struct {
	roles       []socket
	descriptors []int
}

// open opens the sockets that there are in any case.
func (s *sockets) open(o Options) error {
	if o.Proxy.IsValid() {
		if _, err := s.listen(socket{Role: roleProxy}, o.Proxy); err != nil {
			return err
		}
	}
	for _, port := range o.Forwards {
		address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
		if _, err := s.listen(socket{roleForward, port}, address); err != nil {
			return err
		}
	}
	for _, any := range anyAddresses() {
		address := netip.AddrPortFrom(any, nfexpr.DNS)
		if _, err := s.listen(socket{Role: roleNameListener}, address); err != nil {
			return err
		}
		if err := s.listenPackets(address); err != nil {
			return err
		}
	}
	return nil
}

// anyAddresses are the wildcard addresses of the families that this machine has.
func anyAddresses() []netip.Addr {
	if hasIPv6() {
		return []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	return []netip.Addr{netip.IPv4Unspecified()}
}

// openPorts listens on ports of all addresses, port 53 aside, which open has opened.
func (s *sockets) openPorts(ports []uint16) error {
	for _, port := range ports {
		if port == nfexpr.DNS {
			continue
		}
		for _, any := range anyAddresses() {
			if _, err := s.listen(socket{rolePort, port}, netip.AddrPortFrom(any, port)); err != nil {
				return err
			}
		}
	}
	return nil
}

// listen opens a listener, and returns its port. Several may have the same port: the
// one with the more specific address gets the connection.
func (s *sockets) listen(as socket, address netip.AddrPort) (port uint16, err error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return setOptions(c, unix.SOL_SOCKET, unix.SO_REUSEPORT)
	}}
	config.SetMultipathTCP(false) // the kernel does not tell where such connections were to go
	// A network without a number would open a socket for both families.
	network := "tcp4"
	if address.Addr().Is6() {
		network = "tcp6"
	}
	l, err := config.Listen(context.Background(), network, address.String())
	if err != nil {
		return 0, err
	}
	defer l.Close() // its duplicate stays
	return l.Addr().(*net.TCPAddr).AddrPort().Port(), s.add(as, l.(*net.TCPListener))
}

// listenPackets opens a UDP socket that says with each packet to which address it came.
// It can send from that address, although no interface has it.
func (s *sockets) listenPackets(address netip.AddrPort) error {
	network, level, options := "udp4", unix.IPPROTO_IP, []int{unix.IP_PKTINFO}
	if address.Addr().Is6() {
		network, level, options = "udp6", unix.IPPROTO_IPV6, []int{unix.IPV6_RECVPKTINFO, unix.IPV6_FREEBIND}
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return setOptions(c, level, options...)
	}}
	conn, err := config.ListenPacket(context.Background(), network, address.String())
	if err != nil {
		return err
	}
	defer conn.Close() // its duplicate stays
	return s.add(socket{Role: roleNameSocket}, conn.(*net.UDPConn))
}

func setOptions(c syscall.RawConn, level int, options ...int) error {
	var err error
	controlErr := c.Control(func(fd uintptr) {
		for _, o := range options {
			err = errors.Join(err, unix.SetsockoptInt(int(fd), level, o, 1))
		}
	})
	return errors.Join(controlErr, err)
}

func (s *sockets) add(as socket, of syscall.Conn) error {
	raw, err := of.SyscallConn()
	if err != nil {
		return err
	}
	controlErr := raw.Control(func(fd uintptr) {
		var duplicate int
		if duplicate, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			s.roles = append(s.roles, as)
			s.descriptors = append(s.descriptors, duplicate)
		}
	})
	return errors.Join(controlErr, err)
}

// redirectAll has the kernel redirect all TCP connections that are not to loopback or
// port 53 to listeners of ours. After an error there are neither listeners nor rules.
func (s *sockets) redirectAll() error {
	opened := len(s.roles)
	undo := func(err error) error {
		for _, d := range s.descriptors[opened:] {
			unix.Close(d)
		}
		s.roles, s.descriptors = s.roles[:opened], s.descriptors[:opened]
		return err
	}
	ports := make([]uint16, 2)
	for i, any := range anyAddresses() {
		// The kernel redirects to the loopback address of the same family.
		loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if any.Is6() {
			loopback = netip.IPv6Loopback()
		}
		var err error
		if ports[i], err = s.listen(socket{Role: roleCaught}, netip.AddrPortFrom(loopback, 0)); err != nil {
			return undo(err)
		}
	}
	if err := addRedirectRules(ports[0], ports[1]); err != nil {
		return undo(fmt.Errorf("adding nf_tables rules: %w", err))
	}
	// Without this, a command that makes thousands of connections a second would fill
	// the kernel's table. Most commands don't, so nothing depends on it.
	os.WriteFile(endedConnections, []byte("1"), 0)
	return nil
}

// endedConnections sets for how many seconds the kernel remembers, for its redirections,
// a TCP connection that has ended; 120 by default. Each network has its own.
const endedConnections = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait"

// addRedirectRules redirects IPv4 to one port and IPv6 to another; 0 leaves a family
// alone.
func addRedirectRules(port4, port6 uint16) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := conn.AddTable(&nftables.Table{Name: "seal", Family: nftables.TableFamilyINet})
	chain := conn.AddChain(&nftables.Chain{
		Name: "output", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest,
	})
	rule := func(parts ...[]expr.Any) {
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: slices.Concat(parts...)})
	}
	isTCP := nfexpr.Protocol(unix.IPPROTO_TCP)
	rule(nfexpr.ToPort(unix.IPPROTO_TCP, nfexpr.DNS), nfexpr.Accept())
	if port4 != 0 {
		rule(nfexpr.ToLoopback4(), nfexpr.Accept())
		rule(nfexpr.IPv4(), isTCP, nfexpr.RedirectTo(port4))
	}
	if port6 != 0 {
		rule(nfexpr.ToLoopback6(), nfexpr.Accept())
		rule(nfexpr.IPv6(), isTCP, nfexpr.RedirectTo(port6))
	}
	return conn.Flush()
}
