package upstream

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/net/http/httpproxy"

	"robotsproxy/robots"
)

// Parents are the proxies through which origins are reached. The zero value has none, so
// that origins are dialled directly.
type Parents struct {
	byScheme map[string]*url.URL              // of the origin
	named    map[*url.URL]string              // which variable or key names the parent
	exempt   []string                         // the items of no_proxy
	exempts  func(*url.URL) (*url.URL, error) // returns nil for exempt URLs
}

// ParentsOf returns the parents that a user's environment variables name: http_proxy,
// https_proxy and ftp_proxy, with all_proxy in place of those that are unset. The hosts in
// no_proxy are exempt. As with curl, a lower-case name takes precedence over its upper-case
// form. An error names the variable at fault, without the credentials that it may hold.
func ParentsOf(getenv func(name string) string) (Parents, error) {
	either := func(name string) (value, found string) {
		if value := getenv(name); value != "" {
			return value, name
		}
		return getenv(strings.ToUpper(name)), strings.ToUpper(name)
	}
	p := Parents{byScheme: map[string]*url.URL{}, named: map[*url.URL]string{}}
	for _, scheme := range []string{"http", "https", "ftp"} {
		value, name := either(scheme + "_proxy")
		if value == "" {
			value, name = either("all_proxy")
		}
		if value == "" {
			continue
		}
		if !strings.Contains(value, "://") {
			value = "http://" + value
		}
		parent, err := parseParent(strings.Replace(value, "socks5h://", "socks5://", 1)) // names are left to the parent anyway
		if err != nil {
			return Parents{}, fmt.Errorf("the variable %s: %w", name, err)
		}
		p.byScheme[scheme], p.named[parent] = parent, name
	}
	noProxy, _ := either("no_proxy")
	for item := range strings.SplitSeq(noProxy, ",") {
		if item = strings.TrimSpace(item); item != "" {
			p.exempt = append(p.exempt, item)
		}
	}
	p.exempts = (&httpproxy.Config{HTTPProxy: "parent", HTTPSProxy: "parent", NoProxy: noProxy}).ProxyFunc()
	return p, nil
}

// Exempt returns the hosts that the user's no_proxy names. Clients that heed it reach them
// without any proxy.
func (p Parents) Exempt() []string { return p.exempt }

// of returns the parent through which an origin is reached; nil if it is dialled directly.
func (p Parents) of(origin robots.Origin) *url.URL {
	parent := p.byScheme[origin.Scheme]
	if parent == nil || len(p.exempt) > 0 && p.exemptsOrigin(origin) {
		return nil
	}
	return parent
}

func (p Parents) exemptsOrigin(origin robots.Origin) bool {
	addr, err := netip.ParseAddr(origin.Host)
	if origin.Host != "localhost" && (err != nil || !addr.IsLoopback()) {
		parent, err := p.exempts(&url.URL{Scheme: "http", Host: net.JoinHostPort(origin.Host, origin.Port)})
		return err == nil && parent == nil
	}
	// httpproxy exempts every loopback address, even if no_proxy does not name it.
	return slices.ContainsFunc(p.exempt, func(item string) bool {
		prefix, err := netip.ParsePrefix(item)
		return item == "*" || item == origin.Host || item == net.JoinHostPort(origin.Host, origin.Port) || err == nil && prefix.Contains(addr)
	})
}

// describe names a parent, and says where that is named, in errors.
func (p Parents) describe(parent *url.URL) string {
	port := robots.DefaultPort(parent.Scheme)
	if parent.Scheme == "socks5" {
		port = socksPort
	}
	return fmt.Sprintf("the parent proxy %s (from %s)", hostPort(parent, port), p.named[parent])
}

// A parentError is the failure of a connection to a parent proxy.
type parentError struct {
	parent string // as describe has it
	err    error
}

func (e *parentError) Error() string {
	if errors.Is(e.err, syscall.ECONNREFUSED) {
		return e.parent + " refused the connection"
	}
	return e.parent + " cannot be reached: " + e.err.Error()
}

func (e *parentError) Unwrap() error { return e.err }

// Cause is what a robots.txt that was to be fetched through the parent is unreachable for.
func (e *parentError) Cause() string { return e.Error() }

// parseParent parses a parent proxy's URL. Errors don't show the credentials that it may
// hold.
func parseParent(text string) (*url.URL, error) {
	parsed, err := url.Parse(text)
	if err == nil {
		switch parsed.Scheme {
		case "http", "https", "socks5":
			if parsed.Hostname() != "" && strings.Trim(parsed.Path, "/") == "" {
				return parsed, nil
			}
		}
	}
	return nil, errors.New("this is not a proxy's URL; write http://, https:// or socks5:// and host:port, with user:password@ before the host if the proxy wants them")
}
