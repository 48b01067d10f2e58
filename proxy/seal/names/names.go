// Package names answers the DNS queries of a sealed command from what this process can
// resolve.
//
// A [Server] answers A and AAAA by a [Resolver], as the command's own machine would: with
// real addresses, those of /etc/hosts included. HTTPS and SVCB are answered empty, so
// that no client tries HTTP/3 or hides its server name. Other types go to the
// machine's own nameservers. Where names resolve behind a parent proxy alone, [StandIns]
// gives an address to those that don't resolve here.
package names

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sync/singleflight"
)

// A Resolver finds the addresses of names; [net.Resolver] is one. A name ends with a dot.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, name string) ([]netip.Addr, error)
}

// A Server answers queries. It must not be copied, nor its fields changed, once it is in use.
type Server struct {
	Resolver Resolver
	// Nameservers are asked for other types than addresses. Without any, such queries get
	// the response code NOTIMP (RFC 1035 4.1.1).
	Nameservers []netip.AddrPort
	// StandIns, unless nil, gives addresses to names that don't resolve.
	StandIns *StandIns
	// OnPanic, unless nil, is told of a panic. It ends one query.
	OnPanic func(cause any)

	lookups singleflight.Group // A and AAAA of one name are often asked at once
}

const (
	// ttl is that of answers, in seconds. The machine's resolver doesn't tell theirs, and
	// may know better soon.
	ttl = 30
	// minPacket is what every client takes (RFC 1035 section 4.2.1).
	minPacket = 512
	// maxPacket is what crosses a loopback interface in one piece, and is often advised.
	maxPacket = 4096
	// maxMessage is the longest message of DNS.
	maxMessage = 1<<16 - 1
)

// Types that dnsmessage has no names for (RFC 9460, RFC 1995).
const (
	typeSVCB  dnsmessage.Type = 64
	typeHTTPS dnsmessage.Type = 65
	typeIXFR  dnsmessage.Type = 251
)

// Answer answers a query that came over "udp" or "tcp". It returns nil for what is not a
// query: such a message must not be answered.
func (s *Server) Answer(ctx context.Context, network string, message []byte) (answer []byte) {
	var q query
	defer func() {
		if cause := recover(); cause != nil {
			answer = q.answer(dnsmessage.RCodeServerFailure, nil, network)
			if s.OnPanic != nil {
				s.OnPanic(cause)
			}
		}
	}()
	var isQuery bool
	if q, isQuery = parse(message); !isQuery {
		return nil
	}
	switch {
	case q.failure != dnsmessage.RCodeSuccess:
		return q.answer(q.failure, nil, network)
	case q.Type == dnsmessage.TypeA || q.Type == dnsmessage.TypeAAAA:
		code, addresses := s.lookUp(ctx, q)
		return q.answer(code, addresses, network)
	case q.Type == typeHTTPS || q.Type == typeSVCB:
		return q.answer(dnsmessage.RCodeSuccess, nil, network)
	}
	if answer = s.passOn(ctx, network, message, q); answer != nil {
		return answer
	}
	if len(s.Nameservers) == 0 {
		return q.answer(dnsmessage.RCodeNotImplemented, nil, network)
	}
	return q.answer(dnsmessage.RCodeServerFailure, nil, network)
}

// A query is a parsed one, with at most one question.
type query struct {
	dnsmessage.Header
	dnsmessage.Question
	hasQuestion bool
	packet      int  // how long an answer by UDP may be
	extended    bool // it has EDNS (RFC 6891), so the answer has too
	failure     dnsmessage.RCode
}

// parse returns false for what is not to be answered.
func parse(message []byte) (q query, ok bool) {
	var p dnsmessage.Parser
	var err error
	if q.Header, err = p.Start(message); err != nil || q.Response {
		return q, false
	}
	q.packet = minPacket
	if q.OpCode != 0 {
		q.failure = dnsmessage.RCodeNotImplemented
		return q, true
	}
	if q.Question, err = p.Question(); err != nil {
		q.failure = dnsmessage.RCodeFormatError
		return q, true
	}
	q.hasQuestion = true
	if _, err := p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		q.failure = dnsmessage.RCodeFormatError // RFC 9619
		return q, true
	}
	if err := q.parseExtension(&p); err != nil {
		q.failure = dnsmessage.RCodeFormatError
		return q, true
	}
	if q.Class != dnsmessage.ClassINET || q.Type == dnsmessage.TypeALL || q.Type == dnsmessage.TypeAXFR || q.Type == typeIXFR {
		q.failure = dnsmessage.RCodeNotImplemented
	}
	return q, true
}

