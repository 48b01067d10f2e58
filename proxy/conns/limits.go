package conns

import (
	"fmt"
	"time"

	"robotsproxy/internal/keyerr"
	"robotsproxy/internal/slots"
)

// Limits bound what a client may use. In a configuration they are the section "limits".
type Limits struct {
	// MaxConnections bounds the client connections that are open at once; 0 is no
	// bound. When it is reached, the connection that has waited longest for its next
	// request is closed. If none waits, a new client waits until another has left.
	MaxConnections int `yaml:"max_connections"`
	// HeaderTimeout bounds, each by itself, the arrival of a request's header, of the first
	// octets in a tunnel (with TLS, of its ClientHello), and the TLS handshake.
	HeaderTimeout time.Duration `yaml:"header_timeout"`
	// IdleTimeout is how long a kept-alive connection may be without a request.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// StallTimeout is how long an exchange, a tunnel or a WebSocket may stand still before
	// it is broken off: neither side sends anything, or one takes nothing of what the other
	// sends. Silence of one side is no fault while the other sends. The wait for a
	// response's header has a bound of its own, response_header_timeout of the section upstream.
	// Up to a quarter more may pass; 0 is no bound.
	StallTimeout   time.Duration `yaml:"stall_timeout,zero"`
	MaxHeaderBytes int64         `yaml:"max_header_bytes,size"`
}

// DefaultLimits are the defaults of a configuration.
func DefaultLimits() Limits {
	return Limits{
		HeaderTimeout:  10 * time.Second,
		IdleTimeout:    120 * time.Second,
		StallTimeout:   5 * time.Minute,
		MaxHeaderBytes: 64 << 10,
	}
}

// usualFileLimit is the usual default of the limit on open files.
const usualFileLimit = 1024

// Warning says that a process that may open so many files can't hold the connections of l,
// else "". 0 files are an unknown number.
func (l Limits) Warning(files int64) string {
	wanted := 2 * int64(l.MaxConnections) // one to the client, one to its origin
	switch room := slots.ForFiles(files); {
	case files == 0:
		return ""
	case room < wanted:
		return fmt.Sprintf("limits.max_connections is %d, but the limit on open files (%d) leaves room for %d connections to clients and origins together: raise that limit (ulimit -n, LimitNOFILE= in systemd) or lower max_connections", l.MaxConnections, files, room)
	case wanted == 0 && files < usualFileLimit:
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
