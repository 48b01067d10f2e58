package loopback

import (
	"net"
	"net/netip"
	"testing"
)

// ends is a connection that has nothing but its two ends.
type ends struct {
	net.Conn
	local, remote netip.Addr
}

func (c ends) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.local, 8080)) }
func (c ends) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.remote, 4711))
}

// A link-local address means this machine on the link where it is this machine's. On
// another link it may be somebody else's.
func TestLinkLocalClients(t *testing.T) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().Is6() || !p.Addr().IsLinkLocalUnicast() {
			continue
		}
		this, other := p.Addr().WithZone("this"), p.Addr().WithZone("other")
		if err := Of(WithPeer(t.Context(), ends{local: this, remote: other})).Check(); err == nil {
			t.Error("another link's client is taken for one on this machine")
		}
		if err := Of(WithPeer(t.Context(), ends{local: this, remote: this})).Check(); err != nil {
			t.Error(err)
		}
		return
	}
	t.Skip("this machine has no link-local address that another could also have")
}
