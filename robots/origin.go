package robots

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Origin is what one robots.txt governs: scheme, host and port (RFC 9309 2.3).
// Equal origins are equal as Go values. The zero value is no origin.
type Origin struct {
	Scheme string // http, https or ftp
	Host   string // lower case, punycode, no dot at the end; an IPv6 address without brackets
	Port   string // always there, also the scheme's default
}

// ParseOrigin reads scheme://host[:port], in any spelling that ParseTarget takes
// in a URL, and nothing else.
func ParseOrigin(s string) (Origin, error) {
	o, userinfo, rest, err := splitURL(s)
	switch {
	case err != nil:
		return Origin{}, fmt.Errorf("read origin: %w", err)
	case userinfo:
		return Origin{}, fmt.Errorf("read origin: a user name stands before the host; write %s", o)
	case rest != "":
		return Origin{}, fmt.Errorf("read origin: %q follows the host; write %s", rest, o)
	}
	return o, nil
}

// String is scheme://host[:port] without a default port.
func (o Origin) String() string { return o.url("") }

// Authority is host[:port] without a default port, as it stands in a URL and in
// a Host header.
func (o Origin) Authority() string { return o.join("", "", "") }

// RobotsURL is the URL of the robots.txt that governs the origin.
func (o Origin) RobotsURL() string { return o.url("/robots.txt") }

func (o Origin) url(path string) string {
	if o == (Origin{}) {
		return path
	}
	return o.join(o.Scheme, "://", path)
}

// join sets the authority between other parts, all at once: it is on every request's
// way.
func (o Origin) join(scheme, slashes, path string) string {
	opening, closing, colon, port := "", "", ":", o.Port
	if strings.Contains(o.Host, ":") {
		opening, closing = "[", "]"
	}
	if port == defaultPort(o.Scheme) {
		colon, port = "", ""
	}
	return scheme + slashes + opening + o.Host + closing + colon + port + path
}

// splitURL reads the origin that an absolute URL begins with, reports whether
// there is userinfo before its host, and gives what follows.
func splitURL(url string) (o Origin, userinfo bool, rest string, err error) {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return o, false, "", errors.New("no scheme://host in it")
	}
	if o.Scheme, err = parseScheme(scheme); err != nil {
		return Origin{}, false, "", err
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, rest = rest[:end], rest[end:]
	} else {
		rest = ""
	}
	user, hostport, userinfo := strings.Cut(authority, "@")
	if !userinfo {
		hostport = user
	}
	if strings.Contains(hostport, "@") || strings.Contains(authority, `\`) {
		return Origin{}, false, "", errors.New(`a second "@" or a "\" before the path; write %40 or %5C`)
	}
	host, port, err := splitPort(hostport)
	if err != nil {
		return Origin{}, false, "", err
	}
	if o.Host, err = parseHost(host); err != nil {
		return Origin{}, false, "", err
	}
	if o.Port, err = parsePort(port, o.Scheme); err != nil {
		return Origin{}, false, "", err
	}
	return o, userinfo, rest, nil
}

// parseScheme takes ws and wss for http and https: a WebSocket begins as an HTTP
// request to the same server.
func parseScheme(s string) (string, error) {
	switch s = strings.ToLower(s); s {
	case "http", "https", "ftp":
		return s, nil
	case "ws":
		return "http", nil
	case "wss":
		return "https", nil
	}
	return "", fmt.Errorf("scheme %q has no robots.txt; http, https and ftp have", s)
}

func splitPort(hostport string) (host, port string, err error) {
	end := strings.IndexByte(hostport, ':')
	if strings.HasPrefix(hostport, "[") {
		end = strings.IndexByte(hostport, ']') + 1
		if end == 0 {
			return "", "", fmt.Errorf("host %q has no closing bracket", hostport)
		}
	}
	if end < 0 || end == len(hostport) {
		return hostport, "", nil
	}
	if hostport[end] != ':' {
		return "", "", fmt.Errorf("port %q after the host has no colon", hostport[end:])
	}
	return hostport[:end], hostport[end+1:], nil
}

// parsePort takes an empty port for the default one (RFC 3986 6.2.3).
func parsePort(s, scheme string) (string, error) {
	if s == "" {
		return defaultPort(scheme), nil
	}
	if n, err := strconv.ParseUint(s, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("port %q is not a number from 1 to 65535", s)
	}
	return strings.TrimLeft(s, "0"), nil
}

func defaultPort(scheme string) string {
	switch scheme {
	case "http":
		return "80"
	case "https":
		return "443"
	default:
		return "21"
	}
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

// parseHost gives the one spelling of a host. It promises that two spellings
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

// Punycode is a host, or a glob over hosts, in punycode. It refuses one of more
// characters than a name of the DNS has octets: punycode is never shorter than the
// name that it stands for, and takes time that grows with its square.
func Punycode(profile *idna.Profile, host string) (string, error) {
	if n := utf8.RuneCountInString(strings.TrimSuffix(host, ".")); n > maxHost {
		return "", fmt.Errorf("its %d characters are more than %d", n, maxHost)
	}
	return profile.ToASCII(host)
}

// toASCII decodes a host's percent-encoded octets (RFC 3986 3.2.2) and gives it
// in lower case and punycode.
func toASCII(host string) (string, error) {
	if strings.Contains(host, "%") {
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
		host = string(decoded)
	}
	if !utf8.ValidString(host) {
		return "", errors.New("it is not UTF-8")
	}
	for i := range len(host) {
		if host[i] >= utf8.RuneSelf {
			return Punycode(hosts, host)
		}
	}
	return strings.ToLower(host), nil
}
