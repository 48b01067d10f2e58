package fetch

import (
	"net/http"
	"slices"
	"strings"
)

// Cloudflare is the one content delivery network that a fetch recognizes.
const Cloudflare = "cloudflare"

// cdnOf names the network by which an answer came; "": none that is known. It never returns
// text of the site.
func cdnOf(header http.Header) string {
	isCloudflare := func(server string) bool { return strings.EqualFold(strings.TrimSpace(server), "cloudflare") }
	if header.Get("CF-RAY") != "" || slices.ContainsFunc(header.Values("Server"), isCloudflare) {
		return Cloudflare
	}
	return ""
}
