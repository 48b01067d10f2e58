package proxy

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

// helloFor is what a client of crypto/tls says first.
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
				c := &tunnel{Conn: recorded{r: r}}
				got, err := serverName(c)
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

// A ClientHello has an end, or is not waited for.
func TestServerNameIsBounded(t *testing.T) {
	endless := io.MultiReader(bytes.NewReader([]byte{0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff}), forever{})
	c := &tunnel{Conn: recorded{r: endless}}
	if name, err := serverName(c); err == nil || len(c.early) > 1<<17 {
		t.Errorf("%q, %v, after %d octets", name, err, len(c.early))
	}
	c = &tunnel{Conn: recorded{r: bytes.NewReader(helloFor("example.com")[:100])}}
	if name, err := serverName(c); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v", name, err)
	}
}

type forever struct{}

func (forever) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0x16
	}
	return len(p), nil
}

// A server takes a server name as it stands there, so what a URL would spell otherwise is
// another one.
func TestServerNamesThatURLsSpellOtherwise(t *testing.T) {
	for name, want := range map[string]course{"Example.COM": join, "ex%61mple.com": read, "example.com:443": read, "example%2ecom": read} {
		hello := bytes.Replace(helloFor(strings.Repeat("x", len(name))), []byte(strings.Repeat("x", len(name))), []byte(name), 1)
		c := &tunnel{Conn: recorded{r: bytes.NewReader(hello)}}
		c.origin.Host = "example.com"
		if course, err := c.courseIn(&Tunnels{Mode: WhenNeeded}); course != want {
			t.Errorf("%q: %d, %v, want %d", name, course, err, want)
		}
	}
}

// Whatever comes first in a tunnel, it comes again for whoever reads the tunnel, and a
// server name is never overlooked that a TLS server would read.
func FuzzFirstOctets(f *testing.F) {
	hello := helloFor("example.com")
	for _, seed := range [][]byte{hello, inRecords(hello, 7), hello[:50], {0x16}, {0x15, 3, 1, 0, 2, 1, 0}, []byte("GET / HTTP/1.1\r\n\r\n"), []byte("SSH-2.0-x\r\n"), {}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, octets []byte) {
		for _, r := range []io.Reader{bytes.NewReader(octets), iotest.HalfReader(bytes.NewReader(octets))} {
			c := &tunnel{Conn: recorded{r: r}}
			c.origin.Host = "example.com"
			speaks(c)
			course, err := c.courseIn(&Tunnels{Mode: Never})
			if (course == leave || course == refuse) == (err == nil) {
				t.Errorf("%d, %v", course, err)
			}
			if replayed, _ := io.ReadAll(c); !bytes.Equal(replayed, octets) {
				t.Errorf("%q was replayed as %q", octets, replayed)
			}
			asked := ""
			tls.Server(recorded{nil, bytes.NewReader(octets), io.Discard}, &tls.Config{
				GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
					asked = info.ServerName
					return nil, errors.New("enough")
				},
			}).Handshake()
			if course == join && asked != "" && !strings.EqualFold(asked, "example.com") {
				t.Errorf("%q is joined, and asks for %q", octets, asked)
			}
		}
	})
}

func TestOwnMembersOfProxyStatus(t *testing.T) {
	for _, test := range []struct{ field, want string }{
		{"robotsproxy; error=http_request_denied", ""},
		{"ROBOTSPROXY", ""},
		{`"robotsproxy"; error=http_request_denied`, ""},
		{`"robots\proxy"`, ""},
		{"cdn; error=dns_error", "cdn; error=dns_error"},
		{"robotsproxy2; error=dns_error", "robotsproxy2; error=dns_error"},
		{"cdn; error=dns_error, robotsproxy; error=http_request_denied,other", "cdn; error=dns_error,other"},
		{`cdn; details="a, robotsproxy; error=x"`, `cdn; details="a, robotsproxy; error=x"`},
		{`cdn; details="a\", robotsproxy; error=x"`, `cdn; details="a\", robotsproxy; error=x"`},
		{`cdn; details="a\\", robotsproxy; error=x`, `cdn; details="a\\"`},
		{"cdn; details=\"a\nb\", robotsproxy; error=x", `cdn; details="a,b"`}, // two lines of one field
		{`cdn; details="a, robotsproxy; error=x`, ""},
		{"a\nrobotsproxy;error=x\nb", "a,b"},
		{" \trobotsproxy\t; error=x", ""},
	} {
		h := map[string][]string{"Proxy-Status": strings.Split(test.field, "\n")}
		dropOwnStatus(h, "robotsproxy")
		if got := strings.Join(h["Proxy-Status"], "|"); got != test.want {
			t.Errorf("%q: %q, want %q", test.field, got, test.want)
		}
	}
}
