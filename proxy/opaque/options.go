package opaque

import (
	"slices"

	"robotsproxy/internal/enum"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
)

// Options say which tunnels are read. In a configuration they are part of the section
// "https".
type Options struct {
	Mode Mode `yaml:"mode"`
	// Passthrough holds host globs whose tunnels are never read.
	Passthrough []identity.HostGlob `yaml:"passthrough"`
	// Mixed decides on a tunnel that is never read and leads to an origin whose
	// robots.txt allows the bot only in part.
	Mixed Mixed `yaml:"mixed_tunnel"`
}

// Defaults are the defaults of a configuration.
func Defaults() Options { return Options{Mode: Intercept, Mixed: RefuseMixed} }

// Mode says which tunnels are read. The zero value means [Intercept].
type Mode string

const (
	// Intercept reads every tunnel.
	Intercept Mode = "intercept"
	// WhenNeeded reads a tunnel if the verdict depends on what is inside, such as the path.
	WhenNeeded Mode = "when_needed"
	// Never reads no tunnel: each is judged by its CONNECT alone.
	Never Mode = "tunnel"
)

// UnmarshalText reads one of the words above.
func (m *Mode) UnmarshalText(text []byte) error {
	return enum.Unmarshal(m, text, Intercept, WhenNeeded, Never)
}

// Mixed is a verdict on a tunnel whose inside is allowed only in part. The zero value means
// [RefuseMixed].
type Mixed string

// The two verdicts.
const (
	RefuseMixed Mixed = "refuse"
	AllowMixed  Mixed = "allow"
)

// UnmarshalText reads one of the words above.
func (m *Mixed) UnmarshalText(text []byte) error {
	return enum.Unmarshal(m, text, RefuseMixed, AllowMixed)
}

// neverRead reports whether the operator wants no tunnel to a host read.
func (o *Options) neverRead(host string) bool {
	return o.Mode == Never || slices.ContainsFunc(o.Passthrough, func(g identity.HostGlob) bool { return g.Match(host) })
}

// Tunnel returns the tunnel that ask wants, for g to judge; nil if tunnels to its host are
// read in any case. o must not change afterwards.
func (o *Options) Tunnel(g *gate.Gate, ask gate.Ask) *Tunnel {
	if o.Mode != WhenNeeded && !o.neverRead(ask.Target.Origin.Host) {
		return nil
	}
	return &Tunnel{gate: g, ask: ask, opts: o}
}
