package upstream

import (
	"errors"
	"net/netip"
	"net/url"
	"time"

	"robotsproxy/internal/enum"
	"robotsproxy/internal/keyerr"
	"robotsproxy/proxy/identity"
)

// Options say how origins are reached. In a configuration they are the section
// "upstream".
type Options struct {
	// Proxy is a parent proxy by which all origins are reached: http://, https://
	// or socks5://, with user and password if it wants them.
	Proxy string `yaml:"proxy"`
	// Parents are used where Proxy is empty.
	Parents Parents `yaml:"-"`
	// Deny holds destinations that are never dialled. They are checked after name
	// resolution; behind a parent proxy, which resolves names itself, only literal
	// addresses can be. Besides, unspecified addresses are never dialled, and this
	// machine's loopback only for clients on this machine.
	Deny []netip.Prefix `yaml:"deny"`
	// CAFile holds PEM roots that are trusted besides the system's.
	CAFile string `yaml:"ca_file,path"`
	// Insecure holds host globs whose certificates are not verified.
	Insecure []identity.HostGlob `yaml:"insecure"`
	// ConnectTimeout bounds the dial and the TLS handshake, each.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// ResponseHeaderTimeout bounds the wait for a response's header, from the
	// end of the request on.
	ResponseHeaderTimeout time.Duration `yaml:"response_header_timeout"`
	Via                   Via           `yaml:"via"`
}

// Defaults are the options of a configuration that says nothing.
func Defaults() Options {
	return Options{
		Deny: []netip.Prefix{ // link-local: clouds keep their secrets there
			netip.MustParsePrefix("169.254.0.0/16"),
			netip.MustParsePrefix("fe80::/10"),
		},
		ConnectTimeout:        10 * time.Second,
		ResponseHeaderTimeout: 60 * time.Second,
		Via:                   ViaBoth,
	}
}

// Validate joins all that is wrong with o, each fault a [keyerr.Error].
func (o Options) Validate() error {
	var errs []error
	if _, err := o.parents(); err != nil {
		errs = append(errs, keyerr.Wrap("proxy", err))
	}
	if _, err := trustedRoots(o.CAFile); err != nil {
		errs = append(errs, keyerr.New("ca_file", "%w; name a PEM file of certificates", err))
	}
	return errors.Join(errs...)
}

// parents are those by which origins are reached.
func (o Options) parents() (Parents, error) {
	if o.Proxy == "" {
		return o.Parents, nil
	}
	parent, err := parseParent(o.Proxy)
	return Parents{byScheme: map[string]*url.URL{"http": parent, "https": parent, "ftp": parent}}, err
}

// Via says to which messages the proxy adds a Via header (RFC 9110 7.6.3).
type Via string

// Where Via is added: to requests and responses, to requests alone, nowhere.
// Without it on requests a forwarding loop cannot be seen.
const (
	ViaBoth    Via = "both"
	ViaRequest Via = "request"
	ViaOff     Via = "off"
)

// UnmarshalText reads one of the words above.
func (v *Via) UnmarshalText(text []byte) error {
	return enum.Unmarshal(v, text, ViaBoth, ViaRequest, ViaOff)
}
