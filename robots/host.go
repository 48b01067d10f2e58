package robots

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// DefaultPort is the port of a scheme's URLs that name none (RFC 3986 6.2.3); "" for a
// scheme other than http, https and ftp.
func DefaultPort(scheme string) string {
	switch scheme {
	case "http":
		return "80"
	case "https":
		return "443"
	case "ftp":
		return "21"
	}
	return ""
}

// The longest name, and the longest part of one, that the DNS can hold (RFC 1035
// 2.3.4).
const (
	maxHost  = 253
	maxLabel = 63
)

// maxSpelling is the longest that a URL can spell a host: each of its characters, and
// a dot at the end, as four octets of UTF-8 written %XX.
const maxSpelling = (maxHost + 1) * 4 * len("%XX")

// parseHost gives the one spelling of a URL's host. It promises that two spellings
// become one only if a resolver would be asked for the same name, and refuses
// what some programs take for an address and others for a name (127.1,
// 0x7f000001), or what has no single reading.
func parseHost(s string) (string, error) {
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
	name, err := unescapeHost(s)
	if err != nil {
		return "", fmt.Errorf("host %q: %w", s, err)
	}
	return HostName(name)
}

// HostName is the normal form of a name or an IPv4 address, as [Origin] has it: in lower
// case and punycode, without a dot at the end. The name is taken as it stands, as TLS
// does: a percent sign begins no escape, but is an error.
func HostName(s string) (string, error) {
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

// HostPattern is the normal form of a glob over hosts, in which * is any run of characters
// and ? is one: that of the hosts that it is compared with, as [Origin] has them. An IPv6
// address may stand in brackets, and has none then.
//
// A label that is not in ASCII is compared in punycode, which is another text as soon as
// one of its characters is. So no * or ? may stand in it.
func HostPattern(pattern string) (string, error) {
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

// wideDelimiters has the characters that UTS 46 takes for a dot, or for a * or ?.
var wideDelimiters = strings.NewReplacer("。", ".", "．", ".", "｡", ".", "＊", "*", "？", "?", "﹡", "*", "﹖", "?")

// isNumber reports whether a label that begins with a digit may be read as a
// number: decimal, octal, or hexadecimal after 0x.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// hosts maps international names as browsers and Go's http.Transport do (UTS
// 46, non-transitional), but takes the underscores that real hosts have.
var hosts = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.StrictDomainName(false))

// toASCII gives a host in lower case and punycode.
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
	return hosts.ToASCII(host)
}

// checkLength refuses a host of more characters than a name of the DNS has octets. Punycode
// is never shorter than the name that it stands for, and takes time that grows with the
// square of its length.
func checkLength(host string) error {
	if n := utf8.RuneCountInString(strings.TrimSuffix(host, ".")); n > maxHost {
		return fmt.Errorf("its %d characters are more than %d", n, maxHost)
	}
	return nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// unescapeHost decodes a host's percent-encoded octets (RFC 3986 3.2.2).
func unescapeHost(host string) (string, error) {
	if !strings.Contains(host, "%") {
		return host, nil
	}
	decoded := make([]byte, 0, len(host))
	for i := 0; i < len(host); i++ {
		c := host[i]
		if c == '%' {
			var ok bool
			if c, ok = unescape(host[i:]); !ok {
				return "", errors.New("a % in it begins no %XX")
			}
			i += 2
		}
		decoded = append(decoded, c)
	}
	return string(decoded), nil
}
