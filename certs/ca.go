// Package certs has the certification authority with which robotsproxy reads inside TLS: a
// [CA] signs a certificate for each host.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// A CA signs certificates for hosts. It is safe for concurrent use.
type CA struct {
	path    string
	keyPath string
	cert    *x509.Certificate // the one that signs, parsed from its file, so that leaves get its key identifier
	chain   [][]byte          // cert and those above it in its file, in DER
	signer  crypto.Signer
	now     func() time.Time

	leafKey *ecdsa.PrivateKey // of all leaves, for as long as the process lives: making a key costs as much as signing

	mu     sync.Mutex
	leaves *simplelru.LRU[string, *leaf] // by host
}

// Open loads the CA that opts names. If opts names none, it loads the one in dataDir, and
// makes one there first if need be. Processes that do so at the same time all get the same CA.
func Open(opts Options, dataDir string) (*CA, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	leaves, err := simplelru.NewLRU[string, *leaf](maxLeaves, nil)
	if err != nil {
		return nil, err
	}
	ca := &CA{path: opts.Cert, keyPath: opts.Key, now: opts.now, leaves: leaves}
	if opts.Cert == "" {
		ca.path = filepath.Join(dataDir, "ca.pem")
		ca.keyPath = filepath.Join(dataDir, "ca-key.pem")
		if err := establish(ca.path, ca.keyPath, ca.now(), os.Link); err != nil {
			return nil, err
		}
	}
	if err := ca.load(); err != nil {
		mend := mendPermission(err)
		if mend == "" && opts.Cert == "" && !errors.Is(err, errEarly) {
			mend = fmt.Sprintf("; delete %s and %s to have a new CA made, which clients must then be given", ca.path, ca.keyPath)
		}
		return nil, fmt.Errorf("%w%s", err, mend)
	}
	if ca.leafKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("make a key for hosts' certificates: %w", err)
	}
	return ca, nil
}

// Path is the file of the CA certificate.
func (ca *CA) Path() string { return ca.path }

// KeyPath is the file of the CA's private key.
func (ca *CA) KeyPath() string { return ca.keyPath }

// PEM is what a client must trust: the CA certificate, and those above it that the user's
// own file has.
func (ca *CA) PEM() []byte {
	var out []byte
	for _, der := range ca.chain {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return out
}

// Warnings are sentences about what works today but ought to be mended.
func (ca *CA) Warnings() []string {
	var warnings []string
	if mayBeReadByAll(ca.keyPath) {
		warnings = append(warnings, fmt.Sprintf(
			"everyone on this machine may open the CA's key %s, and with it pose as any host to the CA's clients; chmod 600 it", ca.keyPath))
	}
	if left := ca.cert.NotAfter.Sub(ca.now()); left < 30*day {
		warnings = append(warnings, fmt.Sprintf("the CA %s expires on %s", ca.path, ca.cert.NotAfter.Format(time.DateOnly)))
	}
	return warnings
}

// mayBeReadByAll reports whether a key's file lets more than its owner and group in. The
// group is left alone: it is how Kubernetes hands out secrets.
func mayBeReadByAll(path string) bool {
	info, err := os.Stat(path)
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o007 != 0
}

// load reads both files.
func (ca *CA) load() error {
	chain, err := readCA(ca.path, ca.now())
	if err != nil {
		return err
	}
	ca.cert = chain[0]
	for _, cert := range chain {
		ca.chain = append(ca.chain, cert.Raw)
	}
	if ca.signer, err = readKey(ca.keyPath); err != nil {
		return err
	}
	return checkPair(ca.keyPath, ca.signer, ca.path, ca.cert)
}

// errEarly is in the error for a certificate that is not valid yet. The clock is more likely at fault.
var errEarly = errors.New("is valid only from")

// readCA returns the certificates of a PEM file. The first is a CA that is valid now.
func readCA(path string, now time.Time) ([]*x509.Certificate, error) {
	chain, err := readChain(path)
	if err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	ca := chain[0]
	switch {
	case !ca.IsCA || !ca.BasicConstraintsValid || ca.KeyUsage != 0 && ca.KeyUsage&x509.KeyUsageCertSign == 0:
		return nil, fmt.Errorf("the certificate in %s (the first, if it has several) is not a CA certificate: it may not sign others", path)
	case now.After(ca.NotAfter):
		return nil, fmt.Errorf("the CA %s expired on %s", path, ca.NotAfter.Format(time.RFC3339))
	case now.Before(ca.NotBefore):
		return nil, fmt.Errorf("the CA %s %w %s on, and this machine's clock says %s; set the clock right, or wait",
			path, errEarly, ca.NotBefore.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return chain, nil
}

// checkPair returns an error if a key is not that of a certificate.
func checkPair(keyPath string, key crypto.Signer, certPath string, cert *x509.Certificate) error {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(cert.PublicKey) {
		return fmt.Errorf("the key %s is not that of the certificate %s", keyPath, certPath)
	}
	return nil
}

// readChain returns the certificates of a PEM file, at least one.
func readChain(path string) ([]*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var chain []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		chain = append(chain, cert)
	}
	if chain == nil {
		return nil, fmt.Errorf("there is no PEM certificate in %s", path)
	}
	return chain, nil
}

// readKey returns the first private key of a PEM file.
func readKey(path string) (crypto.Signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the CA's key: %w", err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			key, err := parseKey(block)
			if err != nil {
				return nil, fmt.Errorf("read the CA's key %s: %w", path, err)
			}
			return key, nil
		}
	}
	return nil, fmt.Errorf("read the CA's key: there is no PEM private key in %s", path)
}

func parseKey(block *pem.Block) (crypto.Signer, error) {
	if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
		return nil, errors.New("it is encrypted, and nobody is there to give the password at the start; decrypt it with openssl pkey")
	}
	var key any
	var err error
	switch block.Type {
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T cannot sign", key)
	}
	return signer, nil
}
