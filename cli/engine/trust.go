package engine

import (
	"fmt"
	"os"
	"path/filepath"

	"robotsproxy/certs"
	"robotsproxy/certs/trust"
	"robotsproxy/cli/environment"
	"robotsproxy/config"
)

// OpenCA opens the CA that cfg names, or makes it if there is none.
func OpenCA(cfg config.Config) (*certs.CA, error) {
	folder, err := cfg.DataFolder()
	if err != nil {
		return nil, err
	}
	return certs.Open(cfg.HTTPS.Options, folder)
}

// openRunCA opens the CA of the data directory. If that cannot be written, it makes one
// that lasts for this run alone.
func openRunCA(cfg config.Config) (*certs.CA, error) {
	ca, err := OpenCA(cfg)
	if !isUnwritable(err) || cfg.HTTPS.Cert != "" {
		return ca, err
	}
	folder, err := os.MkdirTemp("", "robotsproxy-ca-") // for its owner alone
	if err != nil {
		return nil, fmt.Errorf("making a CA for this run: %w", err)
	}
	defer os.RemoveAll(folder)
	return certs.Open(cfg.HTTPS.Options, folder)
}

// TrustFolder is the folder of the files by which all clients of a [Service] trust its CA.
func TrustFolder(cfg config.Config) (string, error) {
	data, err := cfg.DataFolder()
	if err != nil {
		return "", err
	}
	return filepath.Abs(cfg.HTTPS.Trust.Folder(data))
}

// openTrust opens the CA and writes the files by which clients trust it.
func openTrust(cfg config.Config) (ca *certs.CA, warnings []string, err error) {
	if ca, err = OpenCA(cfg); err != nil {
		return nil, nil, err
	}
	folder, err := TrustFolder(cfg)
	if err != nil {
		return nil, nil, err
	}
	files, err := trust.Write(ca, folder, environment.OwnTrust(os.Getenv))
	if err != nil {
		return nil, nil, err
	}
	return ca, append(ca.Warnings(), files.Warnings...), nil
}
