package names

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hosts is a Resolver: the addresses of names. A name without any fails in a way of its own.
type hosts map[string][]string

func (h hosts) LookupNetIP(ctx context.Context, _, name string) (all []netip.Addr, err error) {
	switch name {
	case "panic.example.":
		panic("a fault")
	case "broken.example.":
		return nil, &net.DNSError{Err: "server misbehaving", IsTemporary: true}
	case "slow.example.":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, a := range h[name] {
		all = append(all, netip.MustParseAddr(a))
	}
	if all == nil {
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}
	return all, nil
}

var someHosts = hosts{
	"both.example.":   {"192.0.2.1", "2001:db8::1", "192.0.2.2"},
	"mapped.example.": {"::ffff:192.0.2.3"},
	"zoned.example.":  {"fe80::1%eth0"},
	"v6.example.":     {"2001:db8::6"},
	"many.example.":   manyAddresses(),
}

// manyAddresses are more than a packet of 512 octets holds.
func manyAddresses() (all []string) {
	for i := range 60 {
		all = append(all, fmt.Sprintf("192.0.2.%d", i))
	}
	return all
}

// ask is a query for one type of one name.
func ask(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 1234, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	packed, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// withEDNS is a query that allows longer answers.
func withEDNS(t testing.TB, query []byte, size int) []byte {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		t.Fatal(err)
	}
	var h dnsmessage.ResourceHeader
	if err := h.SetEDNS0(size, 0, false); err != nil {
		t.Fatal(err)
	}
	m.Additionals = append(m.Additionals, dnsmessage.Resource{Header: h, Body: &dnsmessage.OPTResource{}})
	packed, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// read gives an answer's code and addresses.
func read(t testing.TB, answer []byte) (m dnsmessage.Message, addresses []string) {
	t.Helper()
	if err := m.Unpack(answer); err != nil {
		t.Fatalf("%v: %q", err, answer)
	}
	for _, r := range m.Answers {
		switch body := r.Body.(type) {
		case *dnsmessage.AResource:
			addresses = append(addresses, netip.AddrFrom4(body.A).String())
		case *dnsmessage.AAAAResource:
			addresses = append(addresses, netip.AddrFrom16(body.AAAA).String())
		default:
			t.Errorf("a record %v", r)
		}
	}
	return m, addresses
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name      string
		kind      dnsmessage.Type
		code      dnsmessage.RCode
		addresses []string
	}{
		{"both.example.", dnsmessage.TypeA, 0, []string{"192.0.2.1", "192.0.2.2"}},
		{"both.example.", dnsmessage.TypeAAAA, 0, []string{"2001:db8::1"}},
		{"BOTH.Example.", dnsmessage.TypeA, 0, []string{"192.0.2.1", "192.0.2.2"}},
		{"mapped.example.", dnsmessage.TypeA, 0, []string{"192.0.2.3"}},
		{"mapped.example.", dnsmessage.TypeAAAA, 0, nil},
		{"zoned.example.", dnsmessage.TypeAAAA, 0, []string{"fe80::1"}},
		{"v6.example.", dnsmessage.TypeA, 0, nil}, // the name exists
		{"none.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, nil},
		{"broken.example.", dnsmessage.TypeA, dnsmessage.RCodeServerFailure, nil},
		{"both.example.", typeHTTPS, 0, nil},
		{"_8443._https.both.example.", typeSVCB, 0, nil},
		{"both.example.", dnsmessage.TypeMX, dnsmessage.RCodeNotImplemented, nil},
		{"both.example.", dnsmessage.TypeALL, dnsmessage.RCodeNotImplemented, nil},
		{"both.example.", dnsmessage.TypeAXFR, dnsmessage.RCodeNotImplemented, nil},
		{".", dnsmessage.TypeA, dnsmessage.RCodeNameError, nil},
	} {
		s := Server{Resolver: someHosts}
		for _, network := range []string{"udp", "tcp"} {
			m, addresses := read(t, s.Answer(t.Context(), network, ask(t, c.name, c.kind)))
			if m.RCode != c.code || !slices.Equal(addresses, c.addresses) {
				t.Errorf("%s %v: got %v %v, want %v %v", c.name, c.kind, m.RCode, addresses, c.code, c.addresses)
			}
			if m.ID != 1234 || !m.Response || !m.RecursionAvailable || m.Truncated || len(m.Questions) != 1 || m.Questions[0].Name.String() != c.name {
				t.Errorf("%s: got %v", c.name, m)
			}
		}
	}
}

func TestLongAnswersAreCut(t *testing.T) {
	s := Server{Resolver: someHosts}
	query := ask(t, "many.example.", dnsmessage.TypeA)
	for _, c := range []struct {
		network string
		query   []byte
		edns    int
		want    int
	}{
		{"udp", query, 0, 0},
		{"tcp", query, 0, 60},
		{"udp", withEDNS(t, query, 1232), 1, 60},
		{"udp", withEDNS(t, query, 100), 1, 0}, // 512 is the least
	} {
		m, addresses := read(t, s.Answer(t.Context(), c.network, c.query))
		if len(addresses) != c.want || m.Truncated != (c.want == 0) || len(m.Additionals) != c.edns {
			t.Errorf("%s: got %d addresses, %v", c.network, len(addresses), m.Header)
		}
	}
}

func TestBadQueries(t *testing.T) {
	good := ask(t, "both.example.", dnsmessage.TypeA)
	change := func(offset int, value byte) []byte {
		changed := bytes.Clone(good)
		changed[offset] = value
		return changed
	}
	twoQuestions := dnsmessage.Message{Questions: []dnsmessage.Question{
		{Name: dnsmessage.MustNewName("both.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
		{Name: dnsmessage.MustNewName("v6.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
	}}
	two, err := twoQuestions.Pack()
	if err != nil {
		t.Fatal(err)
	}
	const silence = 0xFFFF
	for _, c := range []struct {
		what  string
		query []byte
		want  dnsmessage.RCode
	}{
		{"nothing", nil, silence},
		{"too short", good[:11], silence},
		{"a response", change(2, 0x80), silence},
		{"a status query", change(2, 0x10), dnsmessage.RCodeNotImplemented},
		{"no question", change(5, 0), dnsmessage.RCodeFormatError},
		{"a cut question", good[:20], dnsmessage.RCodeFormatError},
		{"two questions", two, dnsmessage.RCodeFormatError},
		{"a missing record", change(11, 1), dnsmessage.RCodeFormatError},
		{"class CHAOS", change(len(good)-1, 3), dnsmessage.RCodeNotImplemented},
	} {
		s := Server{Resolver: someHosts}
		answer := s.Answer(t.Context(), "udp", c.query)
		if c.want == silence {
			if answer != nil {
				t.Errorf("%s: got %q", c.what, answer)
			}
			continue
		}
		if m, _ := read(t, answer); m.RCode != c.want {
			t.Errorf("%s: got %v", c.what, m.RCode)
		}
	}
}

func TestPanicEndsOneQuery(t *testing.T) {
	var cause any
	s := Server{Resolver: someHosts, OnPanic: func(c any) { cause = c }}
	m, _ := read(t, s.Answer(t.Context(), "udp", ask(t, "panic.example.", dnsmessage.TypeA)))
	if m.RCode != dnsmessage.RCodeServerFailure || !strings.Contains(fmt.Sprint(cause), "a fault") {
		t.Errorf("got %v, %v", m.RCode, cause)
	}
}

func TestNamesThatDoNotResolveGetStandIns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Server{Resolver: someHosts, StandIns: &StandIns{}}
		for _, c := range []struct {
			name string
			want []string
		}{
			{"both.example.", []string{"192.0.2.1", "192.0.2.2"}},
			{"inside.corp.", []string{"198.18.0.0"}},
			{"broken.example.", []string{"198.18.0.1"}},
			{"slow.example.", []string{"198.18.0.2"}},
			{"INSIDE.corp.", []string{"198.18.0.0"}},
			{"localhost.", nil},
			{"strange\n.name.", nil},
		} {
			_, addresses := read(t, s.Answer(t.Context(), "udp", ask(t, c.name, dnsmessage.TypeA)))
			if !slices.Equal(addresses, c.want) {
				t.Errorf("%s: got %v, want %v", c.name, addresses, c.want)
			}
		}
		m, addresses := read(t, s.Answer(t.Context(), "udp", ask(t, "inside.corp.", dnsmessage.TypeAAAA)))
		if m.RCode != 0 || addresses != nil {
			t.Errorf("AAAA: got %v %v", m.RCode, addresses)
		}
		for address, want := range map[string]string{"198.18.0.0": "inside.corp", "::ffff:198.18.0.2": "slow.example"} {
			if name, ok := s.StandIns.Name(netip.MustParseAddr(address)); !ok || name != want {
				t.Errorf("%s: got %q", address, name)
			}
		}
		for _, other := range []string{"198.18.0.3", "198.17.255.255", "198.20.0.0", "0.0.0.0", "255.255.255.255", "::1"} {
			if name, ok := s.StandIns.Name(netip.MustParseAddr(other)); ok {
				t.Errorf("%s: got %q", other, name)
			}
		}
	})
}

func TestOldestStandInGoesFirst(t *testing.T) {
	var s StandIns
	for i := range maxStandIns + 1 {
		s.Address(fmt.Sprint("name", i))
	}
	if len(s.names) != maxStandIns || len(s.index) != maxStandIns {
		t.Errorf("there are %d names and %d indices", len(s.names), len(s.index))
	}
	if name, _ := s.Name(firstStandIn); name != fmt.Sprint("name", maxStandIns) {
		t.Errorf("got %q", name)
	}
	if a, _ := s.Address("name1"); a != firstStandIn.Next() {
		t.Errorf("got %v", a)
	}
	if a, _ := s.Address("name0"); a != firstStandIn.Next() {
		t.Errorf("got %v", a)
	}
	last := netip.MustParseAddr("198.18.255.255")
	if name, ok := s.Name(last); !ok || name != fmt.Sprint("name", maxStandIns-1) {
		t.Errorf("got %q", name)
	}
}

// clientOf is a real client of s, which is served until the test ends.
func clientOf(t *testing.T, s *Server) *net.Resolver {
	t.Helper()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	go func() { s.ServePackets(ctx, socket); ended <- struct{}{} }()
	go func() { s.ServeConns(ctx, l); ended <- struct{}{} }()
	t.Cleanup(func() { cancel(); <-ended; <-ended })
	addresses := map[string]net.Addr{"udp": socket.LocalAddr(), "tcp": l.Addr()}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addresses[network].String())
	}}
}

