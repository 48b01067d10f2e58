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

// offers are the media types by which a client asks for a format. If it accepts several
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

// PrefersHTML reports whether a request with the header h prefers HTML.
func PrefersHTML(h http.Header) bool { return formatFor(h) == asHTML }

// formatFor returns the format that a request prefers (RFC 9110 12.5.1). If it accepts none,
// that is text.
func formatFor(h http.Header) format {
	best, most := asText, 0.0
	for _, offer := range offers {
		if q := quality(h["Accept"], offer.mediaType); q > most {
			best, most = offer.format, q
		}
	}
	return best
}

// quality returns the quality value of a media type, from 0 to 1, by the most specific range
// in Accept that matches it.
func quality(accept []string, mediaType string) float64 {
	kind, _, _ := strings.Cut(mediaType, "/")
	specificity, q := 0, 0.0
	for item := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, params, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		its := 0
		switch name {
		case mediaType:
			its = 3
		case kind + "/*":
			its = 2
		case "*/*":
			its = 1
		}
		if its <= specificity {
			continue
		}
		specificity, q = its, 1
		if text, given := params["q"]; given {
			q, _ = strconv.ParseFloat(text, 64)
		}
	}
	return q
}
