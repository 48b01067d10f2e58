// Package redirect has the kernel lead a machine's or a pod's connections to the
// transparent door, by a table of its own in nf_tables. [Install], [Remove] and
// [Installed] work on the network of the calling process, and need its CAP_NET_ADMIN.
//
// What the rules do to the packets that a user's programs send:
//
//   - Loopback is left alone, and so is DNS: port 53 of UDP and TCP.
//   - Other TCP connections are led to the door, whatever their port. Those that exist
//     already stay as they are.
//   - ICMP passes.
//   - Everything else is rejected at once, as by a closed port: so clients of HTTP/3 fall
//     back to TCP. Answers to what came from outside pass.
//
// The rules do not concern excepted users, the kernel's own packets, packets that this
// machine forwards for others (as for containers with a network of their own), and packets
// that a program with CAP_NET_RAW writes to an interface itself.
package redirect

import (
	"errors"
	"fmt"
)

// Rules say which connections are led where.
type Rules struct {
	// Port is that of the transparent door, at 127.0.0.1 and ::1.
	Port uint16
	// Except are the users whose connections are left alone. The proxy's own must be
	// among them: what it sends would come back to it.
	Except []uint32
}

// Status is what is installed, and what it has done.
type Status struct {
	Rules
	Redirected uint64 // connections led to the door
	Rejected   uint64 // packets
}

// ErrNotInstalled says that there are no rules of ours.
var ErrNotInstalled = errors.New("no redirection is installed")

// An Error says what could not be done.
type Error struct {
	Step string // what was being done, as "installing the redirection"
	Err  error
	Next string // what to do about it; "" if that is not known
}

func (e *Error) Error() string {
	if e.Next == "" {
		return fmt.Sprintf("%s: %v", e.Step, e.Err)
	}
	return fmt.Sprintf("%s: %v; %s", e.Step, e.Err, e.Next)
}

func (e *Error) Unwrap() error { return e.Err }
