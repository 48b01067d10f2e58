package coalesce

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"robotsproxy/certs"
	"robotsproxy/internal/conntest"
)

// pieces keeps what a connection is asked to send, call by call.
type pieces struct {
	net.Conn
	sent []string
}

func (p *pieces) Write(b []byte) (int, error) {
	p.sent = append(p.sent, string(b))
	return p.Conn.Write(b)
}

func TestConnSendsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		p := &pieces{Conn: near}
		g := New(p)
		io.WriteString(g, "the first goes alone,")
		synctest.Wait() // it is being sent
		for _, piece := range []string{" what", " comes", " meanwhile", " together"} {
			if _, err := io.WriteString(g, piece); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, 100)
		n, _ := io.ReadAtLeast(far, got, len("the first goes alone, what comes meanwhile together"))
		if string(got[:n]) != "the first goes alone, what comes meanwhile together" {
			t.Errorf("it sends %q", got[:n])
		}
		if len(p.sent) != 2 || p.sent[1] != " what comes meanwhile together" {
			t.Errorf("it is sent as %q", p.sent)
		}
	})
}

func TestConnSendsAll(t *testing.T) {
	near, far := connected(t)
	want := make([]byte, 1<<20)
	for i := range want {
		want[i] = byte(rand.Uint32())
	}
	go func() {
		g := New(near)
		for rest := want; len(rest) > 0; {
			n := min(rand.IntN(100<<10), len(rest))
			if _, err := g.Write(rest[:n]); err != nil {
				t.Error(err)
			}
			rest = rest[n:]
		}
	}()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("it does not send what is written (%v)", err)
	}
}

// A TLS connection is closed right after its last words, which must not be lost.
func TestConnUnderTLS(t *testing.T) {
	config := &tls.Config{Certificates: []tls.Certificate{*aLeaf(t)}}
	for range 50 {
		near, far := connected(t)
		go func() {
			server := tls.Server(New(near), config)
			server.Write(make([]byte, 100<<10))
			server.Close()
		}()
		got, err := io.ReadAll(tls.Client(far, &tls.Config{InsecureSkipVerify: true}))
		if err != nil || len(got) != 100<<10 {
			t.Fatalf("%d octets have come, %v", len(got), err)
		}
	}
}

// An origin gets to know why its certificate is refused.
func TestConnAlert(t *testing.T) {
	config := &tls.Config{Certificates: []tls.Certificate{*aLeaf(t)}}
	for range 50 {
		near, far := connected(t)
		go func() {
			client := tls.Client(New(near), &tls.Config{ServerName: "a.example", RootCAs: x509.NewCertPool()})
			client.Handshake()
			client.Close()
		}()
		err := tls.Server(far, config).Handshake()
		if err == nil || !strings.Contains(err.Error(), "bad certificate") {
			t.Fatalf("the origin gets: %v", err)
		}
	}
}

func TestConnUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		g := New(near)
		var written int
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			written, err = g.Write(make([]byte, 1<<20))
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Error("it holds a MiB that nobody reads")
		default:
		}
		g.Close()
		<-done
		if err == nil || written > 64<<10 {
			t.Errorf("of what nobody reads it takes %d octets, then: %v", written, err)
		}
	})
}

func TestConnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		g := New(near)
		began := time.Now()
		g.SetDeadline(began.Add(5 * time.Second))
		io.WriteString(g, "nobody reads this")
		g.SetWriteDeadline(time.Now())
		if waited := time.Since(began); waited != 5*time.Second {
			t.Errorf("what was written before has %v to be sent, want 5s", waited)
		}
		if _, err := io.WriteString(g, "nor this"); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the deadline: %v", err)
		}
	})
}

// aLeaf is a certificate for a.example that nobody trusts.
func aLeaf(t *testing.T) *tls.Certificate {
	t.Helper()
	ca, err := certs.Open(certs.Options{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Leaf("a.example")
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// connected are both ends of a connection on loopback.
func connected(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, near = conntest.Through(t, l)
	return near, far
}
