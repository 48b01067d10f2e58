// Package nfexpr has the expressions of nf_tables rules that lead connections to a
// listener of ours. Each function returns what stands in a rule; a rule is several of
// them, one after another.
package nfexpr

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// DNS is the port of DNS.
const DNS = 53

// register is the one that all expressions use.
const register = 1

// Accept ends the rules of a chain for a packet.
func Accept() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}} }

// Protocol matches a protocol above IP, as unix.IPPROTO_TCP.
func Protocol(number byte) []expr.Any {
	return append([]expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register}}, equals(number)...)
}

// IPv4 matches packets of IPv4.
func IPv4() []expr.Any { return family(unix.NFPROTO_IPV4) }

// IPv6 matches packets of IPv6.
func IPv6() []expr.Any { return family(unix.NFPROTO_IPV6) }

func family(number byte) []expr.Any {
	return append([]expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: register}}, equals(number)...)
}

// ToLoopback4 matches packets for a loopback address of IPv4.
func ToLoopback4() []expr.Any {
	return slices.Concat(IPv4(), payload(expr.PayloadBaseNetworkHeader, 16, 127))
}

// ToLoopback6 matches packets for the loopback address of IPv6.
func ToLoopback6() []expr.Any {
	return slices.Concat(IPv6(), payload(expr.PayloadBaseNetworkHeader, 24, netip.IPv6Loopback().AsSlice()...))
}

// ToPort matches packets of a protocol that has ports, as TCP and UDP have them.
func ToPort(protocol byte, port uint16) []expr.Any {
	return slices.Concat(Protocol(protocol), payload(expr.PayloadBaseTransportHeader, 2, binary.BigEndian.AppendUint16(nil, port)...))
}

// OpensTCP matches the packets by which clients open TCP connections.
func OpensTCP() []expr.Any {
	const flagsOffset, syn, synRstFinAck = 13, 0x02, 0x17
	return slices.Concat(Protocol(unix.IPPROTO_TCP), []expr.Any{
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: flagsOffset, Len: 1},
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 1, Mask: []byte{synRstFinAck}, Xor: []byte{0}},
	}, equals(syn))
}

// IsReply matches packets that answer those of the machine that began.
func IsReply() []expr.Any {
	const reply = 1 // IP_CT_DIR_REPLY
	return append([]expr.Any{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: register}}, equals(reply)...)
}

// OfUserNotIn matches packets of sockets whose owner is not in a set of users. The
// kernel's own packets have no owner, and are not matched.
func OfUserNotIn(users *nftables.Set) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeySKUID, Register: register},
		&expr.Lookup{SourceRegister: register, SetName: users.Name, SetID: users.ID, Invert: true},
	}
}

// RedirectTo leads a connection to a port of this machine's loopback.
func RedirectTo(port uint16) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: register, Data: binaryutil.BigEndian.PutUint16(port)},
		&expr.Redir{RegisterProtoMin: register},
	}
}

// payload matches octets at an offset of a header.
func payload(base expr.PayloadBase, offset uint32, octets ...byte) []expr.Any {
	return append([]expr.Any{
		&expr.Payload{DestRegister: register, Base: base, Offset: offset, Len: uint32(len(octets))},
	}, equals(octets...)...)
}

func equals(octets ...byte) []expr.Any {
	return []expr.Any{&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: octets}}
}
