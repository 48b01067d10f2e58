package opaque

import (
	"crypto/tls"
	"net"
	"testing"

	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/sniff"
	"robotsproxy/robots"
)

// tunnelTo returns a tunnel in a mode.
func tunnelTo(host string, mode Mode) *Tunnel {
	opts := &Options{Mode: mode}
	return opts.Tunnel(nil, gate.Ask{Target: robots.Target{Origin: robots.Origin{Scheme: "https", Host: host, Port: "443"}}})
}

// A server compares a server name as it stands. So a name that a URL would spell otherwise
// is that of another server.
func TestServerNamesThatURLsSpellOtherwise(t *testing.T) {
	for name, want := range map[string]Step{"Example.COM": Join, "ex%61mple.com": Read, "example.com:443": Read, "example%2ecom": Read} {
		client, ours := net.Pipe()
		go tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		c := sniff.New(ours, nil)
		if got, err := tunnelTo("example.com", WhenNeeded).next(&c); got != want || err != nil {
			t.Errorf("%q: step %d, error %v, want step %d", name, got, err, want)
		}
		if got, err := tunnelTo("example.com", Never).next(&c); (got == Join) != (want == Join) || (got == Refuse) != (err != nil) {
			t.Errorf("%q, never read: step %d, error %v", name, got, err)
		}
		client.Close()
	}
}

// The error says why a tunnel is not joined.
func TestTunnelsThatAreNotJoined(t *testing.T) {
	for octets, want := range map[string]map[Mode]Step{
		"":                   {WhenNeeded: HangUp, Never: Join},
		"GET / HTTP/1.1\r\n": {WhenNeeded: Read, Never: Join},
		"\x16\x03\x01\x00":   {WhenNeeded: Read, Never: Refuse},
	} {
		for mode, want := range want {
			client, ours := net.Pipe()
			go func() {
				client.Write([]byte(octets))
				client.Close()
			}()
			c := sniff.New(ours, nil)
			if got, err := tunnelTo("example.com", mode).next(&c); got != want || (got == HangUp || got == Refuse) != (err != nil) {
				t.Errorf("%q, %s: step %d, error %v, want step %d", octets, mode, got, err, want)
			}
		}
	}
}
