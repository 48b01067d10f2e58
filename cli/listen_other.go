//go:build !linux

package cli

import "net"

// listenConfig has package net's defaults.
func listenConfig() *net.ListenConfig { return &net.ListenConfig{} }
