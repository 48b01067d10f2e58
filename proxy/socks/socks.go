// Package socks is the server's side of SOCKS 5 (RFC 1928) up to the point where a
// connection carries something else: [Negotiate] agrees on how the client says who it is,
// and [ReadRequest] reads where it wants to go.
//
// Nothing is read beyond a message, no message is longer than 515 octets, and no time is
// bounded: callers set deadlines.
package socks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
)

// The versions of the protocol, and of its authentication by password (RFC 1929).
const (
	version         = 5
	passwordVersion = 1
)

// Methods of authentication (RFC 1928 3).
const (
	methodNone     = 0
	methodPassword = 2
	noMethod       = 0xff
)

// Why a client cannot be served.
var (
	// ErrVersion is about a client that speaks something else.
	ErrVersion = errors.New("the client does not speak SOCKS 5")
	// ErrNoMethod is about a client that offers no method of authentication that will do.
	// It has been told.
	ErrNoMethod = errors.New("the client offers no method of authentication that this proxy takes")
)

// Credentials are what a client says of itself. They may hold any octets.
type Credentials struct {
	User, Password string
	Sent           bool // by a client that offered to
}

// Negotiate agrees with a client on a method of authentication. A client that offers a
// password is asked for it. One that offers none is served if required is false. If the
// credentials have been sent, callers must answer them by [AnswerCredentials].
func Negotiate(client io.ReadWriter, required bool) (Credentials, error) {
	var head [2]byte
	if _, err := io.ReadFull(client, head[:]); err != nil {
		return Credentials{}, err
	}
	if head[0] != version {
		return Credentials{}, ErrVersion
	}
	var methods [255]byte
	offered := methods[:head[1]]
	if _, err := io.ReadFull(client, offered); err != nil {
		return Credentials{}, err
	}
	chosen := choose(offered, required)
	if _, err := client.Write([]byte{version, chosen}); err != nil {
		return Credentials{}, err
	}
	switch chosen {
	case methodPassword:
		return readCredentials(client)
	case methodNone:
		return Credentials{}, nil
	default:
		return Credentials{}, ErrNoMethod
	}
}

func choose(offered []byte, required bool) byte {
	chosen := byte(noMethod)
	for _, method := range offered {
		switch {
		case method == methodPassword:
			return methodPassword
		case method == methodNone && !required:
			chosen = methodNone
		}
	}
	return chosen
}

// readCredentials accepts names and passwords without an octet, which RFC 1929 does not have
// but clients send.
func readCredentials(r io.Reader) (Credentials, error) {
	var head [1]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Credentials{}, err
	}
	if head[0] != passwordVersion {
		return Credentials{}, fmt.Errorf("the client's password has version %d, not %d (RFC 1929)", head[0], passwordVersion)
	}
	user, err := readString(r)
	if err != nil {
		return Credentials{}, err
	}
	password, err := readString(r)
	return Credentials{user, password, true}, err
}

// readString reads a string after an octet that has its length.
func readString(r io.Reader) (string, error) {
	var text [256]byte
	if _, err := io.ReadFull(r, text[:1]); err != nil {
		return "", err
	}
	octets := text[1 : 1+int(text[0])]
	_, err := io.ReadFull(r, octets)
	return string(octets), err
}

// AnswerCredentials tells a client whether its credentials are right. If they are not, the
// connection must be closed.
func AnswerCredentials(client io.Writer, right bool) error {
	answer := []byte{passwordVersion, 0}
	if !right {
		answer[1] = 1
	}
	_, err := client.Write(answer)
	return err
}

// connect is the command to open a connection. The others, BIND and UDP ASSOCIATE, lead
// past what can be judged.
const connect = 1

// Types of addresses (RFC 1928 5).
const (
	typeIPv4 = 1
	typeName = 3
	typeIPv6 = 4
)

// ReadRequest reads where a client wants a connection to: the host is an address, or
// whatever the client sent as a name. If the error is a [Reply], the client is waiting for
// it.
func ReadRequest(r io.Reader) (host string, port uint16, err error) {
	var head [4]byte // version, command, reserved, type of address
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", 0, err
	}
	if head[0] != version {
		return "", 0, ErrVersion
	}
	if host, err = readHost(r, head[3]); err != nil {
		return "", 0, err
	}
	var octets [2]byte
	if _, err := io.ReadFull(r, octets[:]); err != nil {
		return "", 0, err
	}
	if head[1] != connect {
		return "", 0, CommandNotSupported
	}
	return host, binary.BigEndian.Uint16(octets[:]), nil
}

func readHost(r io.Reader, addressType byte) (string, error) {
	switch addressType {
	case typeIPv4:
		var octets [4]byte
		_, err := io.ReadFull(r, octets[:])
		return netip.AddrFrom4(octets).String(), err
	case typeIPv6:
		var octets [16]byte
		_, err := io.ReadFull(r, octets[:])
		return netip.AddrFrom16(octets).String(), err
	case typeName:
		return readString(r)
	default:
		return "", AddressTypeNotSupported
	}
}

// A Reply is the answer to a request (RFC 1928 6). It is an error unless it is [Succeeded].
type Reply byte

// The replies that are sent.
const (
	Succeeded Reply = iota
	Failed
	NotAllowed
	NetworkUnreachable
	HostUnreachable
	ConnectionRefused
	_ // TTL expired
	CommandNotSupported
	AddressTypeNotSupported
)

// Error is what RFC 1928 calls the reply.
func (r Reply) Error() string {
	switch r {
	case Succeeded:
		return "succeeded"
	case NotAllowed:
		return "connection not allowed by ruleset"
	case NetworkUnreachable:
		return "network unreachable"
	case HostUnreachable:
		return "host unreachable"
	case ConnectionRefused:
		return "connection refused"
	case CommandNotSupported:
		return "command not supported"
	case AddressTypeNotSupported:
		return "address type not supported"
	default:
		return "general SOCKS server failure"
	}
}

// Send sends the reply. The address from which the server reaches the host is left open,
// since it tells the client nothing.
func (r Reply) Send(client io.Writer) error {
	_, err := client.Write([]byte{version, byte(r), 0, typeIPv4, 0, 0, 0, 0, 0, 0})
	return err
}
