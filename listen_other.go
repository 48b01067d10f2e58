//go:build !linux

package main

import "net"

// listenConfig is package net's own.
func listenConfig() *net.ListenConfig { return &net.ListenConfig{} }
