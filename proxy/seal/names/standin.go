package names

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"sync"
)

// maxStandIns bounds the names that have addresses at the same time.
const maxStandIns = 1 << 16

// firstStandIn begins the addresses for tests between networks (RFC 2544), 198.18.0.0/15,
// of which half are used. No site has one.
var firstStandIn = netip.AddrFrom4([4]byte{198, 18, 0, 0})

// StandIns are addresses that stand for names. The zero value has none. A name keeps its
// address until so many others have asked for one that the addresses are used up; the
// oldest goes first. It is safe for concurrent use.
type StandIns struct {
	mu    sync.Mutex
	names []string       // by their address's distance to the first one
	index map[string]int // the other way round
	next  int            // the index in names that is used next
}

// Address is the address that stands for a name, from now on if not before. It is false
// for localhost, which no proxy resolves, and for what can't be the name of a host.
func (s *StandIns) Address(name string) (netip.Addr, bool) {
	name = normal(name)
	if !isHost(name) || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return netip.Addr{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, known := s.index[name]
	if !known {
		i = s.add(name)
	}
	return standIn(i), true
}

// known is the address that stands for a name already.
func (s *StandIns) known(name string) (netip.Addr, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, known := s.index[normal(name)]
	return standIn(i), known
}

// add gives a new name the next index. Callers must hold mu.
func (s *StandIns) add(name string) int {
	if s.index == nil {
		s.index = map[string]int{}
	}
	i := s.next
	s.next = (s.next + 1) % maxStandIns
	if i == len(s.names) {
		s.names = append(s.names, name)
	} else {
		delete(s.index, s.names[i])
		s.names[i] = name
	}
	s.index[name] = i
	return i
}

// Name is the name, in lower case and without a dot at its end, for which an address
// stands.
func (s *StandIns) Name(a netip.Addr) (string, bool) {
	a = a.Unmap()
	if !a.Is4() {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := int64(number(a)) - int64(number(firstStandIn))
	if i < 0 || i >= int64(len(s.names)) {
		return "", false
	}
	return s.names[i], true
}

func standIn(i int) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, number(firstStandIn)+uint32(i))))
}

func number(a netip.Addr) uint32 {
	octets := a.As4()
	return binary.BigEndian.Uint32(octets[:])
}

func normal(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// isHost reports whether a name holds nothing but letters, digits, hyphens, underscores
// and dots. Clients can ask for names with any octets.
func isHost(name string) bool {
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return name != ""
}
