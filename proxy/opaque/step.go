package opaque

import (
	"fmt"
	"io"
	"net"
	"strings"

	"robotsproxy/proxy/sniff"
	"robotsproxy/robots"
)

// Step is what happens next to a tunnel that the gate admits as a whole, by its first octets.
type Step int

// The zero value is HangUp.
const (
	HangUp Step = iota // close it: the client says nothing
	Join               // carry octets between client and origin
	Read               // serve it as one that is read
	Refuse             // close it: what is inside is for another server, and must not be read
)

// Next looks at the first octets in a tunnel that has been admitted. The gate judged the host
// that the client asked for, but the server name in its TLS chooses among the sites of one
// server. So a tunnel whose TLS names another server is read or, where the operator wants
// neither of the two read, refused. The error says what is wrong with the tunnel, also with
// one that is joined because its identity's mode does not refuse anything.
//
// A client need not name a server. If it does not, or does not speak TLS, the tunnel is read
// in mode when_needed, and joined where the operator wants it unread.
func (t *Tunnel) Next(client *sniff.Conn) (Step, error) {
	step, err := t.next(client)
	if step == Refuse {
		t.Admission.Misdirected()
		if t.Admission.Admits() { // its identity's mode is report or off
			step = Join
		}
	}
	return step, err
}

func (t *Tunnel) next(client *sniff.Conn) (Step, error) {
	host := t.ask.Target.Origin.Host
	never := t.NeverRead()
	unnamed := Read
	if never {
		unnamed = Join
	}
	mayBeTLS, err := client.MayBeTLS()
	switch {
	case err == io.EOF && never: // the client has nothing to say, and may listen
		return Join, nil
	case err != nil:
		return HangUp, fmt.Errorf("waiting for the client to say something in its tunnel: %w", err)
	case !mayBeTLS:
		return unnamed, nil
	}
	hello, err := client.Hello()
	name := hello.ServerName
	switch {
	case err != nil && never:
		return Refuse, fmt.Errorf("the tunnel must not be read, and its TLS cannot be understood: %w", err)
	case err != nil:
		return Read, nil
	case name == "" && net.ParseIP(host) != nil: // TLS never names an address
		return Join, nil
	case name == "":
		return unnamed, nil
	case strings.EqualFold(name, host): // as servers compare it, without a URL's spelling
		return Join, nil
	}
	// A name that no URL can have is that of another server.
	named, err := robots.ParseOrigin("https://" + name)
	if never && (err != nil || t.opts.neverRead(named.Host)) {
		return Refuse, fmt.Errorf("the tunnel to %s must not be read, and its TLS asks for the server %q", host, name)
	}
	return Read, nil
}
