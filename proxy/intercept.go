package proxy

import (
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"

	"robotsproxy/internal/coalesce"
	"robotsproxy/internal/hostname"
)

// intercept ends the client's TLS with a certificate of the local CA, and hands the
// requests inside to the inner server.
func (s *Server) intercept(t *tunnel) {
	s.limitOpening(t)
	t.handshake = s.distrust.Handshake(t.RemoteAddr(), t.origin.Host)
	conn := tls.Server(t, s.tls)
	// Without the request's context: net/http cancels it when the client leaves, which
	// would hide why the handshake failed.
	if err := conn.Handshake(); err != nil {
		t.handshake.Failed(err)
		conn.Close()
		return
	}
	t.handshake.Done()
	if conn.ConnectionState().NegotiatedProtocol == "h2" {
		s.coalesced.Add(t.Conn.Conn)
		t.Conn.Conn = coalesce.New(t.Conn.Conn)
	}
	s.enter(t, conn, s.inside)
}

// newTLS returns the configuration for clients in all tunnels, which share its session
// tickets.
//
// ML-KEM protects recorded traffic from those who may break X25519 some day. But nobody
// records traffic that stays on the machine, and ML-KEM takes a fifth of the time that a
// new tunnel takes. So clients on this machine get it only if they support nothing else.
func (s *Server) newTLS() *tls.Config {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1", "http/1.0"},
		GetCertificate: s.leaf,
	}
	local := config.Clone()
	local.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		addr, isTCP := hello.Conn.RemoteAddr().(*net.TCPAddr)
		if isTCP && addr.IP.IsLoopback() && slices.Contains(hello.SupportedCurves, tls.X25519) {
			return local, nil
		}
		return nil, nil // config itself
	}
	return config
}

// leaf returns the certificate for the name that the client's TLS asks for, else for the
// host of the tunnel.
func (s *Server) leaf(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	t := hello.Conn.(*tunnel)
	t.handshake.CertificateShown()
	if hello.ServerName == "" {
		return s.ca.Leaf(t.origin.Host)
	}
	host, err := tlsName(hello.ServerName)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return s.ca.Leaf(host)
}

// tlsName returns the normal form of the name of the server that a client's TLS asks for. Some
// clients (HTTrack) name the port too, against RFC 6066 3.
func tlsName(asked string) (string, error) {
	name, _, _ := strings.Cut(asked, ":")
	return hostname.Normal(name)
}
