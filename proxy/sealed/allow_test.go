package sealed

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"robotsproxy/proxy/seal/names"
)

// resolver has the addresses of names, and counts how often it is asked.
type resolver struct {
	names map[string]string
	asked int
}

func (r *resolver) LookupNetIP(_ context.Context, _, name string) (found []netip.Addr, err error) {
	r.asked++
	for text := range strings.FieldsSeq(r.names[strings.TrimSuffix(name, ".")]) {
		found = append(found, netip.MustParseAddr(text))
	}
	if found == nil {
		err = errors.New("no such name")
	}
	return found, err
}

func destination(t *testing.T, text string) (d Destination) {
	t.Helper()
	if err := d.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAllowedDestinations(t *testing.T) {
	standIns := new(names.StandIns)
	standIn, _ := standIns.Address("db.corp.test")
	other, _ := standIns.Address("other.corp.test")
	r := &resolver{names: map[string]string{"db.test": "10.0.0.5 2001:db8::5", "mapped.test": "::ffff:10.0.0.6"}}
	l := newAllowList([]Destination{
		destination(t, "10.0.0.1:22"), destination(t, "[2001:db8::1]:22"), destination(t, "DB.test.:5432"),
		destination(t, "mapped.test:1"), destination(t, "db.corp.test:5432"), destination(t, "nowhere.test:99"),
	}, r, standIns)
	for wanted, want := range map[string]string{
		"10.0.0.1:22":                    "10.0.0.1:22 dials 10.0.0.1:22",
		"10.0.0.1:23":                    "",
		"10.0.0.2:22":                    "",
		"[2001:db8::1]:22":               "[2001:db8::1]:22 dials [2001:db8::1]:22",
		"10.0.0.5:5432":                  "db.test:5432 dials 10.0.0.5:5432",
		"[2001:db8::5]:5432":             "db.test:5432 dials [2001:db8::5]:5432",
		"10.0.0.5:22":                    "",
		"10.0.0.6:1":                     "mapped.test:1 dials 10.0.0.6:1",
		standIn.String() + ":5432":       "db.corp.test:5432 dials db.corp.test:5432",
		other.String() + ":5432":         "",
		"10.0.0.5:99":                    "",
		"198.19.255.255:5432":            "",
		"[::ffff:10.0.0.1]:65535":        "",
		"0.0.0.0:22":                     "",
		netip.AddrPort{}.Addr().String(): "",
	} {
		address, _ := netip.ParseAddrPort(wanted)
		got := ""
		if d, dial := l.find(t.Context(), address); d != nil {
			got = fmt.Sprintf("%v dials %s", d, dial)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", wanted, got, want)
		}
	}
}

// What the command was told of a name counts, even if the name leads elsewhere by now. What
// it was not told is looked up, but not for each connection.
func TestAllowedNamesMove(t *testing.T) {
	now := time.Now()
	r := &resolver{names: map[string]string{"store.test": "10.0.0.1"}}
	l := newAllowList([]Destination{destination(t, "store.test:443")}, r, nil)
	l.now = func() time.Time { return now }
	allows := func(address string) bool {
		d, _ := l.find(t.Context(), netip.MustParseAddrPort(address+":443"))
		return d != nil
	}
	if _, err := l.LookupNetIP(t.Context(), "ip", "store.test."); err != nil {
		t.Fatal(err)
	}
	r.names["store.test"] = "10.0.0.2"
	if !allows("10.0.0.1") || !allows("10.0.0.2") || allows("10.0.0.3") {
		t.Error("an address that the command was told, or the present one, is refused, or another one allowed")
	}
	asked := r.asked
	for range 10 {
		allows("10.0.0.3")
	}
	if r.asked != asked {
		t.Errorf("the name was looked up %d times more", r.asked-asked)
	}
	r.names["store.test"] = "10.0.0.3"
	now = now.Add(lookupEvery)
	if !allows("10.0.0.3") || !allows("10.0.0.1") {
		t.Error("the name's present address is refused, or a former one")
	}
	for i := range 10 * maxAddresses {
		r.names["store.test"] = netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}).String()
		l.LookupNetIP(t.Context(), "ip", "store.test.")
	}
	if n := len(l.all[0].addresses); n > maxAddresses {
		t.Errorf("%d addresses are remembered", n)
	}
}

