//go:build !linux

package listen

import (
	"errors"
	"net"
	"os"
)

// ReusePortSupported reports whether processes can share a port on this system, and leave it
// to each other.
const ReusePortSupported = false

// listenConfig has package net's defaults.
func listenConfig(bool) *net.ListenConfig { return &net.ListenConfig{} }

// isListening takes it for granted: what Accept says will tell.
func isListening(*os.File) bool { return true }

func steer(*net.TCPListener, uint32) error { return errors.ErrUnsupported }

func forgetSteering(*net.TCPListener) {}
