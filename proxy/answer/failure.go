package answer

import (
	"net/http"

	"robotsproxy/internal/printable"
	"robotsproxy/internal/shortage"
	"robotsproxy/proxy/upstream"
)

// InternalError is the error type of RFC 9209 2.3 for faults without a type of their own.
const InternalError = "proxy_internal_error"

// shortageAnswer returns the answer to a request that fails because this machine is short of
// something. That soon passes, or the operator is told.
func shortageAnswer(err error) Answer {
	a := Answer{
		Status:  http.StatusServiceUnavailable,
		Kind:    InternalError,
		Details: "this proxy's machine is short of something: " + printable.Cut(err.Error(), maxDetails),
		Advice:  "The origin has no part in it. Try again.",
		Header:  http.Header{"Retry-After": {"1"}},
	}
	switch {
	case shortage.OfDescriptors(err):
		a.Kind = upstream.LimitReached
	case shortage.OfNetwork(err):
		a.Kind = "destination_ip_unroutable"
	}
	return a
}

// Failure returns the answer to a request that err kept from its origin.
func Failure(err error) Answer {
	if shortage.Is(err) {
		return shortageAnswer(err)
	}
	status, kind := upstream.Failure(err)
	return Answer{Status: status, Kind: kind, Details: "no answer from the site: " + printable.Cut(err.Error(), maxDetails)}
}
