package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// robotsTxt is the origin's robots.txt: 90 rules, of which a quarter have wildcards.
//
//go:embed robots.txt
var robotsTxt string

const (
	allowedPath    = "/catalog/lamps/desk-lamp-17?colour=white"
	disallowedPath = "/checkout/payment"
)

// site is what all proxies are measured with: an origin, and a folder for all files.
type site struct {
	folder string
	origin *process
	ports  originPorts
}

// originPorts are the ports on which the origin listens, on every loopback address.
type originPorts struct{ Plain, Secure string }

func (s *site) caFile() string  { return filepath.Join(s.folder, "ca.pem") }
func (s *site) keyFile() string { return filepath.Join(s.folder, "ca-key.pem") }

// newSite starts the origin. The caller closes the site.
func newSite() (_ *site, err error) {
	s := new(site)
	if s.folder, err = os.MkdirTemp("", "proxies-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	// squid reads it as a user of its own.
	if err := os.Chmod(s.folder, 0o755); err != nil {
		return nil, err
	}
	leaf := filepath.Join(s.folder, "origin.pem")
	if err := s.makeCertificates(leaf); err != nil {
		return nil, fmt.Errorf("making certificates: %w", err)
	}
	cmd, err := ownRole("origin", leaf, s.caFile(), s.keyFile())
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if s.origin, err = startProcess(cmd, filepath.Join(s.folder, "origin.log")); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s.ports)
	}
	if err != nil {
		return nil, fmt.Errorf("starting the origin: %w", err)
	}
	return s, nil
}

// close ends the origin and removes the folder.
func (s *site) close() {
	if s.origin != nil {
		s.origin.stop()
	}
	os.RemoveAll(s.folder)
}

// ownRole returns a command that starts this program in one of its roles.
func ownRole(role string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(self, append([]string{role}, args...)...), nil
}

// makeCertificates makes the origin's certificate with its key, and the CA that signs it. The
// proxies trust the CA and sign with it too.
func (s *site) makeCertificates(leaf string) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench CA"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 0, 7),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return err
	}
	if ca, err = x509.ParseCertificate(caDER); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, leafTemplate(ca, net.IPv4(127, 0, 0, 1), "localhost"), ca, key.Public(), caKey)
	if err != nil {
		return err
	}
	if err := writePEM(s.caFile(), "CERTIFICATE", caDER); err != nil {
		return err
	}
	if err := writeKeyed(s.keyFile(), caKey); err != nil {
		return err
	}
	return writeKeyed(leaf, key, der)
}

func leafTemplate(ca *x509.Certificate, ip net.IP, names ...string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: ip.String()},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    names, IPAddresses: []net.IP{ip},
	}
}

// byAddress returns a GetCertificate function. For clients that name no host, it signs a
// certificate for the loopback address that they ask. All certificates have the leaf's key.
func byAddress(leaf, ca tls.Certificate) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	key := leaf.PrivateKey.(*ecdsa.PrivateKey)
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if hello.ServerName != "" {
			return &leaf, nil
		}
		ip := hello.Conn.LocalAddr().(*net.TCPAddr).IP
		der, err := x509.CreateCertificate(rand.Reader, leafTemplate(ca.Leaf, ip), ca.Leaf, key.Public(), ca.PrivateKey)
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
	}
}

// writeKeyed writes certificates, which are in DER, followed by their key.
func writeKeyed(path string, key *ecdsa.PrivateKey, certs ...[]byte) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(path, "CERTIFICATE", certs...); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err := pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der}); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func writePEM(path, kind string, blocks ...[]byte) error {
	var text []byte
	for _, der := range blocks {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})...)
	}
	return os.WriteFile(path, text, 0o644)
}

// serveOrigin is the role of the origin. The first line of its output says where it listens.
func serveOrigin(args []string) error {
	if len(args) != 3 {
		return errors.New("origin needs the files of its certificate, of the CA and of the CA's key")
	}
	leaf, err := tls.LoadX509KeyPair(args[0], args[0])
	if err != nil {
		return err
	}
	ca, err := tls.LoadX509KeyPair(args[1], args[2])
	if err != nil {
		return err
	}
	plain, err := loopbackListener()
	if err != nil {
		return err
	}
	secure, err := loopbackListener()
	if err != nil {
		return err
	}
	ports := originPorts{Plain: portOf(plain), Secure: portOf(secure)}
	if err := json.NewEncoder(os.Stdout).Encode(ports); err != nil {
		return err
	}
	// They can't be one server: once Serve has been called, ServeTLS still offers HTTP/2 but
	// no longer sets it up.
	plainServer := &http.Server{Handler: http.HandlerFunc(originPage)}
	secureServer := &http.Server{Handler: http.HandlerFunc(originPage), TLSConfig: &tls.Config{GetCertificate: byAddress(leaf, ca)}}
	failed := make(chan error, 2)
	go func() { failed <- plainServer.Serve(plain) }()
	go func() { failed <- secureServer.ServeTLS(secure, "", "") }()
	return <-failed
}

var page = strings.Repeat("0123456789abcdef", 64) // 1 KiB

// originPage serves robots.txt, as many octets as a path below /octets/ says, and 1 KiB at any
// other path.
func originPage(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if r.URL.Path == "/robots.txt" {
		h.Set("Content-Type", "text/plain")
		io.WriteString(w, robotsTxt)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Last-Modified", "Mon, 01 Jun 2026 12:00:00 GMT")
	h.Set("Etag", `"5f1d7a90"`)
	h.Set("Vary", "Accept-Encoding")
	if octets, found := strings.CutPrefix(r.URL.Path, "/octets/"); found {
		n, err := strconv.ParseInt(octets, 10, 64)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		h.Set("Content-Length", octets)
		for piece := make([]byte, 64<<10); n > 0 && err == nil; n -= int64(len(piece)) {
			_, err = w.Write(piece[:min(n, int64(len(piece)))])
		}
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(page)))
	io.WriteString(w, page)
}

// loopbackListener listens on a free port of every loopback address. IPv4 has millions, each
// of which is an origin of its own.
func loopbackListener() (net.Listener, error) {
	l, err := net.Listen("tcp", ":0")
	return loopbackOnly{l}, err
}

type loopbackOnly struct{ net.Listener }

func (l loopbackOnly) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || conn.RemoteAddr().(*net.TCPAddr).IP.IsLoopback() {
			return conn, err
		}
		conn.Close()
	}
}

func portOf(l net.Listener) string { return strconv.Itoa(l.Addr().(*net.TCPAddr).Port) }
