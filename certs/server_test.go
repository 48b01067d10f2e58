package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"robotsproxy/internal/keyerr"
)

// ownCertificate writes a certificate that names hosts, and its key.
func ownCertificate(t *testing.T, notBefore, notAfter time.Time, hosts ...string) Server {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: notBefore, NotAfter: notAfter, DNSNames: hosts}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := Server{Cert: filepath.Join(dir, "own.pem"), Key: filepath.Join(dir, "own.key")}
	for file, block := range map[string]*pem.Block{s.Cert: {Type: "CERTIFICATE", Bytes: der}, s.Key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestServerCertificates(t *testing.T) {
	now := time.Now()
	good := ownCertificate(t, now.Add(-day), now.Add(90*day), "proxy.example")
	other := ownCertificate(t, now.Add(-day), now.Add(90*day), "proxy.example")
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		s    Server
		want string // that the error begins with
	}{
		{"good", good, ""},
		{"soon over", ownCertificate(t, now.Add(-day), now.Add(day), "proxy.example"), ""},
		{"no certificate", Server{Key: good.Key}, "cert: there is no certificate"},
		{"no key", Server{Cert: good.Cert}, "key: there is no key"},
		{"missing files", Server{Cert: "none.pem", Key: "none.pem"}, "cert: read the proxy's own certificate: open none.pem"},
		{"no PEM", Server{Cert: empty, Key: good.Key}, "cert: read the proxy's own certificate: there is no PEM"},
		{"no PEM in the key", Server{Cert: good.Cert, Key: empty}, "key: reading the key of "},
		{"another's key", Server{Cert: good.Cert, Key: other.Key}, "key: reading the key of "},
		{"over", ownCertificate(t, now.Add(-2*day), now.Add(-day), "proxy.example"), "cert: the certificate "},
		{"not yet", ownCertificate(t, now.Add(day), now.Add(2*day), "proxy.example"), "cert: the certificate "},
		{"for no host", ownCertificate(t, now.Add(-day), now.Add(90*day)), "cert: the certificate "},
	} {
		err := test.s.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%s: %v", test.name, err)
		}
		if err != nil && len(keyerr.All(err)) != 1 {
			t.Errorf("%s: %d errors", test.name, len(keyerr.All(err)))
		}
	}
}

func TestServerCertificateWarnings(t *testing.T) {
	now := time.Now()
	fine := ownCertificate(t, now.Add(-day), now.Add(90*day), "proxy.example")
	if _, warnings, err := fine.Load(); err != nil || len(warnings) > 0 {
		t.Errorf("%q, %v", warnings, err)
	}
	open := ownCertificate(t, now.Add(-day), now.Add(3*day), "proxy.example")
	if err := os.Chmod(open.Key, 0o644); err != nil {
		t.Fatal(err)
	}
	_, warnings, err := open.Load()
	if err != nil || len(warnings) != 2 || !strings.Contains(warnings[0], "chmod 600") || !strings.Contains(warnings[1], "expires on") {
		t.Errorf("%q, %v", warnings, err)
	}
}