func (q *query) parseExtension(p *dnsmessage.Parser) error {
	if err := errors.Join(p.SkipAllAnswers(), p.SkipAllAuthorities()); err != nil {
		return err
	}
	for {
		h, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Type == dnsmessage.TypeOPT {
			q.extended = true
			q.packet = min(max(minPacket, int(h.Class)), maxPacket)
		}
		if err := p.SkipAdditional(); err != nil {
			return err
		}
	}
}

// lookUp finds the addresses of a name in the family that q asks for. If it has only
// such of the other family, there are none, but the name exists: some clients believe
// otherwise that it has none at all.
func (s *Server) lookUp(ctx context.Context, q query) (dnsmessage.RCode, []netip.Addr) {
	all, err := s.addresses(ctx, strings.ToLower(q.Name.String()))
	if err != nil {
		if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
			return dnsmessage.RCodeNameError, nil
		}
		return dnsmessage.RCodeServerFailure, nil
	}
	var family []netip.Addr
	for _, a := range all {
		if a = a.Unmap().WithZone(""); a.Is4() == (q.Type == dnsmessage.TypeA) {
			family = append(family, a)
		}
	}
	return dnsmessage.RCodeSuccess, family
}

// addresses are those of a name, which ends with a dot.
func (s *Server) addresses(ctx context.Context, name string) ([]netip.Addr, error) {
	timeout := lookupTimeout
	if s.StandIns != nil {
		if a, known := s.StandIns.known(name); known {
			return []netip.Addr{a}, nil
		}
		timeout = standInTimeout
	}
	found, err, _ := s.lookups.Do(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return s.Resolver.LookupNetIP(ctx, "ip", name)
	})
	if err != nil && s.StandIns != nil {
		if a, ok := s.StandIns.Address(name); ok {
			return []netip.Addr{a}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return found.([]netip.Addr), nil
}

// answer writes an answer. One that is too long for UDP says that it is cut, with no
// addresses, so that the client asks again by TCP.
func (q *query) answer(code dnsmessage.RCode, addresses []netip.Addr, network string) []byte {
	message, err := q.write(code, addresses, false)
	limit := maxMessage
	if network == "udp" {
		limit = q.packet
	}
	if err == nil && len(message) > limit {
		message, err = q.write(code, nil, true)
	}
	if err != nil {
		return nil
	}
	return message
}

func (q *query) write(code dnsmessage.RCode, addresses []netip.Addr, cut bool) ([]byte, error) {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{
		ID: q.ID, OpCode: q.OpCode, RCode: code, Response: true, Truncated: cut,
		RecursionDesired: q.RecursionDesired, RecursionAvailable: true,
	})
	b.EnableCompression()
	var errs []error
	if q.hasQuestion {
		errs = append(errs, b.StartQuestions(), b.Question(q.Question))
	}
	errs = append(errs, b.StartAnswers())
	header := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: ttl}
	for _, a := range addresses {
		if a.Is4() {
			errs = append(errs, b.AResource(header, dnsmessage.AResource{A: a.As4()}))
		} else {
			errs = append(errs, b.AAAAResource(header, dnsmessage.AAAAResource{AAAA: a.As16()}))
		}
	}
	if q.extended {
		var opt dnsmessage.ResourceHeader
		errs = append(errs, opt.SetEDNS0(maxPacket, dnsmessage.RCodeSuccess, false),
			b.StartAdditionals(), b.OPTResource(opt, dnsmessage.OPTResource{}))
	}
	message, err := b.Finish()
	return message, errors.Join(append(errs, err)...)
}
