package redirected

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"

	"robotsproxy/internal/conntest"
)

func TestConnectionsHaveTheAddressThatWasWanted(t *testing.T) {
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	wanted := []netip.AddrPort{{}, {}, netip.MustParseAddrPort("192.0.2.1:443"), netip.MustParseAddrPort("[2001:db8::1]:80")}
	l := Listener{TCPListener: tcp, Destination: func(*net.TCPConn) (netip.AddrPort, error) {
		next := wanted[0]
		wanted = wanted[1:]
		if !next.IsValid() {
			return next, ErrNotRedirected
		}
		return next, nil
	}}
	defer l.Close()
	var clients []net.Conn
	for range wanted {
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		clients = append(clients, client)
	}
	for _, want := range []string{"192.0.2.1:443", "[2001:db8::1]:80"} {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got := conn.LocalAddr().String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if !conn.RemoteAddr().(*net.TCPAddr).IP.IsLoopback() {
			t.Errorf("a client on this machine has the address %v", conn.RemoteAddr())
		}
	}
	for _, c := range clients[:2] {
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("got %v, want a reset", err)
		}
	}
}

func TestConnectionByItself(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Log("needs IPv6:", err)
			continue
		}
		defer l.Close()
		_, conn := conntest.Through(t, l)
		if destination, err := Original(conn); err == nil {
			t.Errorf("%s: got %v, want an error", address, destination)
		}
	}
}
