package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	day        = 24 * time.Hour
	caLife     = 3650 * day
	caBackdate = 7 * day // clients' clocks differ
)

// A link is os.Link, or a test's in its place.
type link func(oldname, newname string) error

// establish makes the CA at path and keyPath if it does not exist.
//
// It needs no lock: each file appears whole or not at all, and never replaces another
// (createOnce has the exception). The key comes first, and the certificate is made for the
// key that is then there. So a process that comes second, or after a crash between the two
// files, goes on with the first one's key.
func establish(path, keyPath string, now time.Time, link link) error {
	found, err := exists(path)
	if err != nil {
		return withRemedy(err)
	} else if found {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return withRemedy(err)
	}
	if found, err := exists(keyPath); err != nil {
		return withRemedy(err)
	} else if !found {
		if err := makeKey(keyPath, link); err != nil {
			return err
		}
	}
	key, err := readKey(keyPath)
	if err != nil {
		return fmt.Errorf("%w; delete it to have a new CA made", err)
	}
	der, err := selfSign(key, now)
	if err != nil {
		return fmt.Errorf("make a CA for the key %s: %w", keyPath, err)
	}
	return createOnce(path, 0o644, link, &pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func makeKey(path string, link link) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the CA's key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("make the CA's key: %w", err)
	}
	return createOnce(path, 0o600, link, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func selfSign(key crypto.Signer, now time.Time) ([]byte, error) {
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "a nameless host"
	}
	digest := sha256.Sum256(public)
	template := &x509.Certificate{
		// The serial number tells two CAs of one host apart: clients look for an issuer
		// by its name, and RFC 5280 4.1.2.6 wants a name for each key.
		Subject: pkix.Name{
			Organization: []string{"robotsproxy"},
			CommonName:   fmt.Sprintf("%.*s", maxCommonName, "robotsproxy CA on "+host),
			SerialNumber: fmt.Sprintf("%x", digest[:8]),
		},
		NotBefore:             now.Add(-caBackdate),
		NotAfter:              now.Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
		SubjectKeyId:          digest[:20], // RFC 7093, method 1 over the whole key
	}
	return x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
}

// createOnce creates a file with all its content at once. A file that exists already stays
// as it is. On a file system without hard links the file is empty for a moment: a process
// that reads it then, or after a crash in that moment, finds no PEM in it and says so.
func createOnce(path string, mode fs.FileMode, link link, block *pem.Block) error {
	temp, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return withRemedy(err)
	}
	defer os.Remove(temp.Name())
	text := pem.EncodeToMemory(block)
	if err := fill(temp, mode, text); err != nil {
		return withRemedy(err)
	}
	err = link(temp.Name(), path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return withRemedy(err)
	}
	if err := fill(file, mode, text); err != nil {
		os.Remove(path)
		return withRemedy(err)
	}
	return nil
}

// fill writes and closes a new file.
func fill(file *os.File, mode fs.FileMode, content []byte) error {
	_, err := file.Write(content)
	return errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// withRemedy says what was being done, and what helps where the directory is at fault.
func withRemedy(err error) error {
	remedy := ""
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		remedy = "; choose a directory that can be written, with --data-dir or data_dir"
	case errors.Is(err, syscall.ENOSPC):
		remedy = "; make room there, or choose another directory with --data-dir or data_dir"
	}
	return fmt.Errorf("find or make the CA in the data directory: %w%s", err, remedy)
}
