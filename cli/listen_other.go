//go:build !linux

package cli

import "net"

// listenConfig is package net's own.
func listenConfig() *net.ListenConfig { return &net.ListenConfig{} }
