package certs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"robotsproxy/internal/keyerr"
)

// Server names the files of the certificate that the proxy itself shows to clients that
// speak TLS to it. In a configuration it is part of the section "listen_tls".
type Server struct {
	Cert string `yaml:"cert,path"` // PEM: the proxy's own certificate first, then the CAs above it, without the root
	Key  string `yaml:"key,path"`  // PEM: PKCS#8, SEC1 or PKCS#1, not encrypted

	Now func() time.Time `yaml:"-"` // nil means time.Now
}

// serverExpiryNotice is how long before the end of a proxy's own certificate its operator is
// told. ACME clients renew certificates earlier.
const serverExpiryNotice = 7 * day

// Validate says why the files cannot be served now. It joins the faults, each a
// [keyerr.Error].
func (s Server) Validate() error {
	switch {
	case s.Cert == "":
		return keyerr.New("cert", "there is no certificate for address; name its PEM file")
	case s.Key == "":
		return keyerr.New("key", "there is no key for cert; name its PEM file")
	}
	_, _, err := s.Load()
	return err
}

// Load reads the files. The warnings are sentences about what works today and should still
// be fixed. The error is a [keyerr.Error].
func (s Server) Load() (_ *tls.Certificate, warnings []string, err error) {
	chain, err := readChain(s.Cert)
	if err != nil {
		return nil, nil, keyerr.New("cert", "read the proxy's own certificate: %w%s", err, mendPermission(err))
	}
	now, own := Options{Now: s.Now}.now(), chain[0]
	switch {
	case now.After(own.NotAfter):
		err = fmt.Errorf("the certificate %s expired on %s; renew it", s.Cert, own.NotAfter.Format(time.RFC3339))
	case now.Before(own.NotBefore):
		err = fmt.Errorf("the certificate %s %w %s on, and this machine's clock says %s; set the clock right, or wait",
			s.Cert, errEarly, own.NotBefore.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case len(own.DNSNames)+len(own.IPAddresses) == 0:
		err = errors.New("the certificate " + s.Cert + " names no host, so no client accepts it; have one issued with the proxy's host as a subject alternative name")
	}
	if err != nil {
		return nil, nil, keyerr.Wrap("cert", err)
	}
	pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
	if err != nil {
		return nil, nil, keyerr.New("key", "reading the key of %s from %s: %w%s", s.Cert, s.Key, err, mendPermission(err))
	}
	if mayBeReadByAll(s.Key) {
		warnings = append(warnings, fmt.Sprintf("everyone on this machine may open the key %s, and with it pose as this proxy; chmod 600 it", s.Key))
	}
	if own.NotAfter.Sub(now) < serverExpiryNotice {
		warnings = append(warnings, fmt.Sprintf("the proxy's own certificate %s expires on %s; renew it, then send SIGHUP", s.Cert, own.NotAfter.Format(time.DateOnly)))
	}
	return &pair, warnings, nil
}
