package listen

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ReusePortSupported reports whether processes can share a port on this system, and leave it
// to each other.
const ReusePortSupported = true

// TCP keep-alive finds clients that have vanished. The values are package net's defaults.
const (
	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 15 * time.Second
	keepAliveCount    = 9
)

// listenConfig turns TCP keep-alive on. It sets the options once, on the listener: on Linux
// connections inherit them. Package net would set them on each connection, by four system
// calls.
func listenConfig(reusePort bool) *net.ListenConfig {
	reuse := 0
	if reusePort {
		reuse = 1
	}
	set := func(fd uintptr) error {
		return errors.Join(
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, unix.SO_REUSEPORT, reuse),
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, int(keepAliveIdle.Seconds())),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, int(keepAliveInterval.Seconds())),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, keepAliveCount),
		)
	}
	return &net.ListenConfig{
		KeepAlive: -1, // package net sets nothing
		Control:   func(_, _ string, conn syscall.RawConn) error { return control(conn, set) },
	}
}

// control calls set with the descriptor of a socket.
func control(conn syscall.RawConn, set func(fd uintptr) error) error {
	var failed error
	if err := conn.Control(func(fd uintptr) { failed = set(fd) }); err != nil {
		return err
	}
	return failed
}

// isListening reports whether a file is a socket that listens, as those of TCP do, and those of
// UDP do not.
func isListening(file *os.File) bool {
	is, err := unix.GetsockoptInt(int(file.Fd()), unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	return err == nil && is != 0
}

// steer has the kernel give all new connections of a shared port to one of its listeners, by
// its position among them: 0 is the one that began first. When a listener is closed, the last
// one takes its position. If there is no such position, the kernel chooses as it would without
// steer.
func steer(l *net.TCPListener, position uint32) error {
	conn, err := l.SyscallConn()
	if err != nil {
		return err
	}
	choose := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: position}}
	return control(conn, func(fd uintptr) error {
		return unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF,
			&unix.SockFprog{Len: uint16(len(choose)), Filter: &choose[0]})
	})
}

// forgetSteering ends what a process that has left the port has steered.
func forgetSteering(l *net.TCPListener) {
	if conn, err := l.SyscallConn(); err == nil {
		control(conn, func(fd uintptr) error { // the error says that nothing was steered
			return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_REUSEPORT_BPF, 0)
		})
	}
}
