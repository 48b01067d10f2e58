package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// openEnv makes the test binary a process that only opens the CA in the
// directory it names, and prints its certificate and one it has signed.
const openEnv = "CERTS_TEST_OPEN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(openEnv); dir != "" {
		os.Exit(openAndPrint(dir))
	}
	os.Exit(m.Run())
}

func openAndPrint(dir string) int {
	ca, err := Open(Options{}, dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cert, err := ca.Leaf("example.com")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Stdout.Write(ca.PEM())
	pem.Encode(os.Stdout, &pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	return 0
}

func TestTenProcessesEndWithOneCA(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	outputs := make([]string, 10)
	var group sync.WaitGroup
	for i := range outputs {
		group.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), openEnv+"="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("process %d: %v\n%s", i, err, out)
			}
			outputs[i] = string(out)
		})
	}
	group.Wait()
	first, _, _ := strings.Cut(outputs[0], "-----END")
	for i, out := range outputs {
		if ca, _, _ := strings.Cut(out, "-----END"); ca != first {
			t.Errorf("process %d has another CA than process 0", i)
		}
		_, leaf := pem.Decode([]byte(out))
		verify(t, decodePEM(t, []byte(out)), decodePEM(t, leaf), "example.com")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 {
		t.Errorf("the data directory holds %v, want ca.pem and ca-key.pem only", entries)
	}
}

func TestFilesOfANewCA(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	ca := open(t, Options{}, dir)
	for name, want := range map[string]os.FileMode{".": 0o700, "ca.pem": 0o644, "ca-key.pem": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", name, info.Mode().Perm(), want)
		}
	}
	if ca.Path() != filepath.Join(dir, "ca.pem") {
		t.Errorf("Path is %s", ca.Path())
	}
	if text, _ := os.ReadFile(ca.Path()); !bytes.Equal(text, ca.PEM()) {
		t.Error("PEM is not what is in the file")
	}
	if again := open(t, Options{}, dir); !bytes.Equal(again.PEM(), ca.PEM()) {
		t.Error("opened again, the CA is another")
	}
	if warnings := ca.Warnings(); warnings != nil {
		t.Errorf("warnings about a new CA: %q", warnings)
	}
	cert := decodePEM(t, ca.PEM())
	if host, _ := os.Hostname(); !strings.Contains(cert.Subject.CommonName, "robotsproxy") || !strings.Contains(cert.Subject.CommonName, host) {
		t.Errorf("the CA is called %q, want robotsproxy and this host in it", cert.Subject.CommonName)
	}
	if cert.SubjectKeyId == nil || !cert.MaxPathLenZero || !critical(cert, "2.5.29.19") || !critical(cert, "2.5.29.15") {
		t.Error("the CA lacks a key identifier, or a critical extension")
	}
}

// A process that ends between the two files leaves a key alone.
func TestKeyWithoutCertificateIsUsed(t *testing.T) {
	dir := t.TempDir()
	before := open(t, Options{}, dir)
	if err := os.Remove(before.Path()); err != nil {
		t.Fatal(err)
	}
	after := open(t, Options{}, dir)
	if err := checkPair(before.keyPath, before.signer, after.Path(), decodePEM(t, after.PEM())); err != nil {
		t.Errorf("the key was not kept: %v", err)
	}
}

func TestFileSystemWithoutLinks(t *testing.T) {
	dir := t.TempDir()
	path, keyPath := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca-key.pem")
	none := func(string, string) error { return errors.ErrUnsupported }
	for range 2 { // the second time all is there
		if err := establish(path, keyPath, time.Now(), none); err != nil {
			t.Fatal(err)
		}
	}
	certificate(t, open(t, Options{}, dir), "example.com")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the data directory holds %v, %v, want ca.pem and ca-key.pem only", entries, err)
	}
	for path, want := range map[string]os.FileMode{path: 0o644, keyPath: 0o600} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := createOnce(path, want, none, &pem.Block{Type: "CERTIFICATE"}); err != nil {
			t.Error(err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s was written over (%v)", path, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v (%v), want %o", path, info.Mode(), err, want)
		}
	}
}

func TestReadableKeyAndNearEndAreWarnedOf(t *testing.T) {
	dir := t.TempDir()
	ca := open(t, Options{}, dir)
	if err := os.Chmod(ca.keyPath, 0o640); err != nil {
		t.Fatal(err)
	}
	if got := ca.Warnings(); len(got) != 0 {
		t.Errorf("warnings for a key that a group may read: %q", got)
	}
	if err := os.Chmod(ca.keyPath, 0o644); err != nil {
		t.Fatal(err)
	}
	ca = open(t, Options{Now: in(caLife - day)}, dir)
	got := strings.Join(ca.Warnings(), "\n")
	if !strings.Contains(got, ca.keyPath) || !strings.Contains(got, "expires on") {
		t.Errorf("warnings: %q", got)
	}
}

