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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"robotsproxy/internal/loopback"
	"robotsproxy/internal/printable"
	"robotsproxy/internal/shortage"
)

// cutShort is the error type of RFC 9209 2.3.12, and of what has no other.
const cutShort = "http_response_incomplete"

// headerTooLarge is another error type of RFC 9209 2.3.
const headerTooLarge = "http_response_header_section_size"

// failureKinds are the error types that come of origins, and of what this machine is
// short of.
var failureKinds = []string{
	limitReached, internalError,
	"destination_ip_prohibited", "destination_ip_unroutable", "proxy_loop_detected", "dns_error", "tls_certificate_error",
	"tls_protocol_error", "connection_refused", "connection_timeout", "connection_read_timeout", "connection_write_timeout",
	"http_response_timeout", "http_protocol_error", headerTooLarge, cutShort,
}

// A request that this machine is too short of something for is answered by one of these,
// or by destination_ip_unroutable. RFC 9209 2.3 has the one for a limit on
// connections, the other for what has no type of its own.
const (
	limitReached  = "connection_limit_reached"
	internalError = "proxy_internal_error"
)

// newFailures counts what origins fail in. All error types are there from the start.
func newFailures(metrics prometheus.Registerer) *prometheus.CounterVec {
	failures := promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "robotsproxy_upstream_errors_total",
		Help: "Requests to which an origin gave no response or only a part, by the error type of RFC 9209.",
	}, []string{"error"})
	for _, kind := range failureKinds {
		failures.WithLabelValues(kind)
	}
	return failures
}

// failed answers, and counts, a request that found no answer upstream.
func (s *Server) failed(err error) answer {
	a := failure(err)
	s.failures.WithLabelValues(a.kind).Inc()
	return a
}

// unjudged answers a request that the gate could not judge: the client has left, the proxy
// is being stopped, or this machine is short of something.
func (s *Server) unjudged(err error) answer {
	if shortage.Is(err) {
		return s.failed(err)
	}
	return answer{status: http.StatusServiceUnavailable, kind: internalError, details: err.Error()}
}

// lacking answers a request that fails for what this machine is short of. That is soon
// over, or told to the operator.
func lacking(err error) answer {
	a := answer{
		status:  http.StatusServiceUnavailable,
		kind:    internalError,
		details: "this proxy's machine is short of something: " + printable.Cut(err.Error(), maxDetails),
		advice:  "The origin has no part in it. Try again.",
		header:  http.Header{"Retry-After": {"1"}},
	}
	switch {
	case shortage.OfDescriptors(err):
		a.kind = limitReached
	case shortage.OfNetwork(err):
		a.kind = "destination_ip_unroutable"
	}
	return a
}

// failure says how a request that found no answer upstream is answered: with
// which status and which error type of RFC 9209 2.3.
func failure(err error) answer {
	a := answer{status: http.StatusBadGateway, kind: cutShort, details: "no answer from upstream: " + printable.Cut(err.Error(), maxDetails)}
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
	case shortage.Is(err):
		return lacking(err)
	case errors.Is(err, errDenied), errors.Is(err, errUnspecified), errors.Is(err, loopback.ErrElsewhere):
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
	case errors.Is(err, syscall.EHOSTUNREACH):
		a.kind = "destination_ip_unroutable"
	case errors.As(err, &record), strings.Contains(err.Error(), "tls: "):
		a.kind = "tls_protocol_error"
	case strings.Contains(err.Error(), "response headers exceeded"), strings.Contains(err.Error(), "response header list larger"):
		a.kind = headerTooLarge
	case errors.As(err, &garbled), strings.Contains(err.Error(), "malformed HTTP"), strings.Contains(err.Error(), "malformed response"),
		strings.Contains(err.Error(), "PROTOCOL_ERROR"):
		a.kind = "http_protocol_error"
	}
	return a
}
