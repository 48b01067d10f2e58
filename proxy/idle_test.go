package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"robotsproxy/internal/shortage"
)

// asSite is an environment variable that makes the test binary a site that sends back what
// it receives.
const asSite = "ROBOTSPROXY_TEST_SITE"

func beSite() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	go func() { // it ends with the test
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		conn, err := l.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}, make([]byte, 64))
			conn.Close()
		}()
	}
}

// siteElsewhere starts a site in a process of its own, and returns its address.
func siteElsewhere(t *testing.T) string {
	site := exec.Command(os.Args[0])
	site.Env = append(os.Environ(), asSite+"=1")
	site.Stderr = os.Stderr
	in, err := site.StdinPipe()
	must(t, err)
	out, err := site.StdoutPipe()
	must(t, err)
	must(t, site.Start())
	t.Cleanup(func() {
		in.Close()
		site.Wait()
	})
	var address string
	_, err = fmt.Fscanln(out, &address)
	must(t, err)
	return address
}

// near is a listener for clients in this process. They need no file descriptors, whose
// number is limited.
type near struct {
	net.Listener
	conns chan net.Conn
}

type nearConn struct {
	net.Conn
	addr net.Addr
}

func (c nearConn) RemoteAddr() net.Addr { return c.addr }

func (l near) Accept() (net.Conn, error) {
	conn, open := <-l.conns
	if !open {
		return nil, net.ErrClosed
	}
	return nearConn{conn, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}}, nil
}

func (l near) Close() error { return nil }

func (l near) Addr() net.Addr { return &net.TCPAddr{} }

func TestIdleTunnels(t *testing.T) {
	const many = 10_000
	if files := shortage.Descriptors(); files < many+500 {
		t.Skipf("a process may have only %d files; raise that to %d by ulimit -n", files, many+500)
	}
	w := unreadWorld(t, newSays("404"))
	site := siteElsewhere(t)
	l := near{conns: make(chan net.Conn)}
	served := make(chan error, 1)
	go func() { served <- w.server.Serve(l) }()
	t.Cleanup(func() {
		close(l.conns)
		<-served
	})
	memory := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before := memory()
	begun := time.Now()
	clients := make([]net.Conn, many)
	for i := range clients {
		client, server := net.Pipe()
		clients[i] = client
		l.conns <- server
		_, err := io.WriteString(client, "CONNECT "+site+" HTTP/1.1\r\nHost: x\r\n\r\n")
		must(t, err)
		if line, err := bufio.NewReaderSize(client, 64).ReadString('\n'); err != nil || line != "HTTP/1.1 200 Connection established\r\n" {
			t.Fatalf("tunnel %d: %q, %v", i, line, err)
		}
		echoed(t, client)
	}
	w.gauge("robotsproxy_tunnels", many)
	each := int64(memory()-before) / many
	t.Logf("%d tunnels were opened in %v; each takes %d KiB, its client included", many, time.Since(begun), each>>10)
	if each > 24<<10 {
		t.Errorf("an idle tunnel takes %d KiB", each>>10)
	}
	for i, client := range clients { // they have not been forgotten
		if i%100 == 0 {
			echoed(t, client)
		}
		client.Close()
	}
	w.gauge("robotsproxy_tunnels", 0)
}

// echoed sends something through a tunnel to a site that sends it back.
func echoed(t *testing.T, client net.Conn) {
	t.Helper()
	client.SetDeadline(time.Now().Add(testTimeout))
	echo := make([]byte, 2)
	io.WriteString(client, "hi")
	if _, err := io.ReadFull(client, echo); err != nil || string(echo) != "hi" {
		t.Fatalf("%q, %v", echo, err)
	}
}
