package redisclient

import "crypto/x509"

// OpenTrusting is Open of a client that takes the certificates of roots.
func OpenTrusting(url string, roots *x509.CertPool) (*Client, error) {
	opts, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if opts.TLSConfig != nil {
		opts.TLSConfig.RootCAs = roots
	}
	return newClient(opts), nil
}
