package proxy

import (
	"fmt"
	"time"

	"robotsproxy/internal/enum"
	"robotsproxy/internal/keyerr"
	"robotsproxy/internal/slots"
	"robotsproxy/proxy/identity"
)

// Tunnels says which tunnels are read. In a configuration it is a part of the
// section "https".
type Tunnels struct {
	Mode TunnelMode `yaml:"mode"`
	// Passthrough holds host globs whose tunnels are never read.
	Passthrough []identity.HostGlob `yaml:"passthrough"`
	// Mixed says what becomes of a tunnel that is never read, to an origin whose
	// robots.txt allows the bot only in part.
	Mixed Mixed `yaml:"mixed_tunnel"`
}

// DefaultTunnels is what holds where a configuration is silent.
func DefaultTunnels() Tunnels { return Tunnels{Mode: Intercept, Mixed: RefuseMixed} }

// TunnelMode says when TLS is read inside. The zero value is taken as [Intercept].
type TunnelMode string

const (
	// Intercept reads always.
	Intercept TunnelMode = "intercept"
	// WhenNeeded reads where the path or something else that is inside decides.
	WhenNeeded TunnelMode = "when_needed"
	// Never reads nothing: a tunnel is judged by its CONNECT alone.
	Never TunnelMode = "tunnel"
)

// UnmarshalText reads one of the words above.
func (m *TunnelMode) UnmarshalText(text []byte) error {
	return enum.Unmarshal(m, text, Intercept, WhenNeeded, Never)
}

// Mixed is a verdict on a tunnel whose inside is allowed only in part. The zero
// value is taken as [RefuseMixed].
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

// Limits bound what a client may take. In a configuration it is the section
// "limits".
type Limits struct {
	// MaxConnections bounds the client connections that are open at once; 0 is no
	// bound. When so many are, the one that has waited longest for its next request
	// gives way to another; if none waits, no other is served until one has gone.
	MaxConnections int `yaml:"max_connections"`
	// HeaderTimeout bounds a request's header, the first byte in a tunnel (where TLS is
	// spoken, its ClientHello) and the TLS handshake, each.
	HeaderTimeout time.Duration `yaml:"header_timeout"`
	// IdleTimeout is how long a kept-alive connection may be without a request.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// StallTimeout is how long a page, a tunnel or a WebSocket may stand still before it
	// is broken off: neither side sends anything, or one takes nothing of what the other
	// sends. That one side is silent is no fault while the other sends. The wait for a
	// response's header has a bound of its own, [upstream.Options.ResponseHeaderTimeout]. Up to a
	// quarter more may pass; 0 is no bound.
	StallTimeout   time.Duration `yaml:"stall_timeout,zero"`
	MaxHeaderBytes int64         `yaml:"max_header_bytes,size"`
}

// DefaultLimits is what holds where a configuration is silent.
func DefaultLimits() Limits {
	return Limits{
		HeaderTimeout:  10 * time.Second,
		IdleTimeout:    120 * time.Second,
		StallTimeout:   5 * time.Minute,
		MaxHeaderBytes: 64 << 10,
	}
}

// fewFiles is what systems allow that were never told otherwise.
const fewFiles = 1024

// Warning says that this process may open too few files for the connections of l, "" if
// there are enough. files is [shortage.Descriptors].
func (l Limits) Warning(files int64) string {
	wanted := 2 * int64(l.MaxConnections) // one to the client, one to its origin
	switch room := slots.ForFiles(files); {
	case files == 0:
		return ""
	case room < wanted:
		return fmt.Sprintf("limits.max_connections is %d, but the limit on open files (%d) leaves room for %d connections to clients and origins together: raise that limit (ulimit -n, LimitNOFILE= in systemd) or lower max_connections", l.MaxConnections, files, room)
	case wanted == 0 && files < fewFiles:
		return fmt.Sprintf("the limit on open files (%d) leaves room for only %d connections to clients and origins together: raise it (ulimit -n, LimitNOFILE= in systemd)", files, room)
	}
	return ""
}

// Validate reports what is wrong with l as a [keyerr.Error].
func (l Limits) Validate() error {
	if l.MaxConnections < 0 {
		return keyerr.New("max_connections", "%d is less than 0; write 0 for no limit", l.MaxConnections)
	}
	if l.MaxHeaderBytes < 1<<10 || l.MaxHeaderBytes > 64<<20 {
		return keyerr.New("max_header_bytes", "%d is not between 1KiB and 64MiB", l.MaxHeaderBytes)
	}
	return nil
}
