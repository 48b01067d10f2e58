package listen

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"robotsproxy/internal/conntest"
)

// Accepted connections have the keep-alive options that package net would set.
func TestAcceptedConnectionsHaveKeepAlive(t *testing.T) {
	listeners, err := Open(false)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := listeners.Listen(Place{Key: "listen", Address: "127.0.0.1:0", Remedy: "--listen"})
	if err != nil {
		t.Fatal(err)
	}
	l := opened[0]
	defer l.Close()
	usual, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer usual.Close()
	for name, option := range map[string][2]int{
		"SO_KEEPALIVE":  {syscall.SOL_SOCKET, syscall.SO_KEEPALIVE},
		"TCP_KEEPIDLE":  {syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE},
		"TCP_KEEPINTVL": {syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL},
		"TCP_KEEPCNT":   {syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT},
	} {
		got, want := accepted(t, l, option), accepted(t, usual, option)
		if got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}

// accepted returns a socket option of a connection that l has accepted.
func accepted(t *testing.T, l net.Listener, option [2]int) (value int) {
	t.Helper()
	_, conn := conntest.Through(t, l)
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { value, err = syscall.GetsockoptInt(int(fd), option[0], option[1]) })
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// A socket that is passed must listen: the proxy would else say that it serves, and end.
func TestOnlyListeningSocketsAreTaken(t *testing.T) {
	for kind, want := range map[int]string{syscall.SOCK_STREAM: "takes no connections", syscall.SOCK_DGRAM: "takes no connections"} {
		fd, err := syscall.Socket(syscall.AF_INET, kind, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			t.Fatal(err)
		}
		if l, err := listenerOf(os.NewFile(uintptr(fd), "listen")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("kind %d: %v, %v", kind, l, err)
		}
	}
}

// A socket that is passed for a place under another name is not reported as another program's.
func TestSocketWithoutItsName(t *testing.T) {
	passed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Listeners{passed: map[string][]*net.TCPListener{"robotsproxy.socket": {passed.(*net.TCPListener)}}}
	defer l.Close()
	_, err = l.Listen(Place{Key: "listen", Address: passed.Addr().String(), Remedy: "--listen"})
	if err == nil || !strings.Contains(err.Error(), "robotsproxy.socket: write FileDescriptorName=listen") {
		t.Errorf("error %v", err)
	}
}
