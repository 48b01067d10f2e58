package policy

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
)

// A statusError is a response that counts as a failure.
type statusError int

func (s statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", int(s), http.StatusText(int(s))))
}

// maxCause bounds what is kept of a cause, some of which origins can write.
const maxCause = 200

// cause says in a few words why a fetch failed, for people.
func cause(err error) string {
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		if lookup.IsNotFound {
			return "no such host"
		}
		return "the name could not be looked up"
	}
	if cert, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return short("certificate not trusted: " + cert.Err.Error())
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
	return short(err.Error())
}

func short(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxCause)], "")
}
