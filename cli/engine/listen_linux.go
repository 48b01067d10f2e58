package engine

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// TCP keep-alive finds clients that have vanished. The values are package net's defaults.
const (
	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 15 * time.Second
	keepAliveCount    = 9
)

// listenConfig turns TCP keep-alive on. It sets the options once, on the listener: on Linux
// connections inherit them. Package net would set them on each connection, by four system
// calls.
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
