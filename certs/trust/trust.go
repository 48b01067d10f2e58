// Package trust writes the files by which clients trust the proxy's CA: what the system and the
// user trust already, and the CA beside it, in each format that clients read.
//
// [Write] makes them, and [Files] says which file is for which clients.
package trust

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"software.sslmate.com/src/go-pkcs12"

	"robotsproxy/certs"
	"robotsproxy/internal/keyerr"
)

// Options name the folder of the files. In a configuration they are part of the section
// "https".
type Options struct {
	Dir string `yaml:"trust_dir,path"` // "" means the folder trust in the data directory
}

// Folder is the folder that clients may read, given the data directory.
func (o Options) Folder(dataDir string) string {
	if o.Dir != "" {
		return o.Dir
	}
	return filepath.Join(dataDir, "trust")
}

// Validate refuses a folder that holds one of the CA's own files, at any depth. The error is a
// [keyerr.Error].
func (o Options) Validate(caFiles ...string) error {
	if o.Dir == "" {
		return nil
	}
	return keyerr.Wrap("trust_dir", checkApart(o.Dir, caFiles...))
}

// Own names what the user of a client already has it trust.
type Own struct {
	Bundles []string // PEM files, and folders of such files, that the user's variables name
	Wgetrc  string   // the file that wget reads at its start; "" for none
}

// Files are those by which clients trust the CA, as absolute paths. None of them holds a
// private key.
type Files struct {
	CA            string // this CA alone, in PEM, for variables that add to a client's roots
	Bundle        string // the system's roots, the user's own and this CA, in PEM, for variables that replace
	Store         string // the roots of Bundle as a PKCS#12 trust store, for Java
	StorePassword string // PKCS#12 needs one; it is no secret
	Cacerts       string // Store without a password, as Java's own cacerts must be
	Wgetrc        string // the user's own with Bundle as ca_certificate
	PHP           string // a folder for PHP_INI_SCAN_DIR, with one file that names Bundle

	// Warnings are sentences about the user's own files that could not be used.
	Warnings []string
}

// FilesIn returns the names of the files in a folder, whether or not Write has written them.
func FilesIn(folder string) Files {
	return Files{
		CA:            filepath.Join(folder, "ca.pem"),
		Bundle:        filepath.Join(folder, "ca-bundle.pem"),
		Store:         filepath.Join(folder, "truststore.p12"),
		StorePassword: pkcs12.DefaultPassword,
		Cacerts:       filepath.Join(folder, "cacerts.p12"),
		Wgetrc:        filepath.Join(folder, "wgetrc"),
		PHP:           filepath.Join(folder, "php"),
	}
}

// Write writes the files by which clients trust ca into folder, and makes the folder if need
// be. Everybody may read them, except the copy of a wgetrc that is private. Several processes
// may write at the same time: a reader finds each file whole, and files that have not
// changed are left alone. Processes that differ in own need folders of their own, since
// the last to write wins.
//
// A file of the user's own that can't be read, or that has no certificate, is left out with
// a warning. Many clients ignore such a file, so an error would break what worked, and
// leaving it out trusts nobody more.
//
// The folder must not hold the CA's own files, at any depth.
func Write(ca *certs.CA, folder string, own Own) (Files, error) {
	files, err := write(ca, folder, own, systemRoots)
	if err != nil {
		return Files{}, fmt.Errorf("write the files by which clients trust the CA: %w; name a folder for them with https.trust_dir", err)
	}
	return files, nil
}

