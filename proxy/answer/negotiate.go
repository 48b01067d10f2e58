package answer

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// format is how an answer of the proxy's own is written.
type format int

const (
	asText format = iota
	asHTML
	asProblem
)

// offers are the media types by which a client asks for a format. Of those that it accepts
// equally, the first counts.
var offers = []struct {
	mediaType string
	format    format
}{
	{"text/plain", asText},
	{"text/html", asHTML},
	{"application/problem+json", asProblem},
	{"application/json", asProblem},
}

// PrefersHTML reports whether a request with the header h accepts HTML best.
func PrefersHTML(h http.Header) bool { return formatFor(h) == asHTML }

// formatFor is the format that a request accepts best (RFC 9110 12.5.1). One that
// accepts none of them gets text all the same.
func formatFor(h http.Header) format {
	best, most := asText, 0.0
	for _, offer := range offers {
		if q := quality(h["Accept"], offer.mediaType); q > most {
			best, most = offer.format, q
		}
	}
	return best
}

// quality is how welcome a media type is, from 0 to 1, by the range of Accept
// that names it most closely.
func quality(accept []string, mediaType string) float64 {
	kind, _, _ := strings.Cut(mediaType, "/")
	closest, q := 0, 0.0
	for item := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, params, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		closeness := 0
		switch name {
		case mediaType:
			closeness = 3
		case kind + "/*":
			closeness = 2
		case "*/*":
			closeness = 1
		}
		if closeness <= closest {
			continue
		}
		closest, q = closeness, 1
		if text, given := params["q"]; given {
			q, _ = strconv.ParseFloat(text, 64)
		}
	}
	return q
}
