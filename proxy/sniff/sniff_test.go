package sniff

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

// recorded is a connection on which r comes and what is sent goes to w.
type recorded struct {
	net.Conn
	r io.Reader
	w io.Writer
}

func (c recorded) Read(p []byte) (int, error)  { return c.r.Read(p) }
func (c recorded) Write(p []byte) (int, error) { return c.w.Write(p) }

// helloFor is the ClientHello that crypto/tls sends.
func helloFor(name string) []byte {
	var said bytes.Buffer
	tls.Client(recorded{nil, strings.NewReader(""), &said}, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
	return said.Bytes()
}

// inRecords puts the handshake message of a record into records of n octets each.
func inRecords(hello []byte, n int) (pieces []byte) {
	for message := hello[5:]; len(message) > 0; message = message[min(n, len(message)):] {
		piece := message[:min(n, len(message))]
		pieces = append(pieces, 0x16, 3, 1, byte(len(piece)>>8), byte(len(piece)))
		pieces = append(pieces, piece...)
	}
	return pieces
}

func TestServerName(t *testing.T) {
	long := strings.Repeat(strings.Repeat("x", 60)+".", 4) + "example"
	for _, name := range []string{"example.com", "EXAMPLE.com", long, ""} {
		hello := helloFor(name)
		for _, octets := range [][]byte{hello, inRecords(hello, 1), inRecords(hello, 100), append([]byte{0x15, 3, 1, 0, 2, 1, 112}, hello...)} {
			for how, r := range map[string]io.Reader{"at once": bytes.NewReader(octets), "one by one": iotest.OneByteReader(bytes.NewReader(octets))} {
				c := &Conn{Conn: recorded{r: r}}
				hello, err := c.Hello()
				got := hello.ServerName
				if name == "" && err == nil && got == "" {
					continue
				}
				if err != nil || got != name {
					t.Errorf("%q in %d octets, %s: %q, %v", name, len(octets), how, got, err)
				}
				if replayed, _ := io.ReadAll(c); !bytes.Equal(replayed, octets) {
					t.Errorf("%q in %d octets, %s: %d were replayed", name, len(octets), how, len(replayed))
				}
			}
		}
	}
}

// Hello does not wait for the end of a ClientHello that has none.
func TestServerNameIsBounded(t *testing.T) {
	endless := io.MultiReader(bytes.NewReader([]byte{0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff}), forever{})
	c := &Conn{Conn: recorded{r: endless}}
	if hello, err := c.Hello(); err == nil || len(c.received) > 1<<17 {
		t.Errorf("%v, %v, after %d octets", hello, err, len(c.received))
	}
	c = &Conn{Conn: recorded{r: bytes.NewReader(helloFor("example.com")[:100])}}
	if hello, err := c.Hello(); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v, %v", hello, err)
	}
}

type forever struct{}

func (forever) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0x16
	}
	return len(p), nil
}

// Whatever comes first, it comes again for whoever reads the connection. MayBeTLS and
// Hello miss no server name that a TLS server would read.
func FuzzFirstOctets(f *testing.F) {
	hello := helloFor("example.com")
	for _, seed := range [][]byte{hello, inRecords(hello, 7), hello[:50], {0x16}, {0x15, 3, 1, 0, 2, 1, 0}, []byte("GET / HTTP/1.1\r\n\r\n"), []byte("SSH-2.0-x\r\n"), {}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, octets []byte) {
		asked := ""
		tls.Server(recorded{nil, bytes.NewReader(octets), io.Discard}, &tls.Config{
			GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
				asked = info.ServerName
				return nil, errors.New("enough")
			},
		}).Handshake()
		for _, r := range []io.Reader{bytes.NewReader(octets), iotest.HalfReader(bytes.NewReader(octets))} {
			c := &Conn{Conn: recorded{r: r}}
			protocol, _ := c.Protocol()
			mayBeTLS, err := c.MayBeTLS()
			if (err == nil) != (len(octets) > 0) || protocol == TLS && !mayBeTLS {
				t.Errorf("%q: protocol %d, may be TLS: %t, %v", octets, protocol, mayBeTLS, err)
			}
			hello, _ := c.Hello()
			name := hello.ServerName
			if asked != "" && (!mayBeTLS || name != asked) {
				t.Errorf("%q asks for %q; found %q, may be TLS: %t", octets, asked, name, mayBeTLS)
			}
			if replayed, _ := io.ReadAll(c); !bytes.Equal(replayed, octets) {
				t.Errorf("%q was replayed as %q", octets, replayed)
			}
		}
	})
}

func TestProtocol(t *testing.T) {
	for octets, want := range map[string]Protocol{
		"\x16\x03\x01": TLS, "\x16\x02": Unknown, "\x15\x03": Unknown,
		"GET /": HTTP, "get /": HTTP, "VERSION-CONTROL /": HTTP, "M_X /": HTTP,
		"SSH-2.0-x": Unknown, " GET": Unknown, "GET\r\n": Unknown, strings.Repeat("A", 40): Unknown,
	} {
		c := New(recorded{r: strings.NewReader(octets[1:])}, []byte(octets[:1]))
		if got, err := c.Protocol(); got != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", octets, got, err, want)
		}
	}
	for _, octets := range []string{"", "\x16", "GET"} {
		c := New(recorded{r: strings.NewReader(octets)}, nil)
		if got, err := c.Protocol(); got != Unknown || err == nil {
			t.Errorf("%q: %d without an error", octets, got)
		}
	}
}
