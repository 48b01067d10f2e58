package child

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// connections makes n connections to a listener and returns the clients' ends.
func connections(t testing.TB, network, address string, n int) (clients []net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for range n {
		client, err := net.Dial(network, net.JoinHostPort(address, port))
		must(t, err)
		t.Cleanup(func() { client.Close() })
		server, err := l.Accept()
		must(t, err)
		t.Cleanup(func() { server.Close() })
		clients = append(clients, client)
	}
	return clients
}

func ends(conn net.Conn) (client, server netip.AddrPort) {
	return conn.LocalAddr().(*net.TCPAddr).AddrPort(), conn.RemoteAddr().(*net.TCPAddr).AddrPort()
}

func TestSocketOwner(t *testing.T) {
	owner := func(client, server netip.AddrPort) string {
		uid, err := socketOwner(client, server)
		if err != nil {
			return err.Error()
		}
		return strconv.Itoa(int(uid))
	}
	own := strconv.Itoa(os.Geteuid())
	conns := connections(t, "tcp", "127.0.0.1", 3)
	client, server := ends(conns[0])
	if got := owner(client, server); got != own {
		t.Errorf("open connection: got %s, want %s", got, own)
	}
	if got := owner(netip.AddrPortFrom(netip.AddrFrom16(client.Addr().As16()), client.Port()), server); got != own {
		t.Errorf("address in IPv6 notation: got %s, want %s", got, own)
	}
	must(t, conns[0].(*net.TCPConn).CloseWrite())
	if got := owner(client, server); got != own {
		t.Errorf("half-closed connection: got %s, want %s", got, own)
	}
	const closed = "the connection has been closed"
	must(t, conns[0].Close())
	if got := owner(client, server); got != closed {
		t.Errorf("closed connection: got %s, want %s", got, closed)
	}
	client, server = ends(conns[1])
	if got := owner(netip.AddrPortFrom(client.Addr(), 1), server); got != closed {
		t.Errorf("no such connection: got %s, want %s", got, closed)
	}
	if got := owner(server, netip.AddrPortFrom(client.Addr(), 1)); got != closed {
		t.Errorf("the server's end: got %s, want %s", got, closed)
	}
	if got := owner(netip.MustParseAddrPort("[::1]:80"), server); !strings.Contains(got, "IPv4") {
		t.Errorf("IPv6: got %s, want an error that names IPv4", got)
	}
}

// Java's clients, among others, speak IPv4 over an IPv6 socket.
func TestOwnerOfDualStackSocket(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	server := l.Addr().(*net.TCPAddr).AddrPort()
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Connect(fd, &unix.SockaddrInet6{Addr: server.Addr().As16(), Port: int(server.Port())}))
	name, err := unix.Getsockname(fd)
	must(t, err)
	client := netip.AddrPortFrom(server.Addr(), uint16(name.(*unix.SockaddrInet6).Port))
	if uid, err := socketOwner(client, server); err != nil || int(uid) != os.Geteuid() {
		t.Errorf("got user %d, %v, want %d", uid, err, os.Geteuid())
	}
}

// A user counts only as long as one of the user's processes descends from this one.
func TestUsersOfDescendants(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may run a command as another user")
	}
	const uid = 65531
	if slices.Contains(descendantUsers(os.Getpid()), uid) {
		t.Fatal("user 65531 has a process before the test starts one")
	}
	child := exec.Command("sh", "-c", "setpriv --reuid=65531 --clear-groups sh -c 'echo ready; read line'; read line")
	input, err := child.StdinPipe()
	must(t, err)
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // the grandchild runs
		t.Fatal(err)
	}
	if !slices.Contains(descendantUsers(os.Getpid()), uid) {
		t.Error("the user of a grandchild is missing")
	}
	if slices.Contains(descendantUsers(1<<30), uid) {
		t.Error("a process that does not exist has the user too")
	}
	io.WriteString(input, "\n\n")
	must(t, child.Wait())
	if slices.Contains(descendantUsers(os.Getpid()), uid) {
		t.Error("the user still counts after the process has ended")
	}
}

// BenchmarkSocketOwner measures a look-up among a few connections and among many.
func BenchmarkSocketOwner(b *testing.B) {
	for _, n := range []int{1, 400} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			client, server := ends(connections(b, "tcp", "127.0.0.1", n)[n/2])
			for b.Loop() {
				socketOwner(client, server)
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
