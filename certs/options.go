package certs

import (
	"errors"
	"io/fs"
	"time"

	"robotsproxy/internal/keyerr"
)

// Options name the CA's files. In a configuration they are part of the section "https". No
// files means ca.pem and ca-key.pem in the data directory, made at first use; files that are
// named are never written to.
type Options struct {
	Cert string `yaml:"ca_cert,path"` // PEM: the signing CA first, then the CAs above it, if any
	Key  string `yaml:"ca_key,path"`  // PEM: PKCS#8, SEC1 or PKCS#1, not encrypted

	Now func() time.Time `yaml:"-"` // nil means time.Now
}

// Defaults is a CA of the program's own.
func Defaults() Options { return Options{} }

// Validate refuses one file without the other, and files that are not of a valid CA. It joins
// what is wrong, each fault a [keyerr.Error].
func (o Options) Validate() error {
	switch {
	case o.Cert == "" && o.Key == "":
		return nil
	case o.Key == "":
		return keyerr.New("ca_cert", "ca_key is missing; give both, or neither to have a CA made")
	case o.Cert == "":
		return keyerr.New("ca_key", "ca_cert is missing; give both, or neither to have a CA made")
	}
	var errs []error
	chain, err := readCA(o.Cert, o.now())
	if err != nil {
		errs = append(errs, keyerr.New("ca_cert", "%w%s", err, mendPermission(err)))
	}
	key, err := readKey(o.Key)
	if err == nil && chain != nil {
		err = checkPair(o.Key, key, o.Cert, chain[0])
	}
	if err != nil {
		errs = append(errs, keyerr.New("ca_key", "%w%s", err, mendPermission(err)))
	}
	return errors.Join(errs...)
}

// now is the wall time, as the dates in certificates are. Round takes the monotonic reading
// away: by that, a certificate would not grow older while the machine sleeps, nor when its
// clock is set forward.
func (o Options) now() time.Time {
	now := o.Now
	if now == nil {
		now = time.Now
	}
	return now().Round(0)
}

func mendPermission(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "; give it to the user that robotsproxy runs as"
	}
	return ""
}