func TestRealClient(t *testing.T) {
	client := clientOf(t, &Server{Resolver: someHosts})
	got, err := client.LookupHost(t.Context(), "both.example.")
	slices.Sort(got)
	if want := []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := client.LookupHost(t.Context(), "many.example."); err != nil || len(got) != 60 {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = client.LookupHost(t.Context(), "none.example.")
	if e, ok := errors.AsType[*net.DNSError](err); !ok || !e.IsNotFound {
		t.Errorf("got %v", err)
	}
}

func TestOtherTypesArePassedOn(t *testing.T) {
	// The upstream server answers MX alone, by a hand-made handler.
	upstream, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	go func() {
		packet := make([]byte, maxMessage)
		for {
			n, client, err := upstream.ReadFromUDPAddrPort(packet)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(packet[:n]) != nil {
				return
			}
			m.Response = true
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET},
				Body:   &dnsmessage.MXResource{Pref: 10, MX: dnsmessage.MustNewName("mail.example.")},
			}}
			right, _ := m.Pack()
			m.ID++
			forged, _ := m.Pack()
			m.ID--
			m.Questions[0].Name = dnsmessage.MustNewName("other.example.")
			other, _ := m.Pack()
			for _, answer := range [][]byte{nil, forged, other, right} {
				upstream.WriteToUDPAddrPort(answer, client)
			}
		}
	}()
	refusing := netip.MustParseAddrPort("127.0.0.1:1")
	s := &Server{Resolver: someHosts, Nameservers: []netip.AddrPort{refusing, upstream.LocalAddr().(*net.UDPAddr).AddrPort()}}
	mx, err := clientOf(t, s).LookupMX(t.Context(), "both.example.")
	if err != nil || len(mx) != 1 || mx[0].Host != "mail.example." {
		t.Errorf("got %v, %v", mx, err)
	}
	s = &Server{Resolver: someHosts, Nameservers: []netip.AddrPort{refusing}}
	for _, network := range []string{"udp", "tcp"} {
		if m, _ := read(t, s.Answer(t.Context(), network, ask(t, "both.example.", dnsmessage.TypeMX))); m.RCode != dnsmessage.RCodeServerFailure {
			t.Errorf("%s: got %v", network, m.RCode)
		}
	}
}