func TestDestinationsAreRead(t *testing.T) {
	for text, want := range map[string]string{
		"db.example.com:5432":    "db.example.com:5432",
		"DB.Example.com.:5432":   "db.example.com:5432",
		"bücher.example:1":       "xn--bcher-kva.example:1",
		"10.0.0.5:22":            "10.0.0.5:22",
		"[2001:DB8::1]:65535":    "[2001:db8::1]:65535",
		"[::ffff:10.0.0.5]:22":   "10.0.0.5:22",
		"":                       "",
		"db.example.com":         "",
		":22":                    "",
		"db.example.com:":        "",
		"db.example.com:0":       "",
		"db.example.com:65536":   "",
		"db.example.com:ssh":     "",
		"2001:db8::1:22":         "",
		"[fe80::1%eth0]:22":      "",
		"user@db.example.com:22": "",
		"*:22":                   "",
		"127.0.0.1:22":           "",
		"127.8.8.8:22":           "",
		"[::1]:22":               "",
		"[::ffff:127.0.0.1]:22":  "",
		"0.0.0.0:22":             "",
		"localhost:22":           "",
		"LocalHost.:22":          "",
		"a.localhost:22":         "",
	} {
		var d Destination
		err := d.UnmarshalText([]byte(text))
		if want == "" {
			if err == nil || d != (Destination{}) {
				t.Errorf("%q is read as %v", text, d)
			}
			continue
		}
		if err != nil || d.String() != want {
			t.Errorf("%q: %v, %v, want %s", text, d, err, want)
		}
	}
}

// What was refused is named as --allow takes it.
func TestRefusedDestinationsAreNamed(t *testing.T) {
	n := New(Setup{Options: Defaults(), HasParent: true})
	n.allow.resolver = &resolver{names: map[string]string{"git.test": "10.0.0.5 2001:db8::5", "a b.test": "10.0.0.6", "more.test": "10.0.0.7"}}
	standIn, _ := n.standIns.Address("git.corp.test")
	for _, name := range []string{"git.test.", "a b.test.", "nowhere.test."} {
		n.allow.LookupNetIP(t.Context(), "ip", name)
	}
	for address, want := range map[string]string{
		"10.0.0.5:22":            "git.test:22",
		"[2001:db8::5]:22":       "git.test:22",
		"10.0.0.6:22":            "10.0.0.6:22",
		"10.0.0.7:22":            "10.0.0.7:22",
		standIn.String() + ":22": "git.corp.test:22",
	} {
		if got := n.nameOf(netip.MustParseAddrPort(address)); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
	for i := range maxTold + 10 {
		n.allow.told.add("many.test", []netip.Addr{netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})})
	}
	if len(n.allow.told.names) > maxTold {
		t.Errorf("%d names are remembered", len(n.allow.told.names))
	}
}

// The proxy has a port inside that nothing else wants.
func TestProxyAddress(t *testing.T) {
	for want, o := range map[string]Options{
		"127.0.0.1:61000": Defaults(),
		"127.0.0.1:61002": {Forward: []Port{61000}, Ports: []Port{61001}},
	} {
		if got := New(Setup{Options: o}).ProxyAddress().String(); got != want {
			t.Errorf("%v: %s, want %s", o, got, want)
		}
	}
}

// A scan of many destinations is counted, but not each of them.
func TestTallyIsBounded(t *testing.T) {
	n := New(Setup{Options: Defaults()})
	for i := range 3 * maxDestinations {
		n.tally.addRefused(fmt.Sprintf("192.0.2.1:%d", i))
		n.tally.addRefused("192.0.2.1:1")
	}
	refused := n.Report().Refused
	if len(refused) != maxDestinations+1 || refused[0] != (Count{"192.0.2.1:1", 3*maxDestinations + 1}) || refused[1] != (Count{"", 2 * maxDestinations}) {
		t.Errorf("%d destinations, %v, %v", len(refused), refused[0], refused[1])
	}
}
