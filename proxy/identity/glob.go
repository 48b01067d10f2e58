package identity

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/gobwas/glob"

	"robotsproxy/internal/hostname"
	"robotsproxy/robots"
)

// Glob is a pattern in the configuration. * is any run of characters, ? is one character, and
// nothing else is special. Case is ignored, and the whole text must match. The zero Glob
// matches nothing.
type Glob struct {
	pattern *glob.Pattern
	text    string // in lower case; that of a host in its normal form
}

// UnmarshalText compiles a glob.
func (g *Glob) UnmarshalText(text []byte) error {
	// The library gives a meaning to more characters than * and ?.
	literal := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`, `,`, `\,`)
	lower := strings.ToLower(string(text))
	pattern, err := glob.Compile(literal.Replace(lower))
	if err != nil {
		return fmt.Errorf("%q is not a glob: %w", text, err)
	}
	g.pattern, g.text = pattern, lower
	return nil
}

// String returns the pattern in lower case, a host in its normal form.
func (g Glob) String() string { return g.text }

// Match reports whether the glob matches all of s.
func (g Glob) Match(s string) bool {
	return g.pattern != nil && g.pattern.Match(strings.ToLower(s))
}

// MatchesAll reports whether every text matches the glob.
func (g Glob) MatchesAll() bool { return g.text != "" && strings.Trim(g.text, "*") == "" }

// HostGlob is a glob over hosts in their normal form (see [hostname.Glob]).
type HostGlob struct{ Glob }

// UnmarshalText compiles a glob.
func (g *HostGlob) UnmarshalText(text []byte) error {
	host, err := hostname.Glob(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a glob over hosts: %w", text, err)
	}
	return g.Glob.UnmarshalText([]byte(host))
}

// OriginGlob is a glob over origins as [robots.Origin.String] writes them:
// scheme://host[:port] without a default port.
type OriginGlob struct{ Glob }

// MatchesAll reports whether every origin matches the glob.
func (g OriginGlob) MatchesAll() bool {
	scheme, rest, _ := strings.Cut(g.text, "://")
	return scheme != "" && strings.Trim(scheme, "*") == "" && rest != "" && strings.Trim(rest, "*") == ""
}

var originPattern = regexp.MustCompile(`^([^:/]+)://([^/@]+?)(?::([^:\]]*))?$`)

// UnmarshalText compiles a glob.
func (g *OriginGlob) UnmarshalText(text []byte) error {
	parts := originPattern.FindStringSubmatch(string(text))
	if parts == nil {
		return fmt.Errorf("%q is not a glob over origins; write scheme://host or scheme://host:port, for example https://*.example.com", text)
	}
	scheme, port := strings.ToLower(parts[1]), parts[3]
	host, err := hostname.Glob(parts[2])
	if err != nil {
		return fmt.Errorf("%q is not a glob over origins: %w", text, err)
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port != "" && port != robots.DefaultPort(scheme) {
		host += ":" + port
	}
	return g.Glob.UnmarshalText([]byte(scheme + "://" + host))
}
