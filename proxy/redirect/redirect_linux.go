package redirect

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"robotsproxy/internal/nfexpr"
)

// The names of what is installed.
const (
	tableName    = "robotsproxy"
	exceptedName = "excepted"
	redirectName = "redirect"
	rejectName   = "reject"
)

// Install installs the rules, in place of those that an earlier Install has left. It does
// all of it at once or, after an error, nothing. Counting begins anew.
func Install(r Rules) error {
	conn, err := nftables.New()
	if err != nil {
		return newError("installing the redirection", err)
	}
	// A table must exist to be deleted.
	table := conn.AddTable(&nftables.Table{Name: tableName, Family: nftables.TableFamilyINet})
	conn.DelTable(table)
	conn.AddTable(table)
	excepted := &nftables.Set{Table: table, Name: exceptedName, KeyType: nftables.TypeUID, KeyByteOrder: binaryutil.NativeEndian}
	var users []nftables.SetElement
	for _, uid := range r.Except {
		users = append(users, nftables.SetElement{Key: binary.NativeEndian.AppendUint32(nil, uid)})
	}
	if err := conn.AddSet(excepted, users); err != nil {
		return newError("installing the redirection", err)
	}
	addRedirectChain(conn, table, excepted, r.Port)
	addRejectChain(conn, table, excepted)
	if err := conn.Flush(); err != nil {
		return newError("installing the redirection", err)
	}
	return nil
}

func addRedirectChain(conn *nftables.Conn, table *nftables.Table, excepted *nftables.Set, port uint16) {
	chain := conn.AddChain(&nftables.Chain{
		Name: redirectName, Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput,
		// Before the tables of others, since the first that leads a connection elsewhere decides.
		Priority: nftables.ChainPriorityRef(*nftables.ChainPriorityNATDest - 10),
	})
	rule := ruleAdder(conn, chain)
	rule(nfexpr.ToLoopback4(), nfexpr.Accept())
	rule(nfexpr.ToLoopback6(), nfexpr.Accept())
	rule(nfexpr.ToPort(unix.IPPROTO_TCP, nfexpr.DNS), nfexpr.Accept())
	// Without OpensTCP, the kernel would also redirect connections from before it began to
	// track any, among them those of clients of this machine.
	rule(nfexpr.OfUserNotIn(excepted), nfexpr.OpensTCP(), count(), nfexpr.RedirectTo(port))
}

func addRejectChain(conn *nftables.Conn, table *nftables.Table, excepted *nftables.Set) {
	chain := conn.AddChain(&nftables.Chain{
		Name: rejectName, Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput,
		Priority: nftables.ChainPriorityFilter,
	})
	rule := ruleAdder(conn, chain)
	rule(nfexpr.ToLoopback4(), nfexpr.Accept())
	rule(nfexpr.ToLoopback6(), nfexpr.Accept())
	rule(nfexpr.ToPort(unix.IPPROTO_UDP, nfexpr.DNS), nfexpr.Accept())
	for _, protocol := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6} {
		rule(nfexpr.Protocol(protocol), nfexpr.Accept())
	}
	rule(nfexpr.IsReply(), nfexpr.Accept())
	rule(nfexpr.OfUserNotIn(excepted), count(), []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH}})
}

// ruleAdder returns a function that adds a rule to a chain.
func ruleAdder(conn *nftables.Conn, chain *nftables.Chain) func(parts ...[]expr.Any) {
	return func(parts ...[]expr.Any) {
		conn.AddRule(&nftables.Rule{Table: chain.Table, Chain: chain, Exprs: slices.Concat(parts...)})
	}
}

func count() []expr.Any { return []expr.Any{&expr.Counter{}} }

// Remove removes the rules. The error is [ErrNotInstalled] if there are none.
// Connections that they have redirected stay as they are.
func Remove() error {
	conn, table, err := installed()
	if err == nil {
		conn.DelTable(table)
		err = conn.Flush()
	}
	if err != nil {
		return newError("removing the redirection", err)
	}
	return nil
}

// Installed reads what is installed. The error is [ErrNotInstalled] if nothing is.
func Installed() (Status, error) {
	s, err := status()
	if err != nil {
		return Status{}, newError("reading the redirection", err)
	}
	return s, nil
}

func status() (s Status, err error) {
	conn, table, err := installed()
	if err != nil {
		return s, err
	}
	users, err := conn.GetSetElements(&nftables.Set{Table: table, Name: exceptedName})
	if err != nil {
		return s, err
	}
	for _, u := range users {
		if len(u.Key) == 4 {
			s.Except = append(s.Except, binary.NativeEndian.Uint32(u.Key))
		}
	}
	slices.Sort(s.Except)
	for _, name := range []string{redirectName, rejectName} {
		rules, err := conn.GetRules(table, &nftables.Chain{Name: name})
		if err != nil {
			return s, err
		}
		for _, r := range rules {
			s.read(r.Exprs)
		}
	}
	if s.Port == 0 {
		return s, errors.New("its table has other rules than ours")
	}
	return s, nil
}

// read reads a rule, if it is one of those that count.
func (s *Status) read(exprs []expr.Any) {
	var counted uint64
	var written []byte
	for _, e := range exprs {
		switch e := e.(type) {
		case *expr.Counter:
			counted = e.Packets
		case *expr.Immediate:
			written = e.Data
		case *expr.Redir:
			s.Redirected = counted
			if len(written) >= 2 {
				s.Port = binary.BigEndian.Uint16(written)
			}
		case *expr.Reject:
			s.Rejected = counted
		}
	}
}

// installed finds our table.
func installed() (*nftables.Conn, *nftables.Table, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, nil, err
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(tables, func(t *nftables.Table) bool { return t.Name == tableName })
	if i < 0 {
		return nil, nil, ErrNotInstalled
	}
	return conn, tables[i], nil
}

func newError(step string, err error) error {
	e := &Error{Step: step, Err: err}
	switch {
	case errors.Is(err, ErrNotInstalled):
		return err
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		e.Next = "it takes CAP_NET_ADMIN: run the command as root, or give its container the capability NET_ADMIN"
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOENT):
		e.Next = "this kernel has no nf_tables, or not all of it: load its modules (modprobe -a nf_tables nft_chain_nat nft_redir nft_reject_inet nft_ct), from Linux 5.2 on"
	}
	return e
}
