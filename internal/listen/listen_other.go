//go:build !linux

package listen

import (
	"errors"
	"net"
)

// ReusePortSupported reports whether processes can share a port on this system, and leave it
// to each other.
const ReusePortSupported = false

// listenConfig has package net's defaults.
func listenConfig(bool) *net.ListenConfig { return &net.ListenConfig{} }

func steer(*net.TCPListener, uint32) error { return errors.ErrUnsupported }

func forgetSteering(*net.TCPListener) {}