func TestUsersCA(t *testing.T) {
	p256, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	rsa2048, _ := rsa.GenerateKey(rand.Reader, 2048)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	sec1, _ := x509.MarshalECPrivateKey(p384)
	parameters := &pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 5, 0x2b, 0x81, 4, 0, 34}} // as openssl ecparam -genkey writes it
	for _, test := range []struct {
		name   string
		signer crypto.Signer
		key    []*pem.Block
	}{
		{"PKCS#8 P-256", p256, []*pem.Block{pkcs8(t, p256)}},
		{"PKCS#8 RSA", rsa2048, []*pem.Block{pkcs8(t, rsa2048)}},
		{"PKCS#8 Ed25519", ed, []*pem.Block{pkcs8(t, ed)}},
		{"SEC1", p384, []*pem.Block{parameters, {Type: "EC PRIVATE KEY", Bytes: sec1}}},
		{"PKCS#1", rsa2048, []*pem.Block{{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsa2048)}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			opts := Options{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
			writePEM(t, opts.Cert, caBlock(t, test.signer, nil))
			writePEM(t, opts.Key, test.key...)
			before, _ := os.ReadFile(opts.Cert)
			ca := open(t, opts, filepath.Join(dir, "unused"))
			certificate(t, ca, "example.com")
			if after, _ := os.ReadFile(opts.Cert); !bytes.Equal(before, after) {
				t.Error("the user's file was written to")
			}
			if _, err := os.Stat(filepath.Join(dir, "unused")); err == nil {
				t.Error("the data directory was made, for nothing")
			}
		})
	}
}

// Clients that know only the root must get all that stands between.
func TestIntermediateCA(t *testing.T) {
	root := open(t, Options{}, t.TempDir())
	root.cert.MaxPathLen, root.cert.MaxPathLenZero = -1, false
	rootBlock := caBlock(t, root.signer, nil)
	root.cert = decodePEM(t, pem.EncodeToMemory(rootBlock))
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	dir := t.TempDir()
	opts := Options{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
	writePEM(t, opts.Cert, caBlock(t, key, root), rootBlock)
	writePEM(t, opts.Key, pkcs8(t, key))

	ca := open(t, opts, "")
	cert, err := ca.Leaf("example.com")
	if err != nil {
		t.Fatal(err)
	}
	if len(cert.Certificate) != 3 {
		t.Fatalf("the chain has %d certificates, want leaf, intermediate and root", len(cert.Certificate))
	}
	between := x509.NewCertPool()
	between.AddCert(parse(t, cert.Certificate[1]))
	roots := x509.NewCertPool()
	roots.AddCert(root.cert)
	if _, err := parse(t, cert.Certificate[0]).Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: "example.com"}); err != nil {
		t.Error(err)
	}
	if n := bytes.Count(ca.PEM(), []byte("BEGIN")); n != 2 {
		t.Errorf("PEM has %d certificates, want 2", n)
	}
}

