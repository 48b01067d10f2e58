package certs

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	leafLife      = 90 * day // browsers refuse 398 days or more
	leafBackdate  = day
	maxLeaves     = 1024 // some 2 KiB each; signing one costs less than the handshake that needs it
	maxCommonName = 64   // RFC 5280, upper bounds
)

// A leaf is a host's certificate. It exists from the first request for it on, signed or not.
type leaf struct {
	host                string
	notBefore, notAfter time.Time
	renew               time.Time

	once sync.Once
	cert *tls.Certificate
	err  error
}

// Leaf is the certificate for a host, with the chain up to the CA. It is signed once,
// kept, and replaced well before it expires. No certificate outlives the CA.
//
// host is a name in its normal form (lower case, punycode, no dot at the end) or an IP
// address without brackets and zone. Leaf does not check that: it signs what it is given.
func (ca *CA) Leaf(host string) (*tls.Certificate, error) {
	now := ca.now()
	if now.After(ca.cert.NotAfter) {
		return nil, fmt.Errorf("sign a certificate for %s: the CA %s expired on %s",
			host, ca.path, ca.cert.NotAfter.Format(time.RFC3339))
	}
	l := ca.leaf(host, now)
	l.once.Do(func() { l.cert, l.err = ca.sign(l) })
	return l.cert, l.err
}

// leaf finds host's leaf or begins one. The caller signs it, outside the lock.
func (ca *CA) leaf(host string, now time.Time) *leaf {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	l, found := ca.leaves.Get(host)
	if found && now.Before(l.renew) && !now.Before(l.notBefore) { // a clock may be set back
		return l
	}
	l = ca.newLeaf(host, now)
	ca.leaves.Add(host, l)
	return l
}

func (ca *CA) newLeaf(host string, now time.Time) *leaf {
	end := now.Add(leafLife)
	if end.After(ca.cert.NotAfter) {
		end = ca.cert.NotAfter
	}
	return &leaf{
		host:      host,
		notBefore: now.Add(-leafBackdate),
		notAfter:  end,
		renew:     now.Add(end.Sub(now) * 7 / 8),
	}
}

func (ca *CA) sign(l *leaf) (*tls.Certificate, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{Organization: []string{"robotsproxy"}}, // never empty: strict clients want a critical SAN then
		NotBefore:             l.notBefore,
		NotAfter:              l.notAfter,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if len(l.host) <= maxCommonName {
		template.Subject.CommonName = l.host
	}
	if ip := net.ParseIP(l.host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{l.host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, ca.leafKey.Public(), ca.signer)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate for %s: %w", l.host, err)
	}
	return &tls.Certificate{
		Certificate: append([][]byte{der}, ca.chain...),
		PrivateKey:  ca.leafKey,
	}, nil
}
