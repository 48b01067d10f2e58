package cli

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// vanishing is how a client that has vanished is noticed, as package net has it: after
// so long without a word it is asked, so often, so many times.
const (
	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 15 * time.Second
	keepAliveCount    = 9
)

// listenConfig has the system notice clients that have vanished. The options are set
// once, on the listener, from which connections have them on Linux: package net sets
// them on each, by four calls to the system.
func listenConfig() *net.ListenConfig {
	set := func(fd uintptr) error {
		return errors.Join(
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, int(keepAliveIdle.Seconds())),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, int(keepAliveInterval.Seconds())),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, keepAliveCount),
		)
	}
	return &net.ListenConfig{
		KeepAlive: -1, // package net sets nothing
		Control: func(_, _ string, conn syscall.RawConn) error {
			var failed error
			if err := conn.Control(func(fd uintptr) { failed = set(fd) }); err != nil {
				return err
			}
			return failed
		},
	}
}
