package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"syscall"
)

// failure says how a request that found no answer upstream is answered: with
// which status and which error type of RFC 9209 2.3.
func failure(err error) answer {
	a := answer{status: http.StatusBadGateway, kind: "http_response_incomplete", details: "no answer from upstream: " + err.Error()}
	var (
		dns      *net.DNSError
		dial     *net.OpError
		netErr   net.Error
		cert     *tls.CertificateVerificationError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		record   tls.RecordHeaderError
		garbled  textproto.ProtocolError
	)
	timedOut := errors.As(err, &netErr) && netErr.Timeout()
	dialling := errors.As(err, &dial) && dial.Op == "dial"
	switch {
	case errors.Is(err, errDenied):
		a.kind = "destination_ip_prohibited"
	case errors.Is(err, errOwn):
		a.kind = "proxy_loop_detected"
	case errors.As(err, &dns):
		a.kind = "dns_error"
	case errors.As(err, &cert), errors.As(err, &unknown), errors.As(err, &hostname):
		a.kind = "tls_certificate_error"
	case timedOut && (dialling || strings.Contains(err.Error(), "TLS handshake")):
		a.status, a.kind = http.StatusGatewayTimeout, "connection_timeout"
	case timedOut:
		a.status, a.kind = http.StatusGatewayTimeout, "http_response_timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		a.kind = "connection_refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		a.kind = "destination_ip_unroutable"
	case errors.As(err, &record), strings.Contains(err.Error(), "tls: "):
		a.kind = "tls_protocol_error"
	case errors.As(err, &garbled), strings.Contains(err.Error(), "malformed HTTP"):
		a.kind = "http_protocol_error"
	}
	return a
}
