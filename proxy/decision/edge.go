package decision

import (
	"net/http"

	"robotsproxy/internal/printable"
)

// Edge is what a site, or the network before it, does to a request that its robots.txt allows.
// The zero value is nothing of the kind.
type Edge string

const (
	Challenged Edge = "challenged" // it wants to see a browser, or a person (Cf-Mitigated: challenge)
	TurnedAway Edge = "refused"    // 401, 403 or 429
	Priced     Edge = "priced"     // 402: it wants to be paid
)

// Phrase says in a few words what the origin does. price is what it names, if any.
func (e Edge) Phrase(price string) string {
	switch {
	case e == Challenged:
		return "the site wants to see a browser"
	case e == TurnedAway:
		return "the site itself refuses it"
	case e == Priced && price != "":
		return "the site wants to be paid: " + price
	case e == Priced:
		return "the site wants to be paid"
	}
	return ""
}

// edges are all but the zero value.
var edges = []Edge{Challenged, TurnedAway, Priced}

// maxPrice bounds the price that a site names, in octets.
const maxPrice = 100

// EdgeOf returns what a response does to a request that robots.txt allows, and the price that it
// names if that is [Priced].
func EdgeOf(status int, header http.Header) (edge Edge, price string) {
	mitigated := header["Cf-Mitigated"] // canonical: Get would check that for every response
	switch {
	case len(mitigated) > 0 && mitigated[0] == "challenge":
		return Challenged, ""
	case status == http.StatusPaymentRequired:
		return Priced, printable.Cut(printable.Line(header.Get("Crawler-Price")), maxPrice)
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		return TurnedAway, ""
	}
	return "", ""
}
