// Package conntest makes and serves TCP connections for tests.
package conntest

import (
	"io"
	"net"
	"net/http"
	"sync"
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

// Serve listens at a TCP address until the test ends, and calls serve for each connection, which
// it closes then. It returns the address, with the port that it got for port 0. Connections may
// outlive the test if their other ends do.
func Serve(t testing.TB, address string, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	t.Cleanup(func() { l.Close(); <-ended })
	return l.Addr().String()
}

// Join carries what comes on each of two connections to the other, until one of them ends. It
// closes both.
func Join(a, b net.Conn) {
	var ways sync.WaitGroup
	carry := func(to, from net.Conn) {
		io.Copy(to, from)
		to.Close()
	}
	ways.Go(func() { carry(a, b) })
	ways.Go(func() { carry(b, a) })
	ways.Wait()
}

// Tunnel answers a CONNECT as a parent proxy does, but leads the client to an address of the
// test's choice.
func Tunnel(w http.ResponseWriter, address string) {
	up, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	down, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		up.Close()
		return
	}
	io.WriteString(down, "HTTP/1.1 200 OK\r\n\r\n")
	Join(up, down)
}
