package names

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// maxNameservers is how many resolv.conf(5) lets a resolver use.
	maxNameservers = 3
	// serverTimeout is how long one nameserver may take.
	serverTimeout = 3 * time.Second
)

// Nameservers are those that a resolv.conf(5) names, at most three.
func Nameservers(resolvConf string) (servers []netip.AddrPort) {
	for line := range strings.Lines(resolvConf) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" || len(servers) == maxNameservers {
			continue
		}
		if address, err := netip.ParseAddr(fields[1]); err == nil {
			servers = append(servers, netip.AddrPortFrom(address, 53))
		}
	}
	return servers
}

// passOn asks the nameservers in turn. It returns nil if none answers.
func (s *Server) passOn(ctx context.Context, network string, query []byte, q query) []byte {
	for _, server := range s.Nameservers {
		if answer, err := exchange(ctx, network, server, query, q); err == nil {
			return answer
		}
	}
	return nil
}

// exchange asks a nameserver by the network by which the query came, so that an answer
// has the right length. The query gets a number of its own, by which nobody else on the
// way can guess it.
func exchange(ctx context.Context, network string, server netip.AddrPort, query []byte, q query) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	id := uint16(rand.Uint32())
	query = append(binary.BigEndian.AppendUint16(nil, id), query[2:]...)
	if network == "udp" {
		_, err = conn.Write(query)
	} else {
		err = writeMessage(conn, query)
	}
	if err != nil {
		return nil, err
	}
	packet := make([]byte, maxMessage)
	for {
		answer := packet
		if network == "udp" {
			var n int
			n, err = conn.Read(packet)
			answer = packet[:n]
		} else {
			answer, err = readMessage(conn)
		}
		if err != nil {
			return nil, err
		}
		if answers(answer, id, q) {
			return append(binary.BigEndian.AppendUint16(nil, q.ID), answer[2:]...), nil
		}
		if network != "udp" {
			return nil, io.ErrUnexpectedEOF
		}
	}
}

// answers reports whether a message answers q as it was asked under a number.
func answers(message []byte, id uint16, q query) bool {
	var p dnsmessage.Parser
	header, err := p.Start(message)
	if err != nil || !header.Response || header.ID != id {
		return false
	}
	question, err := p.Question()
	if err != nil {
		return header.RCode != dnsmessage.RCodeSuccess // a refusal may leave the question out
	}
	return question.Type == q.Type && question.Class == q.Class && strings.EqualFold(question.Name.String(), q.Name.String())
}
