package gate

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

// edges are all but the zero value.
var edges = []Edge{Challenged, TurnedAway, Priced}

func edgeOf(status int, header http.Header) Edge {
	switch {
	case header.Get("Cf-Mitigated") == "challenge":
		return Challenged
	case status == http.StatusPaymentRequired:
		return Priced
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		return TurnedAway
	}
	return ""
}

// maxPrice bounds the price that a site names, in octets.
const maxPrice = 100

// NoteEdge notes, for the log and the metrics, whether the origin turns away with this response
// what its robots.txt allows. Where nobody asked for the robots.txt, it notes nothing.
func (a *Admission) NoteEdge(status int, header http.Header) {
	if a.Judgment != Allowed || a.Reason == Overridden || a.Reason == Exempt {
		return
	}
	a.edge = edgeOf(status, header)
	if a.edge == Priced {
		a.price = printable.Cut(printable.Line(header.Get("Crawler-Price")), maxPrice)
	}
	if a.edge != "" {
		a.gate.recorder.edge.WithLabelValues(a.Identity, string(a.edge)).Inc()
	}
}
