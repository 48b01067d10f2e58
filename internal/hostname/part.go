package hostname

import "strings"

// A Part is a part of a host, by which people look for hosts. It finds a host that is kept in
// punycode by its Unicode form too.
type Part struct{ ascii, unicode string }

// PartOf returns the part that a text is, in any case.
func PartOf(text string) Part {
	p := Part{ascii: strings.ToLower(strings.TrimSpace(text))}
	p.unicode = p.ascii
	if !isASCII(p.ascii) && checkLength(p.ascii) == nil {
		p.unicode, _ = profile.ToUnicode(p.ascii) // its normal form, even if it is no whole host
	}
	return p
}

// In reports whether a host, or a text around one, holds the part. The host must be in lower
// case and punycode.
func (p Part) In(host string) bool {
	return strings.Contains(host, p.ascii) || strings.Contains(host, Punycode) && strings.Contains(toUnicode(host), p.unicode)
}

// Punycode is how labels that stand for others begin (RFC 5890 2.3.2.1).
const Punycode = "xn--"

// IsASCII reports whether the part can be one of a host in punycode.
func (p Part) IsASCII() bool { return isASCII(p.ascii) }

// String returns the part in lower case.
func (p Part) String() string { return p.ascii }

// toUnicode replaces punycode in a host, or in a text around one.
func toUnicode(text string) string {
	scheme, host, found := strings.Cut(text, "://")
	if !found {
		scheme, host = "", text
	}
	host, port, _ := strings.Cut(host, ":") // no address in brackets has punycode
	if wide, err := profile.ToUnicode(host); err == nil {
		host = wide
	}
	if found {
		host = scheme + "://" + host
	}
	if port != "" {
		host += ":" + port
	}
	return host
}
