package child

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// users are the users who may use the proxy of a run: this process's own user, root, and
// the users that processes of the command run as now. A process belongs to the command as
// long as it descends from this process. A daemon that changes its user and outlives its
// parent does not.
type users struct {
	mu     sync.Mutex
	listed time.Time // when the processes were last listed
	uids   []uint32  // the users that they ran as
}

// CommandUsers returns a function that says why the client of a connection to the proxy
// is not of the command, or nil if it is: that is, if it belongs to this process's user, to
// root, or to a user that a descendant of this process runs as. The function is safe for
// concurrent use. CommandUsers returns nil if the system does not tell who owns the other
// end of a connection.
func CommandUsers() func(client, proxy netip.AddrPort) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil
	}
	defer conn.Close()
	client, proxy := conn.LocalAddr().(*net.TCPAddr).AddrPort(), conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	if uid, err := socketOwner(client, proxy); err != nil || int(uid) != os.Geteuid() {
		return nil
	}
	return new(users).admit
}

// admit returns an error that says why the client of a connection may not use the proxy,
// or nil if it may.
func (u *users) admit(client, proxy netip.AddrPort) error {
	asked := time.Now()
	uid, err := socketOwner(client, proxy)
	switch {
	case err != nil:
		return fmt.Errorf("finding out whose connection this is: %w", err)
	case uid == 0, int(uid) == os.Geteuid(), u.has(uid, asked):
		return nil
	}
	return fmt.Errorf("this proxy is private to a command of user %d, and user %d may not use it", os.Geteuid(), uid)
}

// has reports whether a process of the command ran as the user at that time or later.
// Callers who ask at the same time share one listing of the processes.
func (u *users) has(uid uint32, at time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.listed.Before(at) {
		u.listed = time.Now()
		u.uids = descendantUsers(os.Getpid())
	}
	return slices.Contains(u.uids, uid)
}

// descendantUsers are the users that the descendants of a process run as.
func descendantUsers(pid int) (uids []uint32) {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + entry.Name() + "/stat") // the process may have ended
		// The name is in parentheses and may hold any character; after it come the
		// state and the parent.
		if fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]); len(fields) > 1 {
			if parent, err := strconv.Atoi(string(fields[1])); err == nil {
				children[parent] = append(children[parent], child)
			}
		}
	}
	for next := children[pid]; len(next) > 0; next = append(next[1:], children[next[0]]...) {
		uids = append(uids, processUsers(next[0])...)
	}
	return uids
}

// processUsers are the users as whom a process may open a socket.
func processUsers(pid int) (uids []uint32) {
	status, _ := os.Open("/proc/" + strconv.Itoa(pid) + "/status")
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if all, found := strings.CutPrefix(lines.Text(), "Uid:"); found {
			for _, field := range strings.Fields(all) { // real, effective, saved, file system
				if uid, err := strconv.ParseUint(field, 10, 32); err == nil {
					uids = append(uids, uint32(uid))
				}
			}
		}
	}
	return uids
}

// socketOwner returns the user who opened the client's end of a TCP connection over IPv4 on
// this machine. It asks the kernel through sock_diag(7). /proc/net/tcp says the same, but
// takes tens of milliseconds to read on a big machine, however few connections there are.
func socketOwner(client, server netip.AddrPort) (uid uint32, err error) {
	client, server = netip.AddrPortFrom(client.Addr().Unmap(), client.Port()), netip.AddrPortFrom(server.Addr().Unmap(), server.Port())
	if !client.Addr().Is4() || !server.Addr().Is4() {
		return 0, errors.New("the connection is not over IPv4")
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, diagRequest(client, server), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, os.NewSyscallError("sendto", err)
	}
	reply := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, reply, 0) // only the kernel may send here
	if err != nil {
		return 0, os.NewSyscallError("recvfrom", err)
	}
	return diagOwner(reply[:n])
}

// Messages of sock_diag(7).
type (
	diagSocket struct {
		ClientPort, ServerPort [2]byte // network order
		Client, Server         [16]byte
		Interface              uint32
		Cookie                 [2]uint32
	}
	diagQuestion struct {
		unix.NlMsghdr
		Family, Protocol, Extensions, _ uint8
		States                          uint32
		diagSocket
	}
	diagAnswer struct {
		Family, State, Timer, Retransmits uint8
		diagSocket
		Expires, ReadQueue, WriteQueue uint32
		UID, Inode                     uint32
	}
)

func diagRequest(client, server netip.AddrPort) []byte {
	const any = 0xffffffff
	q := diagQuestion{Family: unix.AF_INET, Protocol: unix.IPPROTO_TCP, States: any}
	q.NlMsghdr = unix.NlMsghdr{Len: uint32(binary.Size(q)), Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST}
	binary.BigEndian.PutUint16(q.ClientPort[:], client.Port())
	binary.BigEndian.PutUint16(q.ServerPort[:], server.Port())
	copy(q.Client[:], client.Addr().AsSlice())
	copy(q.Server[:], server.Addr().AsSlice())
	q.Cookie = [2]uint32{any, any}
	message, _ := binary.Append(nil, binary.NativeEndian, q) // q has a fixed size
	return message
}

func diagOwner(reply []byte) (uid uint32, err error) {
	var header unix.NlMsghdr
	n, err := binary.Decode(reply, binary.NativeEndian, &header)
	if err != nil {
		return 0, fmt.Errorf("reading the kernel's answer: %w", err)
	}
	if header.Type == unix.NLMSG_ERROR {
		var code int32
		binary.Decode(reply[n:], binary.NativeEndian, &code)
		if errno := unix.Errno(-code); errno != unix.ENOENT {
			return 0, errno
		}
		return 0, errors.New("the connection has been closed")
	}
	var a diagAnswer
	if _, err := binary.Decode(reply[n:], binary.NativeEndian, &a); err != nil {
		return 0, fmt.Errorf("reading the kernel's answer: %w", err)
	}
	// A socket that its process has closed has no inode, and its owner is root. If the
	// socket no longer exists, the kernel returns one that listens at its address.
	const listening = 10 // TCP_LISTEN
	if a.Inode == 0 || a.State == listening {
		return 0, errors.New("the connection has been closed")
	}
	return a.UID, nil
}
