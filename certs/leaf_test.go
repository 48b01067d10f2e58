package certs

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

func TestLeaf(t *testing.T) {
	ca := open(t, Options{}, t.TempDir())
	long := strings.Repeat("a23456789.", 8) + "example"
	for _, test := range []struct{ host, dns, ip, commonName string }{
		{"example.com", "example.com", "", "example.com"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example", "", "xn--bcher-kva.example"},
		{"under_score.example", "under_score.example", "", "under_score.example"},
		{"localhost", "localhost", "", "localhost"},
		{long, long, "", ""},
		{"127.0.0.1", "", "127.0.0.1", "127.0.0.1"},
		{"::1", "", "::1", "::1"},
		{"2001:db8::1", "", "2001:db8::1", "2001:db8::1"},
	} {
		t.Run(test.host, func(t *testing.T) {
			cert := certificate(t, ca, test.host)
			var dns, ip string
			if len(cert.DNSNames) > 0 {
				dns = cert.DNSNames[0]
			}
			if len(cert.IPAddresses) > 0 {
				ip = cert.IPAddresses[0].String()
			}
			if dns != test.dns || ip != test.ip || cert.Subject.CommonName != test.commonName {
				t.Errorf("names %q, address %q, common name %q; want %q, %q, %q", dns, ip, cert.Subject.CommonName, test.dns, test.ip, test.commonName)
			}
			if !bytes.Equal(cert.AuthorityKeyId, ca.cert.SubjectKeyId) || len(cert.AuthorityKeyId) == 0 {
				t.Error("the authority key identifier is not the CA's")
			}
			if life := cert.NotAfter.Sub(cert.NotBefore); life >= 398*day {
				t.Errorf("it is valid for %v", life)
			}
			if !time.Now().Add(-time.Hour).After(cert.NotBefore) {
				t.Error("it is not backdated")
			}
		})
	}
}

func TestLeafIsSignedOnce(t *testing.T) {
	ca := open(t, Options{}, t.TempDir())
	certs := make([]*tls.Certificate, 50)
	var group sync.WaitGroup
	for i := range certs {
		group.Go(func() { certs[i], _ = ca.Leaf("example.com") })
	}
	group.Wait()
	for _, cert := range certs {
		if cert == nil || cert != certs[0] {
			t.Fatal("signed more than once")
		}
	}
}

func TestLeafIsRenewed(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	ca := open(t, Options{Now: func() time.Time { return now }}, dir)
	begin := now
	first := certificate(t, ca, "example.com")
	for _, step := range []struct {
		name    string
		at      time.Duration
		renewed bool
	}{
		{"young", leafLife / 2, false},
		{"near its end", leafLife - day, true},
		{"the clock is set back", 0, true},
		{"near the end of the CA", caLife - day, true},
		{"a little later", caLife - day + time.Hour, false},
		{"at the last hour", caLife - time.Hour, true},
	} {
		now = begin.Add(step.at)
		cert := certificate(t, ca, "example.com")
		if renewed := cert.SerialNumber.Cmp(first.SerialNumber) != 0; renewed != step.renewed {
			t.Errorf("%s: renewed %v", step.name, renewed)
		}
		if cert.NotAfter.After(ca.cert.NotAfter) || !cert.NotAfter.After(now) || !cert.NotBefore.Before(now) {
			t.Errorf("%s: valid from %v to %v, now %v", step.name, cert.NotBefore, cert.NotAfter, now)
		}
		first = cert
	}
	now = begin.Add(caLife + time.Hour)
	if _, err := ca.Leaf("example.com"); err == nil || !strings.Contains(err.Error(), "expired on") {
		t.Errorf("after the end of the CA: error %v", err)
	}
}

// A machine that sleeps, or whose clock is set, has a monotonic clock that knows
// nothing of it.
func TestLeafIsRenewedByWallTime(t *testing.T) {
	now := time.Now()
	ca := open(t, Options{Now: func() time.Time { return now }}, t.TempDir())
	first := certificate(t, ca, "example.com")
	now = jump(t, now, 100*day)
	if again := certificate(t, ca, "example.com"); !again.NotAfter.After(now) {
		t.Errorf("100 days on, the certificate is that of %v", first.NotBefore)
	}
}

// jump is a time whose wall clock has gone on by whole seconds, and its monotonic one
// not at all, as time.Now returns it after such a jump.
func jump(t *testing.T, from time.Time, by time.Duration) time.Time {
	t.Helper()
	to := from
	*(*uint64)(unsafe.Pointer(&to)) += uint64(by/time.Second) << 30 // package time: seconds are above 30 bits of nanoseconds
	if to.Sub(from) != 0 || to.Round(0).Sub(from.Round(0)) != by {
		t.Fatalf("package time keeps a time in another way: %v", to)
	}
	return to
}

func TestLeavesAreBounded(t *testing.T) {
	ca := open(t, Options{}, t.TempDir())
	first, _ := ca.Leaf("first.example")
	for i := range maxLeaves - 1 {
		ca.leaf(fmt.Sprintf("%d.example", i), time.Now())
	}
	if again, _ := ca.Leaf("first.example"); again != first {
		t.Error("forgotten although there was room")
	}
	ca.leaf("one-more.example", time.Now())
	if n := ca.leaves.Len(); n != maxLeaves {
		t.Errorf("%d leaves are kept, want %d", n, maxLeaves)
	}
	if again, _ := ca.Leaf("first.example"); again != first {
		t.Error("the last used was forgotten")
	}
	if ca.leaves.Contains("0.example") {
		t.Error("the one not used for longest was kept")
	}
}

func TestOpenSSLAcceptsLeavesStrictly(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	dir := t.TempDir()
	ca := open(t, Options{}, dir)
	for _, host := range []string{"example.com", strings.Repeat("a23456789.", 8) + "example", "192.0.2.1", "2001:db8::1"} {
		cert, err := ca.Leaf(host)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "leaf.pem")
		if err := os.WriteFile(file, pemChain(cert), 0o600); err != nil {
			t.Fatal(err)
		}
		check := "-verify_hostname"
		if net.ParseIP(host) != nil {
			check = "-verify_ip"
		}
		out, err := exec.Command("openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", ca.Path(), check, host, file).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", host, err, out)
		}
	}
}

