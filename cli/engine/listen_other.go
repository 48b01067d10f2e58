//go:build !linux

package engine

import "net"

// listenConfig has package net's defaults.
func listenConfig() *net.ListenConfig { return &net.ListenConfig{} }
