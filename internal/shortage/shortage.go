// Package shortage tells what this machine is short of from what an origin does. A
// request that fails for want of a descriptor, of memory, of a port or of a network
// says nothing about the origin that it was for.
package shortage

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
)

// ErrConnections says that the process has as many connections as its limit on open
// files leaves room for.
var ErrConnections = errors.New("as many connections are open as the limit on open files leaves room for")

// descriptors are the errors for want of a descriptor: of the process and of the machine.
var descriptors = []error{ErrConnections, syscall.EMFILE, syscall.ENFILE}

// others are those for want of memory, of a free local port, and of a network. A host
// that does not answer on a network that there is (EHOSTUNREACH) is not among them.
var others = []error{syscall.ENOMEM, syscall.ENOBUFS, syscall.EADDRNOTAVAIL, syscall.ENETUNREACH, syscall.ENETDOWN}

// Is reports whether err, from a request to an origin, comes of a shortage of this
// machine's.
func Is(err error) bool {
	return OfDescriptors(err) || slices.ContainsFunc(others, func(want error) bool { return is(err, want) })
}

// OfDescriptors reports whether err comes of a shortage of file descriptors.
func OfDescriptors(err error) bool {
	return slices.ContainsFunc(descriptors, func(want error) bool { return is(err, want) })
}

// OfNetwork reports whether err comes of this machine's having no network that leads
// to the address.
func OfNetwork(err error) bool { return is(err, syscall.ENETUNREACH) || is(err, syscall.ENETDOWN) }

// is is errors.Is, which does not see into the failure of a resolver: package net
// keeps only its text.
func is(err, want error) bool {
	if errors.Is(err, want) {
		return true
	}
	lookup, ok := errors.AsType[*net.DNSError](err)
	return ok && strings.HasSuffix(lookup.Err, want.Error())
}
