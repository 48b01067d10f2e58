package proxy

import (
	"crypto/tls"
	"errors"
	"net"
)

// SetCertificate sets the certificate that new clients of [Server.ServeTLS] are shown.
// Connections that are open stay as they are.
func (s *Server) SetCertificate(own *tls.Certificate) { s.own.Store(own) }

// ServeTLS is [Server.Serve] for clients that speak TLS to the proxy itself, with HTTP/1.1
// inside. They are shown the certificate that SetCertificate has set.
func (s *Server) ServeTLS(l net.Listener) error {
	secure := tls.NewListener(s.clients.Listener(l), &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1", "http/1.0"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if own := s.own.Load(); own != nil {
				return own, nil
			}
			return nil, errors.New("no certificate has been set")
		},
	})
	return s.serveOuterAt(secure)
}