// write is Write on a system whose roots are in the first of places that has any.
func write(ca *certs.CA, folder string, own Own, places []string) (Files, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return Files{}, err
	}
	if err := checkApart(folder, ca.KeyPath(), ca.Path()); err != nil {
		return Files{}, err
	}
	files := FilesIn(folder)
	roots := allRoots(ca, &files, own.Bundles, places)
	store, err := trustStore(pkcs12.LegacyDES, pkcs12.DefaultPassword, roots)
	if err != nil {
		return Files{}, err
	}
	cacerts, err := trustStore(pkcs12.Passwordless, "", roots)
	if err != nil {
		return Files{}, err
	}
	wgetrc, wgetrcMode := mergeWgetrc(&files, own.Wgetrc)
	for _, folder := range []string{folder, files.PHP} {
		if err := makeFolder(folder); err != nil {
			return Files{}, err
		}
	}
	for _, file := range []struct {
		path    string
		content []byte
		mode    fs.FileMode
	}{
		{files.Bundle, encode(roots), 0o644},
		{files.Store, store, 0o644},
		{files.Cacerts, cacerts, 0o644},
		{files.Wgetrc, wgetrc, wgetrcMode},
		{filepath.Join(files.PHP, "robotsproxy.ini"), phpINI(files.Bundle), 0o644},
		{files.CA, ca.PEM(), 0o644}, // the last, since allRoots reads it to know the CA in the bundle
	} {
		if err := replace(file.path, file.content, file.mode); err != nil {
			return Files{}, err
		}
	}
	return files, nil
}

// allRoots are the system's, those in the user's bundles, and the CA, each once.
//
// If the user's variables already point into this folder, the bundle itself is one of the
// files. The roots in it stay, but not its former CA: that may have been replaced because
// somebody else got its key.
func allRoots(ca *certs.CA, files *Files, bundles, places []string) []*x509.Certificate {
	all := newSet()
	for _, place := range places {
		if found, err := readRoots(place); err == nil {
			all.add(found)
			break
		}
	}
	for _, file := range bundles {
		found, err := readRoots(file)
		if err != nil {
			files.Warnings = append(files.Warnings, fmt.Sprintf("no roots are taken from %s: %v; clients that trusted them no longer do", file, err))
			continue
		}
		if sameFile(file, files.Bundle) {
			former, _ := readRoots(files.CA) // none before the first time
			found = without(found, former)
		}
		all.add(found)
	}
	all.add(parsePEM(ca.PEM()))
	return all.certs
}

func encode(certs []*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, cert := range certs {
		pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}) // a Buffer never fails
	}
	return out.Bytes()
}

// trustStore is a PKCS#12 file that marks each certificate as trusted, as Java wants it.
//
// Stores that variables name are encrypted with 3DES and SHA-1: Java 8 before update 301 can
// read nothing newer, and its keytool nothing without encryption. Java opens its own cacerts
// without a password, so that one is not encrypted. Since neither holds a secret, the salts
// may come from the content, so that the same roots always make the same file. The names are
// digests, since Java takes two roots of one name for one.
func trustStore(as *pkcs12.Encoder, password string, certs []*x509.Certificate) ([]byte, error) {
	all := sha256.New()
	var entries []pkcs12.TrustStoreEntry
	for _, cert := range certs {
		digest := sha256.Sum256(cert.Raw)
		all.Write(digest[:])
		entries = append(entries, pkcs12.TrustStoreEntry{Cert: cert, FriendlyName: fmt.Sprintf("%x", digest)})
	}
	salts := rand.NewChaCha8([32]byte(all.Sum(nil)))
	store, err := as.WithRand(salts).EncodeTrustStoreEntries(entries, password)
	if err != nil {
		return nil, fmt.Errorf("make a trust store: %w", err)
	}
	return store, nil
}

// mergeWgetrc is the user's own file and then the bundle, since wget heeds the later of two
// lines. The user's may hold passwords: if it is private, so is the copy.
func mergeWgetrc(files *Files, own string) ([]byte, fs.FileMode) {
	line := "ca_certificate = " + files.Bundle + "\n"
	if own == "" {
		return []byte(line), 0o644
	}
	text, mode, err := readRegular(own)
	if err != nil {
		files.Warnings = append(files.Warnings, fmt.Sprintf("wget will not read %s: %v", own, err))
		return []byte(line), 0o644
	}
	if mode&0o004 == 0 {
		mode = 0o600
	} else {
		mode = 0o644
	}
	text = bytes.TrimSuffix(text, []byte(line)) // own may be the file that is written here
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	return append(text, line...), mode
}

// phpINI puts the path in single quotes, in which PHP expands nothing. A single quote goes
// between double ones.
func phpINI(bundle string) []byte {
	quoted := "'" + strings.ReplaceAll(bundle, "'", `'"'"'`) + "'"
	return []byte("curl.cainfo = " + quoted + "\nopenssl.cafile = " + quoted + "\n")
}
