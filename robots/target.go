package robots

import (
	"errors"
	"fmt"
	"strings"

	"robotsproxy/robots/urlpath"
)

// Target is what a robots.txt sees of a URL.
type Target struct {
	Origin Origin
	Path   string // path and query as written; begins with "/", no fragment
}

// ParseTarget reads an absolute URL as a client writes it. It never re-encodes the text: Path
// is what the origin is asked for.
//
// It refuses URLs that have no single reading, so that none is judged as one thing and fetched
// as another: those with white space or control characters, a backslash before the path,
// several "@", a host or port in an unusual form, or a scheme other than http, https, ftp, ws
// and wss. Errors do not show the credentials that a URL may hold.
func ParseTarget(rawURL string) (Target, error) {
	for i := range len(rawURL) {
		if c := rawURL[i]; c <= ' ' || c == 0x7F {
			return Target{}, fmt.Errorf("read URL: a raw %q in it; write %%%02X", c, c)
		}
	}
	origin, _, rest, err := splitURL(rawURL)
	if errors.Is(err, errNoScheme) {
		return Target{}, noScheme(rawURL, "/")
	} else if err != nil {
		return Target{}, fmt.Errorf("read URL: %w", err)
	}
	path, _, _ := strings.Cut(rest, "#")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return Target{Origin: origin, Path: path}, nil
}

// CheckEscapes returns an error if a "%" before the query begins no %XX. Rules can be compared
// with such a path, but no request for it passes the proxy: Go's HTTP server refuses it first.
func (t Target) CheckEscapes() error {
	path, _, _ := strings.Cut(t.Path, "?")
	for at := strings.IndexByte(path, '%'); at >= 0; at = strings.IndexByte(path, '%') {
		if _, ok := urlpath.Unescape(path[at:]); !ok {
			return errors.New("read URL: a % in the path begins no %XX; write %25")
		}
		path = path[at+len("%XX"):]
	}
	return nil
}

// String is the URL without credentials and fragment.
func (t Target) String() string { return t.Origin.url(t.Path) }

// IsRobotsTxt reports whether the path is /robots.txt, in any spelling and with any query.
func (t Target) IsRobotsTxt() (is bool) {
	path, _, _ := strings.Cut(t.Path, "?")
	urlpath.WithNormal(path, func(normal string) { is = normal == "/robots.txt" })
	return is
}