func TestOpenSaysWhatToDo(t *testing.T) {
	made := t.TempDir()
	ca := open(t, Options{}, made)
	other := open(t, Options{}, t.TempDir())
	cert, key := ca.path, ca.keyPath
	file := filepath.Join(made, "text")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := ca.Leaf("example.com")
	if err != nil {
		t.Fatal(err)
	}
	noCA := filepath.Join(made, "leaf.pem")
	writePEM(t, noCA, &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate[0]})
	locked := filepath.Join(made, "locked.pem")
	writePEM(t, locked, &pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})
	broken := filepath.Join(made, "broken.pem")
	writePEM(t, broken, &pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}, &pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
	alone := t.TempDir()
	writePEM(t, filepath.Join(alone, "ca.pem"), &pem.Block{Type: "CERTIFICATE", Bytes: ca.chain[0]})
	spoilt := t.TempDir()
	writePEM(t, filepath.Join(spoilt, "ca-key.pem"), &pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})

	for _, test := range []struct {
		name string
		opts Options
		dir  string
		want []string
	}{
		{"one file", Options{Cert: cert}, "", []string{"ca_cert: ", "ca_key is missing"}},
		{"other file", Options{Key: key}, "", []string{"ca_key: ", "ca_cert is missing"}},
		{"no certificate file", Options{Cert: "/nowhere/ca", Key: key}, "", []string{"ca_cert: ", "/nowhere/ca"}},
		{"no key file", Options{Cert: cert, Key: "/nowhere/key"}, "", []string{"ca_key: ", "/nowhere/key"}},
		{"neither file", Options{Cert: "/nowhere/ca", Key: "/nowhere/key"}, "", []string{"ca_cert: ", "/nowhere/ca", "\nca_key: ", "/nowhere/key"}},
		{"expired, the user's", Options{Cert: cert, Key: key, Now: in(caLife + day)}, "", []string{"ca_cert: ", cert, "expired on"}},
		{"certificate is text", Options{Cert: file, Key: key}, "", []string{"ca_cert: ", file, "no PEM certificate"}},
		{"certificate is broken", Options{Cert: broken, Key: key}, "", []string{broken, "malformed"}},
		{"key is text", Options{Cert: cert, Key: file}, "", []string{"ca_key: ", file, "no PEM private key"}},
		{"key is broken", Options{Cert: cert, Key: broken}, "", []string{broken}},
		{"key is encrypted", Options{Cert: cert, Key: locked}, "", []string{locked, "encrypted", "openssl pkey"}},
		{"key of another", Options{Cert: cert, Key: other.keyPath}, "", []string{"ca_key: ", other.keyPath, "is not that of", cert}},
		{"no CA", Options{Cert: noCA, Key: key}, "", []string{"ca_cert: ", noCA, "is not a CA certificate"}},
		{"expired", Options{Now: in(caLife + day)}, made, []string{cert, "expired on", "delete", "ca-key.pem"}},
		{"not yet valid", Options{Now: in(-caBackdate - day)}, made, []string{cert, "only from", "clock"}},
		{"certificate alone", Options{}, alone, []string{"ca-key.pem", "delete"}},
		{"spoilt key alone", Options{}, spoilt, []string{"ca-key.pem", "delete it"}},
		{"directory is a file", Options{}, file, []string{file, "not a directory", "--data-dir"}},
		{"directory in a file", Options{}, filepath.Join(file, "data"), []string{file, "not a directory", "--data-dir"}},
		{"directory cannot be made", Options{}, "/proc/robotsproxy", []string{"/proc/robotsproxy", "--data-dir"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Open(test.opts, test.dir)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if test.opts.Cert != "" && strings.Contains(err.Error(), "delete") {
				t.Errorf("%q would have the user's own files deleted", err)
			}
			if invalid := test.opts.Validate(); (invalid != nil) != (test.opts.Cert != "" || test.opts.Key != "") {
				t.Errorf("Validate says %v", invalid)
			}
		})
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write anywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{}, dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v, want one that names %s", err, dir)
	}
}

// A clock that is behind the CA is no reason to delete it.
func TestClockBeforeTheCA(t *testing.T) {
	dir := t.TempDir()
	open(t, Options{}, dir)
	_, err := Open(Options{Now: in(-30 * day)}, dir)
	if err == nil || !strings.Contains(err.Error(), "set the clock right") || strings.Contains(err.Error(), "delete") {
		t.Errorf("error %v", err)
	}
}

// in is a clock that is d ahead.
func in(d time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(d) }
}

func open(t testing.TB, opts Options, dir string) *CA {
	t.Helper()
	ca, err := Open(opts, dir)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// certificate returns host's certificate, verified.
func certificate(t testing.TB, ca *CA, host string) *x509.Certificate {
	t.Helper()
	cert, err := ca.Leaf(host)
	if err != nil {
		t.Fatal(err)
	}
	leaf := parse(t, cert.Certificate[0])
	verify(t, decodePEM(t, ca.PEM()), leaf, host)
	if _, err := tls.X509KeyPair(pemChain(cert), pem.EncodeToMemory(pkcs8(t, cert.PrivateKey))); err != nil {
		t.Error(err)
	}
	return leaf
}

func verify(t testing.TB, root, leaf *x509.Certificate, host string) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(root)
	at := leaf.NotBefore.Add(leafBackdate + time.Second) // the clock of the test that signed it
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: strings.TrimSuffix(host, "."), CurrentTime: at}); err != nil {
		t.Errorf("verify the certificate for %s: %v", host, err)
	}
}

func parse(t testing.TB, der []byte) *x509.Certificate {
	t.Helper()
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func decodePEM(t testing.TB, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("no PEM in %q", text)
	}
	return parse(t, block.Bytes)
}

func pemChain(cert *tls.Certificate) []byte {
	var out []byte
	for _, der := range cert.Certificate {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return out
}

func pkcs8(t testing.TB, key any) *pem.Block {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &pem.Block{Type: "PRIVATE KEY", Bytes: der}
}

// caBlock is a CA for key, signed by above or, if nil, by itself.
func caBlock(t testing.TB, key crypto.Signer, above *CA) *pem.Block {
	t.Helper()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: fmt.Sprintf("a user's CA, of a %T", key)},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	parent, signer := template, key
	if above != nil {
		parent, signer = above.cert, above.signer
		template.Subject.CommonName += " below another"
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return &pem.Block{Type: "CERTIFICATE", Bytes: der}
}

func writePEM(t testing.TB, path string, blocks ...*pem.Block) {
	t.Helper()
	var text []byte
	for _, block := range blocks {
		text = append(text, pem.EncodeToMemory(block)...)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func critical(cert *x509.Certificate, oid string) bool {
	for _, extension := range cert.Extensions {
		if extension.Id.String() == oid {
			return extension.Critical
		}
	}
	return false
}
