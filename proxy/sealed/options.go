package sealed

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"robotsproxy/internal/hostname"
	"robotsproxy/internal/keyerr"
	"robotsproxy/proxy/seal"
)

// Options say whether a command is sealed, and what of its network is led elsewhere than to
// the proxy. In a configuration they are the section "run".
type Options struct {
	Sealed bool `yaml:"sealed"`
	// Allow are destinations to which connections pass, whatever is spoken. Nothing of
	// them is judged.
	Allow []Destination `yaml:"allow"`
	// Forward are ports of this machine's 127.0.0.1 that the command finds at its own.
	Forward []Port `yaml:"forward"`
	// Ports are those on which connections are caught where the kernel can't redirect all;
	// see [seal.Options].
	Ports []Port `yaml:"ports"`
}

// Defaults are the defaults of a configuration.
func Defaults() Options { return Options{Ports: []Port{80, 443, 8080, 8443}} }

// Validate joins all that is wrong with o, each fault a [keyerr.Error].
func (o Options) Validate() error {
	var errs []error
	check := func(list string, ports []Port) {
		for i, p := range ports {
			switch key := keyerr.Item(list, i); {
			case p == namePort:
				errs = append(errs, keyerr.New(key, "port 53 is the name server's in a sealed network; leave it out"))
			case slices.Contains(ports[:i], p):
				errs = append(errs, keyerr.New(key, "%d is there twice; leave one out", p))
			}
		}
	}
	check("forward", o.Forward)
	check("ports", o.Ports)
	if n := len(o.Forward) + len(o.Ports); n > seal.MaxPorts {
		errs = append(errs, keyerr.New("forward", "forward and ports have %d ports together; %d are possible", n, seal.MaxPorts))
	}
	return errors.Join(errs...)
}

// namePort is that of DNS.
const namePort = 53

// A Port is one of TCP, and not 0.
type Port uint16

// UnmarshalText reads a number from 1 to 65535.
func (p *Port) UnmarshalText(text []byte) error {
	number, err := strconv.ParseUint(string(text), 10, 16)
	if err != nil || number == 0 {
		return fmt.Errorf("%q is no port; write a number from 1 to 65535", text)
	}
	*p = Port(number)
	return nil
}

// numbers are ports as package seal has them.
func numbers(ports []Port) []uint16 {
	all := make([]uint16, len(ports))
	for i, p := range ports {
		all[i] = uint16(p)
	}
	return all
}

// A Destination is where a connection may lead. Its zero value is none.
type Destination struct {
	host string     // in its normal form
	addr netip.Addr // of a host that is an address
	port uint16
}

// UnmarshalText reads HOST:PORT, where HOST is a name, an IPv4 address or an IPv6 address in
// brackets.
func (d *Destination) UnmarshalText(text []byte) error {
	host, port, err := net.SplitHostPort(string(text))
	var number Port
	if err != nil || host == "" || number.UnmarshalText([]byte(port)) != nil {
		return fmt.Errorf("%q is no destination; write HOST:PORT, for example db.example.com:5432 or [2001:db8::1]:22", text)
	}
	read := Destination{port: uint16(number)}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Zone() == "" {
		read.addr = addr.Unmap()
		read.host = read.addr.String()
	} else if read.host, err = hostname.Normal(host); err != nil {
		return fmt.Errorf("%q is no destination: %w", text, err)
	}
	if read.addr.IsLoopback() || read.addr.IsUnspecified() || read.host == "localhost" || strings.HasSuffix(read.host, ".localhost") {
		return fmt.Errorf("%s is the sealed command's own machine; --forward %d has it find this machine's 127.0.0.1:%d there", text, number, number)
	}
	*d = read
	return nil
}

func (d Destination) String() string { return net.JoinHostPort(d.host, strconv.Itoa(int(d.port))) }
