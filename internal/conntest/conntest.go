// Package conntest makes TCP connections for tests.
package conntest

import (
	"net"
	"testing"
)

// Through returns both ends of a new connection to l, a listener of TCP at an address of this
// machine. They are closed when the test ends.
func Through(t testing.TB, l net.Listener) (client, server *net.TCPConn) {
	t.Helper()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close() })
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return dialled.(*net.TCPConn), accepted.(*net.TCPConn)
}
