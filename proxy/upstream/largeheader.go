package upstream

import "net/http"

// maxOrdinaryHeader is the largest header that no server is known to refuse, in the measure of
// RFC 9113 6.5.2: the octets of names and values, and 32 more for each field. The narrowest
// bounds that servers have by default are 100 fields and 4096 octets.
const maxOrdinaryHeader = 3 << 10

// HasLargeHeader reports whether a request's header is so large that an origin may fail the
// request for that alone, which says nothing about how it would answer others.
func HasLargeHeader(r *http.Request) bool {
	const perField = 32
	size := len(r.URL.Opaque) + len(r.URL.Path) + len(r.URL.RawQuery)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value) + perField
		}
	}
	return size > maxOrdinaryHeader
}

// MayBeForHeader reports whether RoundTrip may have returned err because the origin breaks off,
// or does not answer, requests with a header as large as r's.
func MayBeForHeader(err error, r *http.Request) bool {
	switch _, kind := Failure(err); kind {
	case CutShort, "http_protocol_error", "http_response_timeout": // others come before it reads a header
		return HasLargeHeader(r)
	}
	return false
}
