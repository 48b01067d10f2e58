package pace

import (
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"

	"robotsproxy/internal/enum"
)

// Scope says what requests share their delays, holds and counts.
type Scope string

const (
	// PerOrigin is scheme, host and port. In an origin, each group of its robots.txt has
	// turns of its own.
	PerOrigin Scope = "origin"
	// PerSite is a registrable domain, such as example.co.uk, with all its hosts, schemes and
	// ports. All groups share the turns, since each host has groups of its own.
	PerSite Scope = "site"
)

// UnmarshalText reads one of the words above.
func (s *Scope) UnmarshalText(text []byte) error {
	return enum.Unmarshal(s, text, PerOrigin, PerSite)
}

// place puts a request where the scope has it take turns.
func (s Scope) place(r *Request) {
	if s == PerSite {
		r.Origin, r.Group = registrable(r.Origin), ""
	}
}

// registrable returns the registrable domain of an origin by the public suffix list. IP
// addresses, single labels and public suffixes stand for themselves.
func registrable(origin string) string {
	_, host, _ := strings.Cut(origin, "://")
	if strings.HasPrefix(host, "[") { // an IPv6 address
		address, _, _ := strings.Cut(host, "]")
		return address[1:]
	}
	host, _, _ = strings.Cut(host, ":")
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return domain
	}
	return host
}
