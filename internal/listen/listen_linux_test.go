package listen

import (
	"net"
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
