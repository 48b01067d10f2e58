package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"robotsproxy/robots"
)

// course is what becomes of a tunnel to an origin whose robots.txt lets it pass unread.
type course int

const (
	leave  course = iota // it is closed: the client says nothing
	join                 // client and origin speak to each other
	read                 // the proxy reads inside
	refuse               // it is closed: what is inside is for another server, and must not be read
)

// courseIn looks at the first octets in a tunnel, without consuming them. The origin was
// judged by the host that the CONNECT named, but it is the server name in the client's
// TLS that chooses among the sites of one server. So a tunnel whose TLS names another is
// read or, where the operator wants neither of the two read, refused. An error says why
// the tunnel is not joined.
//
// A client need not name a server. Where tunnels are read when that is safer, such a one
// is read, and so is one without TLS. Where the operator wants it unread, it is joined.
func (t *tunnel) courseIn(tunnels *Tunnels) (course, error) {
	never := tunnels.neverRead(t.origin.Host)
	unnamed := read
	if never {
		unnamed = join
	}
	first, err := t.peek(1)
	switch {
	case err == io.EOF && never: // the client has nothing to say, and may listen
		return join, nil
	case err != nil:
		return leave, fmt.Errorf("waiting for the client to say something in its tunnel: %w", err)
	case !isTLS(first[0]):
		return unnamed, nil
	}
	name, err := serverName(t)
	switch {
	case err != nil && never:
		return refuse, fmt.Errorf("the tunnel must not be read, and its TLS cannot be understood: %w", err)
	case err != nil:
		return read, nil
	case name == "" && net.ParseIP(t.origin.Host) != nil: // which TLS never names
		return join, nil
	case name == "":
		return unnamed, nil
	case strings.EqualFold(name, t.origin.Host): // a server takes it as it stands, not as URLs spell hosts
		return join, nil
	}
	// A name that no URL can have is that of another server.
	named, err := robots.ParseOrigin("https://" + name)
	if never && (err != nil || tunnels.neverRead(named.Host)) {
		return refuse, fmt.Errorf("the tunnel to %s must not be read, and its TLS asks for the server %q", t.origin.Host, name)
	}
	return read, nil
}

// isTLS reports whether TLS may begin with an octet: the type of a record that any
// version has (RFC 8446 5.1). Some servers take others than a handshake at first, and
// skip them.
func isTLS(first byte) bool { return first >= 0x14 && first <= 0x17 }

// unrecognizedName is the alert (RFC 6066 3) to a client whose TLS is not let through.
var unrecognizedName = []byte{0x15, 3, 3, 0, 2, 2, 112}

// serverName is the server that the client's TLS asks for (RFC 6066 3), in as many records
// and pieces as its ClientHello comes; "" if it names none. It waits for as long as the
// connection's deadline allows and consumes nothing. crypto/tls bounds how long a
// ClientHello may be.
func serverName(t *tunnel) (name string, err error) {
	hello := errors.New("this is all that was asked for")
	err = tls.Server(&onlooker{Conn: t, t: t}, &tls.Config{
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			name = info.ServerName
			return nil, hello
		},
	}).Handshake()
	if errors.Is(err, hello) {
		err = nil
	}
	return name, err
}

// onlooker reads a tunnel without consuming it, and says nothing.
type onlooker struct {
	net.Conn
	t  *tunnel
	at int // how much it has read
}

func (o *onlooker) Read(p []byte) (int, error) {
	seen, err := o.t.peek(o.at + 1)
	if err != nil {
		return 0, err
	}
	n := copy(p, seen[o.at:])
	o.at += n
	return n, nil
}

func (o *onlooker) Write(p []byte) (int, error) { return len(p), nil }
