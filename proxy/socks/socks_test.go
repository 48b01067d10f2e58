package socks

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
)

// exchange is a connection with what a client sends, and what it is sent.
type exchange struct {
	io.Reader
	bytes.Buffer
}

func (e *exchange) Read(p []byte) (int, error) { return e.Reader.Read(p) }

func TestNegotiate(t *testing.T) {
	for _, test := range []struct {
		name     string
		sent     string
		required bool
		want     Credentials
		answer   string
		err      error
	}{
		{"no authentication", "\x05\x01\x00", false, Credentials{}, "\x05\x00", nil},
		{"no authentication where a password is required", "\x05\x01\x00", true, Credentials{}, "\x05\xff", ErrNoMethod},
		{"a password", "\x05\x01\x02\x01\x03ann\x02pw", true, Credentials{"ann", "pw", true}, "\x05\x02", nil},
		{"a password, of two methods", "\x05\x02\x00\x02\x01\x03ann\x00", false, Credentials{"ann", "", true}, "\x05\x02", nil},
		{"an empty user", "\x05\x01\x02\x01\x00\x00", false, Credentials{"", "", true}, "\x05\x02", nil},
		{"GSSAPI alone", "\x05\x01\x01", false, Credentials{}, "\x05\xff", ErrNoMethod},
		{"no method", "\x05\x00", false, Credentials{}, "\x05\xff", ErrNoMethod},
		{"SOCKS 4", "\x04\x01\x00\x50\x7f\x00\x00\x01\x00", false, Credentials{}, "", ErrVersion},
		{"HTTP", "GET / HTTP/1.1\r\n", false, Credentials{}, "", ErrVersion},
		{"TLS", "\x16\x03\x01", false, Credentials{}, "", ErrVersion},
		{"nothing", "", false, Credentials{}, "", io.EOF},
		{"fewer methods than announced", "\x05\x03\x00", false, Credentials{}, "", io.ErrUnexpectedEOF},
	} {
		client := &exchange{Reader: strings.NewReader(test.sent)}
		got, err := Negotiate(client, test.required)
		if got != test.want || !errors.Is(err, test.err) || client.String() != test.answer {
			t.Errorf("%s: %+v, %v, answered %q", test.name, got, err, client.String())
		}
	}
	client := &exchange{Reader: strings.NewReader("\x05\x01\x02\x05\x01a\x01b")}
	if _, err := Negotiate(client, true); err == nil {
		t.Error("accepted a password of another version")
	}
}

func TestReadRequest(t *testing.T) {
	long := strings.Repeat("a", 255)
	for _, test := range []struct {
		name, sent string
		host       string
		port       uint16
		err        error
	}{
		{"name", "\x05\x01\x00\x03\x0bexample.com\x01\xbb", "example.com", 443, nil},
		{"longest name", "\x05\x01\x00\x03\xff" + long + "\xff\xff", long, 65535, nil},
		{"IPv4", "\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50", "192.0.2.1", 80, nil},
		{"IPv6", "\x05\x01\x00\x04\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x01\x00\x50", "2001:db8::1", 80, nil},
		{"IPv4 in IPv6", "\x05\x01\x00\x04" + strings.Repeat("\x00", 10) + "\xff\xff\x7f\x00\x00\x01\x00\x50", "::ffff:127.0.0.1", 80, nil},
		{"BIND", "\x05\x02\x00\x01\xc0\x00\x02\x01\x00\x50", "", 0, CommandNotSupported},
		{"UDP ASSOCIATE", "\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00", "", 0, CommandNotSupported},
		{"unknown command", "\x05\x09\x00\x03\x01a\x00\x50", "", 0, CommandNotSupported},
		{"unknown type of address", "\x05\x01\x00\x02\x01a\x00\x50", "", 0, AddressTypeNotSupported},
		{"version 4", "\x04\x01\x00\x01\xc0\x00\x02\x01\x00\x50", "", 0, ErrVersion},
		{"cut short", "\x05\x01\x00\x03\x0bexample", "", 0, io.ErrUnexpectedEOF},
		{"without a port", "\x05\x01\x00\x03\x01a", "", 0, io.EOF},
	} {
		r := strings.NewReader(test.sent)
		host, port, err := ReadRequest(r)
		if host != test.host || port != test.port || !errors.Is(err, test.err) {
			t.Errorf("%s: %q, %d, %v", test.name, host, port, err)
		}
	}
}

// Whatever comes, no message reads into what follows it, and all that a request asks for is
// what it has in it.
func FuzzMessages(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x03\x0bexample.com\x01\xbbGET / HTTP/1.1"), false)
	f.Add([]byte("\x05\x02\x00\x02\x01\x03ann\x02pw\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50\x16\x03\x01"), true)
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x04"+strings.Repeat("\x00", 15)+"\x01\x00\x50"), false)
	f.Add([]byte("\x05\xff"+strings.Repeat("\x01", 255)), true)
	f.Fuzz(func(t *testing.T, sent []byte, required bool) {
		r := bytes.NewReader(sent)
		client := &exchange{Reader: r}
		credentials, err := Negotiate(client, required)
		if credentials.Sent && len(credentials.User)+len(credentials.Password) > 2*255 || client.Len() > 2 {
			t.Fatalf("%d octets of credentials, %d answered", len(credentials.User)+len(credentials.Password), client.Len())
		}
		if err != nil {
			return
		}
		if required && !credentials.Sent {
			t.Fatal("a client passed without a password")
		}
		negotiated := len(sent) - r.Len()
		if want := 2 + int(sent[1]); !credentials.Sent && negotiated != want {
			t.Fatalf("read %d octets of %d", negotiated, want)
		} else if want += 3 + len(credentials.User) + len(credentials.Password); credentials.Sent && negotiated != want {
			t.Fatalf("read %d octets of %d", negotiated, want)
		}
		host, port, err := ReadRequest(r)
		if err != nil {
			if host != "" || port != 0 {
				t.Fatalf("%q and %d beside the error %v", host, port, err)
			}
			return
		}
		request := sent[negotiated : len(sent)-r.Len()]
		address := len(host)
		if kind := request[3]; kind == typeName {
			address++
		} else {
			addr, err := netip.ParseAddr(host)
			if err != nil || addr.BitLen() != map[byte]int{typeIPv4: 32, typeIPv6: 128}[kind] {
				t.Fatalf("type %d gave the host %q", kind, host)
			}
			address = addr.BitLen() / 8
		}
		if len(request) != 4+address+2 {
			t.Fatalf("read %d octets for %q", len(request), host)
		}
	})
}
