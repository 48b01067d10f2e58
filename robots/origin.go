package robots

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"robotsproxy/internal/hostname"
)

// Origin is what one robots.txt governs: scheme, host and port (RFC 9309 2.3).
// Equal origins are equal as Go values. The zero value is no origin.
type Origin struct {
	Scheme string // http, https or ftp
	Host   string // lower case, punycode, no dot at the end; an IPv6 address without brackets
	Port   string // always there, also the scheme's default
}

// ParseOrigin reads scheme://host[:port], in any spelling that ParseTarget accepts. It refuses
// a URL with anything more.
func ParseOrigin(s string) (Origin, error) {
	o, userinfo, rest, err := splitURL(s)
	switch {
	case errors.Is(err, errNoScheme):
		return Origin{}, noScheme(s, "")
	case err != nil:
		return Origin{}, fmt.Errorf("read origin: %w", err)
	case userinfo:
		return Origin{}, fmt.Errorf("read origin: a user name stands before the host; write %s", o)
	case rest != "":
		return Origin{}, fmt.Errorf("read origin: %q follows the host; write %s", rest, o)
	}
	return o, nil
}

// DefaultPort returns the port of a scheme's URLs that name none (RFC 3986 6.2.3); "" for
// schemes other than http, https and ftp.
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

// String is scheme://host[:port] without a default port.
func (o Origin) String() string { return o.url("") }

// Authority is host[:port] without a default port, as in a URL and in a Host header.
func (o Origin) Authority() string { return o.join("", "", "") }

// RobotsURL is the URL of the robots.txt that governs the origin.
func (o Origin) RobotsURL() string { return o.url("/robots.txt") }

func (o Origin) url(path string) string {
	if o == (Origin{}) {
		return path
	}
	return o.join(o.Scheme, "://", path)
}

// join puts the authority between other parts in one concatenation, since it is called for
// every request.
func (o Origin) join(scheme, slashes, path string) string {
	opening, closing, colon, port := "", "", ":", o.Port
	if strings.Contains(o.Host, ":") {
		opening, closing = "[", "]"
	}
	if port == DefaultPort(o.Scheme) {
		colon, port = "", ""
	}
	return scheme + slashes + opening + o.Host + closing + colon + port + path
}

var errNoScheme = errors.New("no scheme://host in it")

// noScheme is the error of a URL without a scheme. If it is a host, perhaps with a path, the
// error names the URL that the user may have meant; root is its path if it has none.
func noScheme(url, root string) error {
	o, userinfo, rest, err := splitURL("https://" + url)
	if err != nil || userinfo {
		return errNoScheme
	}
	if rest == "" {
		rest = root
	}
	return fmt.Errorf("no scheme; did you mean %s%s?", o, rest)
}

// splitURL reads the origin of an absolute URL, reports whether it has userinfo, and returns
// what follows the authority.
func splitURL(url string) (o Origin, userinfo bool, rest string, err error) {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return o, false, "", errNoScheme
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
	if o.Host, err = hostname.Parse(host); err != nil {
		return Origin{}, false, "", err
	}
	if o.Port, err = parsePort(port, o.Scheme); err != nil {
		return Origin{}, false, "", err
	}
	return o, userinfo, rest, nil
}

// parseScheme reads ws and wss as http and https, since a WebSocket begins as an HTTP request
// to the same server.
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

// parsePort reads a port. An empty one is the scheme's default (RFC 3986 6.2.3).
func parsePort(s, scheme string) (string, error) {
	if s == "" {
		return DefaultPort(scheme), nil
	}
	if n, err := strconv.ParseUint(s, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("port %q is not a number from 1 to 65535", s)
	}
	return strings.TrimLeft(s, "0"), nil
}