const pythonClient = `
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[1])
context.verify_flags |= ssl.VERIFY_X509_STRICT
for host in sys.argv[3:]:
    with socket.create_connection(("127.0.0.1", int(sys.argv[2]))) as plain:
        with context.wrap_socket(plain, server_hostname=host) as conn:
            print(conn.recv(2).decode())
`

func TestPythonAcceptsLeavesStrictly(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	ca := open(t, Options{}, t.TempDir())
	addresses := []string{"127.0.0.1", "::1"} // in the order in which they are asked for, since no client sends one
	server, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			host := hello.ServerName
			if host == "" {
				host, addresses = addresses[0], addresses[1:]
			}
			return ca.Leaf(host)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	served := make(chan error, 1)
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				served <- err
				return
			}
			io.WriteString(conn, "ok")
			conn.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(server.Addr().String())
	out, err := exec.Command(python, "-c", pythonClient, ca.Path(), port, "example.com", "127.0.0.1", "::1").CombinedOutput()
	if err != nil || string(out) != "ok\nok\nok\n" {
		t.Errorf("%v\n%s", err, out)
	}
	server.Close()
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func BenchmarkLeafSigned(b *testing.B) {
	ca := open(b, Options{}, b.TempDir())
	for i := 0; b.Loop(); i++ {
		if _, err := ca.Leaf(fmt.Sprintf("%d.example", i)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLeafKept(b *testing.B) {
	ca := open(b, Options{}, b.TempDir())
	for b.Loop() {
		if _, err := ca.Leaf("example.com"); err != nil {
			b.Fatal(err)
		}
	}
}
