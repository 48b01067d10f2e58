package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"syscall"

	"robotsproxy/internal/loopback"
	"robotsproxy/internal/shortage"
)

// Error types of RFC 9209 2.3.
const (
	CutShort       = "http_response_incomplete"  // 2.3.18; also for failures that have no type of their own
	LimitReached   = "connection_limit_reached"  // 2.3.12
	Prohibited     = "destination_ip_prohibited" // 2.3.5; of addresses that are never dialled
	headerTooLarge = "http_response_header_section_size"
	badRequest     = "http_request_error" // 2.3.16
)

// FailureKinds are the error types of RFC 9209 2.3 that requests to origins may end in,
// whether the origin or this machine is at fault.
var FailureKinds = []string{
	LimitReached, "proxy_internal_error",
	Prohibited, "destination_ip_unroutable", "proxy_loop_detected", "dns_error", "tls_certificate_error",
	"tls_protocol_error", "connection_refused", "connection_timeout", "connection_read_timeout", "connection_write_timeout",
	"http_response_timeout", "http_protocol_error", headerTooLarge, badRequest, CutShort,
}

// IsOriginsFault reports whether RoundTrip or Dial has returned err because the origin could
// not be reached or did not answer properly: neither because it must not be asked so, nor for
// want of something on this machine. A parent proxy's failure counts as the origin's.
func IsOriginsFault(err error) bool {
	_, kind := Failure(err)
	return kind != Prohibited && kind != "proxy_loop_detected" && kind != badRequest && !shortage.Is(err)
}

// Failure returns how to answer a request for which RoundTrip or Dial has returned err: the
// status, and the error type of RFC 9209 2.3.
func Failure(err error) (status int, kind string) {
	status, kind = http.StatusBadGateway, CutShort
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
	case errors.Is(err, errDenied), errors.Is(err, errUnspecified), errors.Is(err, loopback.ErrElsewhere):
		kind = Prohibited
	case errors.Is(err, errOwn):
		kind = "proxy_loop_detected"
	case errors.As(err, &dns):
		kind = "dns_error"
	case errors.As(err, &cert), errors.As(err, &unknown), errors.As(err, &hostname):
		kind = "tls_certificate_error"
	case timedOut && (dialling || strings.Contains(err.Error(), "TLS handshake")):
		status, kind = http.StatusGatewayTimeout, "connection_timeout"
	case timedOut:
		status, kind = http.StatusGatewayTimeout, "http_response_timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		kind = "connection_refused"
	case errors.Is(err, syscall.EHOSTUNREACH):
		kind = "destination_ip_unroutable"
	case errors.As(err, &record), strings.Contains(err.Error(), "tls: "):
		kind = "tls_protocol_error"
	case strings.Contains(err.Error(), "response headers exceeded"), strings.Contains(err.Error(), "response header list larger"):
		kind = headerTooLarge
	case strings.Contains(err.Error(), "request header list larger"): // than the origin takes by HTTP/2
		status, kind = http.StatusRequestHeaderFieldsTooLarge, badRequest
	case errors.As(err, &garbled), strings.Contains(err.Error(), "malformed HTTP"), strings.Contains(err.Error(), "malformed response"),
		strings.Contains(err.Error(), "PROTOCOL_ERROR"):
		kind = "http_protocol_error"
	}
	return status, kind
}
