package upstream

import (
	"net"
	"net/netip"
	"testing"

	"robotsproxy/internal/loopback"
	"robotsproxy/robots"
)

// The other end of a connection can tell that it is the transport's own, until it is closed.
func TestIsOwn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	transport, err := NewTransport(Defaults())
	if err != nil {
		t.Fatal(err)
	}
	ctx := loopback.With(t.Context(), loopback.Here)
	origin, err := robots.ParseOrigin("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := transport.Dial(ctx, origin)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	from, to := accepted.RemoteAddr().(*net.TCPAddr).AddrPort(), accepted.LocalAddr().(*net.TCPAddr).AddrPort()
	if !transport.IsOwn(from, to) {
		t.Error("an open connection is not known")
	}
	elsewhere := netip.MustParseAddr("192.0.2.1")
	if transport.IsOwn(netip.AddrPortFrom(elsewhere, from.Port()), to) || transport.IsOwn(from, netip.AddrPortFrom(elsewhere, to.Port())) {
		t.Error("another connection is taken for it")
	}
	conn.Close()
	if transport.IsOwn(from, to) {
		t.Error("a closed connection is known")
	}
}
