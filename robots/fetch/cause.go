package fetch

import (
	"compress/gzip"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"robotsproxy/internal/printable"
)

// A statusError is a response that counts as a failure.
type statusError int

func (s statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", int(s), http.StatusText(int(s))))
}

// maxCause bounds a cause, in octets, since an origin can write a part of it.
const maxCause = 200

// explained is an error that states its cause in words of its own, for people: where the origin was
// not even asked, "connection refused" would blame it.
type explained interface {
	error
	Cause() string
}

// causeOf says in a few words why a fetch failed, for people.
func causeOf(err error) string {
	if own, ok := errors.AsType[explained](err); ok {
		return cutCause(own.Cause())
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		if lookup.IsNotFound {
			return "no such host"
		}
		return "the name could not be looked up"
	}
	if cert, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return cutCause("certificate not trusted: " + cert.Err.Error())
	}
	for _, known := range []struct {
		err   error
		words string
	}{
		{syscall.ECONNREFUSED, "connection refused"},
		{syscall.ECONNRESET, "connection reset"},
		{syscall.EHOSTUNREACH, "no route to the host"},
		{syscall.ENETUNREACH, "network unreachable"},
		{io.ErrUnexpectedEOF, "response cut short"},
		{io.EOF, "connection closed without a response"},
		{gzip.ErrHeader, "broken gzip"},
		{gzip.ErrChecksum, "broken gzip"},
	} {
		if errors.Is(err, known.err) {
			return known.words
		}
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "timed out"
	}
	return cutCause(err.Error())
}

func cutCause(s string) string { return printable.Cut(strings.ToValidUTF8(s, ""), maxCause) }
