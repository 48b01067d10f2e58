// Package hostname has the normal form of hosts, in which two spellings of one host are the
// same text: lower case, punycode, no dot at the end, an IPv6 address without brackets.
// URLs, names that TLS asks for and globs of the configuration all meet in it.
package hostname

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// The longest name, and the longest part of one, that the DNS can hold (RFC 1035
// 2.3.4).
const (
	maxHost  = 253
	maxLabel = 63
)

// maxSpelling is the length of the longest spelling of a host in a URL: each of its
// characters, and a dot at the end, as four octets of UTF-8 written %XX.
const maxSpelling = (maxHost + 1) * 4 * len("%XX")

// Parse returns the normal form of a host as it stands in a URL: a name, an IPv4 address, or
// an IPv6 address in brackets. Two spellings become one only if a resolver would be asked
// for the same name.
//
// It refuses what has no single reading, such as what some programs take for an address
// and others for a name (127.1, 0x7f000001).
func Parse(s string) (string, error) {
	if len(s) > maxSpelling {
		return "", fmt.Errorf("host of %d octets is longer than any name", len(s))
	}
	if literal, ok := strings.CutPrefix(s, "["); ok {
		addr, err := netip.ParseAddr(strings.TrimSuffix(literal, "]"))
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", fmt.Errorf("%s is not an IPv6 address without a zone", s)
		}
		return addr.String(), nil
	}
	name, err := url.PathUnescape(s) // RFC 3986 3.2.2
	if err != nil {
		return "", fmt.Errorf("host %q: a %% in it begins no %%XX", s)
	}
	return Normal(name)
}

// Normal returns the normal form of a name or an IPv4 address. It takes the name as it
// stands, as TLS does: a percent sign begins no escape, but is an error.
func Normal(s string) (string, error) {
	host, err := toASCII(s)
	if err != nil {
		return "", fmt.Errorf("host %q: %w", s, err)
	}
	host = strings.TrimSuffix(host, ".")
	if len(host) > maxHost {
		return "", fmt.Errorf("host of %d octets is longer than %d", len(host), maxHost)
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" || host[0] == '.' || strings.Contains(host, "..") {
		return "", fmt.Errorf("host %q is empty or has an empty label", s)
	}
	for label := range strings.SplitSeq(host, ".") {
		if len(label) > maxLabel {
			return "", fmt.Errorf("host %q has a label of %d octets, more than %d", s, len(label), maxLabel)
		}
	}
	for i := range len(host) {
		if c := host[i]; !isLetter(c) && !isDigit(c) && c != '-' && c != '_' && c != '.' {
			return "", fmt.Errorf("host %q: no name has a %q in it", s, c)
		}
	}
	if isDigit(last[0]) && isNumber(last) {
		if _, err := netip.ParseAddr(host); err != nil {
			return "", fmt.Errorf("host %q ends like an IPv4 address, but isn't one in its usual form", s)
		}
	}
	return host, nil
}

// Glob returns the normal form of a glob over hosts, in which * is any run of characters
// and ? is one. It is to be compared with hosts in normal form. An IPv6 address may stand
// in brackets.
//
// A label that is not in ASCII is compared in punycode, where one other character makes
// another text. So it must not hold a * or ?.
func Glob(pattern string) (string, error) {
	if literal, ok := strings.CutPrefix(pattern, "["); ok {
		pattern = strings.TrimSuffix(literal, "]")
	}
	if addr, err := netip.ParseAddr(pattern); err == nil {
		return addr.String(), nil
	}
	if err := checkLength(pattern); err != nil {
		return "", err
	}
	labels := strings.Split(wideDelimiters.Replace(pattern), ".")
	for i, label := range labels {
		normal, err := toASCII(label)
		if err != nil {
			return "", err
		}
		if !isASCII(label) && strings.HasPrefix(normal, "xn--") && strings.ContainsAny(label, "*?") {
			return "", fmt.Errorf("%q has characters outside ASCII beside a * or ?; write the whole label, or * in its place", label)
		}
		labels[i] = normal
	}
	return strings.TrimSuffix(strings.Join(labels, "."), "."), nil
}

// wideDelimiters replaces the characters that UTS 46 takes for a dot, or for a * or ?.
var wideDelimiters = strings.NewReplacer("。", ".", "．", ".", "｡", ".", "＊", "*", "？", "?", "﹡", "*", "﹖", "?")

// isNumber reports whether a label that begins with a digit may be read as a
// number: decimal, octal, or hexadecimal after 0x.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// profile maps international names as browsers and Go's http.Transport do (UTS
// 46, non-transitional), but takes the underscores that real hosts have.
var profile = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.StrictDomainName(false))

// toASCII returns a host in lower case and punycode.
func toASCII(host string) (string, error) {
	if isASCII(host) {
		return strings.ToLower(host), nil
	}
	if !utf8.ValidString(host) {
		return "", errors.New("it is not UTF-8")
	}
	if err := checkLength(host); err != nil {
		return "", err
	}
	return profile.ToASCII(host)
}

// checkLength refuses a host of more characters than a DNS name may have octets. Punycode
// is never shorter than the name that it stands for, and takes time that grows with the
// square of its length.
func checkLength(host string) error {
	if n := utf8.RuneCountInString(strings.TrimSuffix(host, ".")); n > maxHost {
		return fmt.Errorf("its %d characters are more than %d", n, maxHost)
	}
	return nil
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
