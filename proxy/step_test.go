package proxy

import (
	"crypto/tls"
	"net"
	"testing"

	"robotsproxy/proxy/sniff"
)

// A server compares a server name as it stands. So a name that a URL would spell otherwise
// is that of another server.
func TestServerNamesThatURLsSpellOtherwise(t *testing.T) {
	for name, want := range map[string]step{"Example.COM": stepJoin, "ex%61mple.com": stepRead, "example.com:443": stepRead, "example%2ecom": stepRead} {
		client, ours := net.Pipe()
		go tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		c := &tunnel{Conn: sniff.New(ours, nil)}
		c.origin.Host = "example.com"
		if got, err := c.nextStep(&Tunnels{Mode: WhenNeeded}); got != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", name, got, err, want)
		}
		if got, err := c.nextStep(&Tunnels{Mode: Never}); (got == stepJoin) != (want == stepJoin) || (got == stepRefuse) != (err != nil) {
			t.Errorf("%q, never read: %d, %v", name, got, err)
		}
		client.Close()
	}
}

// The error says why a tunnel is not joined.
func TestTunnelsThatAreNotJoined(t *testing.T) {
	for octets, want := range map[string]map[TunnelMode]step{
		"":                   {WhenNeeded: stepHangUp, Never: stepJoin},
		"GET / HTTP/1.1\r\n": {WhenNeeded: stepRead, Never: stepJoin},
		"\x16\x03\x01\x00":   {WhenNeeded: stepRead, Never: stepRefuse},
	} {
		for mode, want := range want {
			client, ours := net.Pipe()
			go func() {
				client.Write([]byte(octets))
				client.Close()
			}()
			c := &tunnel{Conn: sniff.New(ours, nil)}
			c.origin.Host = "example.com"
			if got, err := c.nextStep(&Tunnels{Mode: mode}); got != want || (got == stepHangUp || got == stepRefuse) != (err != nil) {
				t.Errorf("%q, %s: %d, %v, want %d", octets, mode, got, err, want)
			}
		}
	}
}
