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

// Options say how origins are reached. They are the section "upstream" of a configuration.
type Options struct {
	// Proxy is the URL of a parent proxy through which all origins are reached: http://,
	// https:// or socks5://, with user and password if the parent wants them.
	Proxy string `yaml:"proxy"`
	// Parents are used where Proxy is empty.
	Parents Parents `yaml:"-"`
	// Deny holds destinations that are never dialled. They are checked after name
	// resolution. A parent proxy resolves names itself, so behind one only literal
	// addresses can be checked. Unspecified addresses are never dialled either, and this
	// machine's loopback only for clients on this machine.
	Deny []netip.Prefix `yaml:"deny"`
	// CAFile names a PEM file of roots that are trusted in addition to the system's.
	CAFile string `yaml:"ca_file,path"`
	// Insecure matches the hosts whose certificates are not verified.
	Insecure []identity.HostGlob `yaml:"insecure"`
	// ConnectTimeout bounds the dial, and separately the TLS handshake.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// ResponseHeaderTimeout bounds the wait for a response's header after the request has
	// been sent.
	ResponseHeaderTimeout time.Duration `yaml:"response_header_timeout"`
	Via                   Via           `yaml:"via"`
}

// Defaults returns the options of an empty configuration.
func Defaults() Options {
	return Options{
		Deny: []netip.Prefix{ // link-local: clouds serve their secrets there
			netip.MustParsePrefix("169.254.0.0/16"),
			netip.MustParsePrefix("fe80::/10"),
		},
		ConnectTimeout:        10 * time.Second,
		ResponseHeaderTimeout: 60 * time.Second,
		Via:                   ViaBoth,
	}
}

// Validate returns all faults of o joined, each a [keyerr.Error].
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

// parents returns the parents that o names.
func (o Options) parents() (Parents, error) {
	if o.Proxy == "" {
		return o.Parents, nil
	}
	parent, err := parseParent(o.Proxy)
	return Parents{
		byScheme: map[string]*url.URL{"http": parent, "https": parent, "ftp": parent},
		named:    map[*url.URL]string{parent: "upstream.proxy"},
	}, err
}

// HasParent reports whether o, which must be valid, names a parent proxy for some origins.
func (o Options) HasParent() bool {
	parents, _ := o.parents()
	return len(parents.byScheme) > 0
}

// Via says to which messages the proxy adds a Via header (RFC 9110 7.6.3).
type Via string

// Where Via is added: to requests and responses, to requests alone, or nowhere. Without it
// on requests, a forwarding loop can't be detected.
const (
	ViaBoth    Via = "both"
	ViaRequest Via = "request"
	ViaOff     Via = "off"
)

// UnmarshalText reads one of the three values.
func (v *Via) UnmarshalText(text []byte) error {
	return enum.Unmarshal(v, text, ViaBoth, ViaRequest, ViaOff)
}