func TestNameservers(t *testing.T) {
	const text = "# nameserver 192.0.2.9\nsearch corp.example\nnameserver 192.0.2.1\nnameserver x\n  nameserver\tfe80::1%eth0 \nnameserver\nnameserver 2001:db8::1\nnameserver 192.0.2.4\n"
	got := fmt.Sprint(Nameservers(text))
	if want := "[192.0.2.1:53 [fe80::1%eth0]:53 [2001:db8::1]:53]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzAnswer(f *testing.F) {
	good := ask(f, "both.example.", dnsmessage.TypeA)
	f.Add(good)
	f.Add(withEDNS(f, ask(f, "many.example.", dnsmessage.TypeA), 4096))
	f.Add(ask(f, "none.example.", dnsmessage.TypeAAAA))
	f.Add(ask(f, "both.example.", typeHTTPS))
	f.Add(ask(f, strings.Repeat("long-label.", 20)+"x.", dnsmessage.TypeTXT))
	f.Add(good[:20])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, query []byte) {
		if bytes.Contains(bytes.ToLower(query), []byte("\x04slow")) || bytes.Contains(bytes.ToLower(query), []byte("\x05panic")) {
			t.Skip("it waits or panics")
		}
		s := Server{Resolver: someHosts, StandIns: &StandIns{}}
		answer := s.Answer(t.Context(), "udp", query)
		if answer == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(answer); err != nil {
			t.Fatalf("%v: %q", err, answer)
		}
		if !m.Response || len(answer) > maxPacket || m.ID != uint16(query[0])<<8|uint16(query[1]) {
			t.Errorf("got %v", m.Header)
		}
		if s.Answer(t.Context(), "udp", answer) != nil {
			t.Error("an answer was answered")
		}
		for name := range s.StandIns.index {
			if !isHost(name) {
				t.Errorf("%q has an address", name)
			}
		}
	})
}
