package trust

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// systemRoots are where systems keep the roots that they trust. Files come before folders,
// since a folder may hold more than roots.
var systemRoots = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Arch, Gentoo, Alpine, NixOS
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, RHEL
	"/etc/pki/tls/certs/ca-bundle.crt",                  // older Fedora and RHEL
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/var/lib/ca-certificates/ca-bundle.pem",            // openSUSE
	"/etc/ssl/certs/ca-bundle.crt",                      // NixOS
	"/etc/ssl/cert.pem",                                 // macOS, Alpine, OpenBSD
	"/opt/homebrew/etc/ca-certificates/cert.pem",        // Homebrew
	"/opt/homebrew/etc/openssl@3/cert.pem",
	"/usr/local/etc/ca-certificates/cert.pem",
	"/usr/local/etc/openssl@3/cert.pem",
	"/usr/local/etc/ssl/cert.pem",            // FreeBSD
	"/usr/local/share/certs/ca-root-nss.crt", // FreeBSD
	"/etc/certs/ca-certificates.crt",         // Solaris
	"/etc/ssl/certs",
	"/etc/pki/tls/certs",
	"/etc/openssl/certs", // NetBSD
}

// readRoots returns the certificates in a PEM file, or in all files of a folder but not of
// its subfolders. There is at least one.
func readRoots(path string) ([]*x509.Certificate, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	if info.IsDir() {
		certs, err = readFolder(path)
	} else {
		certs, err = readFile(path)
	}
	if err == nil && len(certs) == 0 {
		err = errors.New("there is no PEM certificate in it")
	}
	return certs, err
}

// readFolder passes over files that it can't read: what a system keeps beside its roots may
// be private.
func readFolder(path string) ([]*x509.Certificate, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for _, entry := range entries {
		found, _ := readFile(filepath.Join(path, entry.Name()))
		certs = append(certs, found...)
	}
	return certs, nil
}

func readFile(path string) ([]*x509.Certificate, error) {
	text, _, err := readRegular(path)
	return parsePEM(text), err
}

// readRegular reads a regular file. Pipes and devices might never end.
func readRegular(path string) ([]byte, fs.FileMode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a regular file", path)
	}
	text, err := os.ReadFile(path)
	return text, info.Mode(), err
}

// parsePEM returns the certificates in a text and nothing else: no keys, and no TRUSTED
// CERTIFICATE, which may be trusted for other purposes than servers. It leaves out what
// crypto/x509 can't parse, since a client may refuse a whole file because of it.
func parsePEM(text []byte) []*x509.Certificate {
	var certs []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			certs = append(certs, cert)
		}
	}
	return certs
}

// A set holds each certificate once, in the order of their arrival.
type set struct {
	certs []*x509.Certificate
	seen  map[string]bool // by DER
}

func newSet() *set { return &set{seen: map[string]bool{}} }

func (s *set) add(certs []*x509.Certificate) {
	for _, cert := range certs {
		if der := string(cert.Raw); !s.seen[der] {
			s.seen[der] = true
			s.certs = append(s.certs, cert)
		}
	}
}

// without returns the certificates that are not among others.
func without(certs, others []*x509.Certificate) []*x509.Certificate {
	return slices.DeleteFunc(certs, func(cert *x509.Certificate) bool {
		return slices.ContainsFunc(others, cert.Equal)
	})
}
