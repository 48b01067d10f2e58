// Package sniff looks at the first octets of a connection, without consuming them: they tell
// TLS from HTTP, and which server the client's TLS asks for.
package sniff

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"robotsproxy/proxy/flow"
)

// Conn is a connection whose first octets can be looked at before they are read. What looks
// at them waits for as long as the connection's read deadline allows. One goroutine at a
// time may read or look.
type Conn struct {
	net.Conn
	received []byte // and not yet read
}

// New returns a Conn for a connection of which some octets have been received already. It
// keeps them.
func New(conn net.Conn, received []byte) Conn { return Conn{conn, received} }

// Read begins with the octets that have been looked at.
func (c *Conn) Read(p []byte) (int, error) {
	if len(c.received) > 0 {
		n := copy(p, c.received)
		if c.received = c.received[n:]; len(c.received) == 0 {
			c.received = nil // a connection may be idle for long
		}
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite tells the client that nothing more comes.
func (c *Conn) CloseWrite() error { return flow.CloseWrite(c.Conn) }

// helloSize is about as long as a ClientHello.
const helloSize = 2 << 10

// peek returns the first n octets, or more. An error says that they did not come.
func (c *Conn) peek(n int) ([]byte, error) {
	for len(c.received) < n {
		c.received = slices.Grow(c.received, helloSize)
		got, err := c.Conn.Read(c.received[len(c.received):cap(c.received)])
		c.received = c.received[:len(c.received)+got]
		if err != nil && len(c.received) < n {
			return nil, err
		}
	}
	return c.received, nil
}

// Protocol is what a client speaks.
type Protocol int

// The protocols that are told apart. Unknown is any other.
const (
	Unknown Protocol = iota
	TLS
	HTTP
)

// maxMethodLength is longer than any registered method.
const maxMethodLength = 32

// Protocol tells the protocol by the first octets. An error says that too few came.
func (c *Conn) Protocol() (Protocol, error) {
	for n := 1; n <= maxMethodLength+1; n++ {
		head, err := c.peek(n)
		if err != nil {
			return Unknown, err
		}
		switch octet := head[n-1]; {
		case n == 1 && octet == 0x16: // a TLS record that holds a handshake
			head, err = c.peek(2)
			if err != nil || head[1] != 0x03 {
				return Unknown, err
			}
			return TLS, nil
		case octet == ' ' && n > 1:
			return HTTP, nil
		case !isMethodChar(octet):
			return Unknown, nil
		}
	}
	return Unknown, nil
}

// isMethodChar accepts less than RFC 9110's token, which the greeting of SSH is too. No
// registered method has other characters.
func isMethodChar(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte("-_", c) >= 0
}

// MayBeTLS reports whether TLS may begin with the first octet: the type of a record that any
// version has (RFC 8446 5.1). Some servers accept other records before the handshake, and
// skip them. So MayBeTLS can hold where Protocol says Unknown. An error says that no octet
// came.
func (c *Conn) MayBeTLS() (bool, error) {
	first, err := c.peek(1)
	return err == nil && first[0] >= 0x14 && first[0] <= 0x17, err
}

// Hello is what a client's TLS says of the server that it is for.
type Hello struct {
	ServerName string // RFC 6066 3; "" if it names none
	Encrypted  bool   // whether it may have another ClientHello inside (RFC 9849), or pretends to
}

// encryptedClientHello is the number of the extension of RFC 9849.
const encryptedClientHello = 0xfe0d

// Hello reads the client's ClientHello, however many records and packets it comes in.
// crypto/tls bounds how long it may be.
func (c *Conn) Hello() (hello Hello, err error) {
	errDone := errors.New("the ClientHello has been read")
	err = tls.Server(&reader{Conn: c}, &tls.Config{
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			hello = Hello{info.ServerName, slices.Contains(info.Extensions, encryptedClientHello)}
			return nil, errDone
		},
	}).Handshake()
	if errors.Is(err, errDone) {
		err = nil
	}
	return hello, err
}

// Left reports whether err, of a look at a connection, says that the connection has ended.
func Left(err error) bool {
	operation, failed := errors.AsType[*net.OpError](err)
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		failed && operation.Op == "read"
}

// reader reads a Conn without consuming it, and sends nothing.
type reader struct {
	*Conn
	offset int // how much it has read
}

func (r *reader) Read(p []byte) (int, error) {
	seen, err := r.peek(r.offset + 1)
	if err != nil {
		return 0, err
	}
	n := copy(p, seen[r.offset:])
	r.offset += n
	return n, nil
}

func (r *reader) Write(p []byte) (int, error) { return len(p), nil }
