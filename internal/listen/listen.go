// Package listen opens the TCP listeners of a service so that a restart refuses no
// connection. There are two ways. A supervisor such as systemd may hold the sockets and pass
// them to each process in turn: [Open] takes them. Or the next process listens at the same
// addresses while the last one still runs ([Listeners.ReusePort]), and the last one leaves it
// the connections to come ([Listeners.Yield]).
package listen

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
)

// Listeners are those of one process. Make them with [Open]. They are not safe for concurrent
// use.
type Listeners struct {
	reusePort bool
	passed    map[string][]*net.TCPListener // by name: those that no Listen has taken
	shared    []*net.TCPListener            // those with SO_REUSEPORT
}

// Open takes the sockets that a supervisor has passed to this process, as sd_listen_fds(3)
// describes. reusePort has those that Listen opens share their port (SO_REUSEPORT) with other
// processes of the same user; it needs [ReusePortSupported]. Callers must call CheckTaken or
// Close.
func Open(reusePort bool) (*Listeners, error) {
	l := &Listeners{reusePort: reusePort, passed: map[string][]*net.TCPListener{}}
	if err := checkPassed(); err != nil {
		return nil, err
	}
	for _, file := range activation.Files(true) {
		listener, err := listenerOf(file)
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("taking the socket that LISTEN_FDNAMES calls %s: %w", file.Name(), err)
		}
		tcp, ok := listener.(*net.TCPListener)
		if !ok {
			listener.Close()
			l.Close()
			return nil, fmt.Errorf("the socket that systemd calls %s is at %v, which is no TCP address: write ListenStream=HOST:PORT in its unit", file.Name(), listener.Addr())
		}
		l.passed[file.Name()] = append(l.passed[file.Name()], tcp)
	}
	return l, nil
}

// checkPassed returns an error if the environment does not name each socket that it says is passed
// to this process. Package activation would take any number of them, which need not exist.
func checkPassed() error {
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) { // they are another process's
		return nil
	}
	said, names := os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	named := 0
	if names != "" {
		named = strings.Count(names, ":") + 1
	}
	if passed, err := strconv.Atoi(said); err != nil || passed != named {
		return fmt.Errorf("LISTEN_FDS says that %q sockets are passed, and LISTEN_FDNAMES has %d names: write into LISTEN_FDS how many there are, and into LISTEN_FDNAMES a name for each, with colons between them", said, named)
	}
	return nil
}

// listenerOf returns a listener on a socket, and closes the file.
func listenerOf(file *os.File) (net.Listener, error) {
	defer file.Close()
	if !isListening(file) {
		return nil, errors.New("it takes no connections, or none was passed: write ListenStream=HOST:PORT in its unit; without systemd, write into LISTEN_FDS how many sockets there are")
	}
	return net.FileListener(file)
}

// A Place is where a service listens.
type Place struct {
	Key     string // of its address in the configuration, and the name of its sockets in systemd
	Address string // HOST:PORT; port 0 is any
	Remedy  string // the flag or key with which the user can choose another address
	// Redirected says that the kernel redirects connections to the place. Then it must be
	// known where they were to go, which Multipath TCP does not tell.
	Redirected bool
}

// Listen returns the sockets that a supervisor has passed for a place. If there are none, it
// opens one. Callers must close them.
func (l *Listeners) Listen(p Place) ([]*net.TCPListener, error) {
	if passed := l.passed[p.Key]; len(passed) > 0 {
		if !slices.ContainsFunc(passed, func(at *net.TCPListener) bool { return p.is(at.Addr()) }) {
			return nil, fmt.Errorf("systemd listens at %v for %s, which is %s: write the same address after ListenStream= in the .socket unit and in %s",
				passed[0].Addr(), p.Key, p.Address, p.Remedy)
		}
		delete(l.passed, p.Key)
		return passed, nil
	}
	config := listenConfig(l.reusePort)
	if p.Redirected || l.reusePort { // with Multipath TCP, Yield would fail
		config.SetMultipathTCP(false)
	}
	opened, err := config.Listen(context.Background(), "tcp", p.Address)
	if err != nil {
		if name := l.passedAt(p); name != "" {
			return nil, fmt.Errorf("systemd calls its socket for %s %s: write FileDescriptorName=%s in the .socket unit", p.Address, name, p.Key)
		}
		return nil, fmt.Errorf("listening: %w; choose another address with %s", err, p.Remedy)
	}
	tcp := opened.(*net.TCPListener)
	if l.reusePort {
		forgetSteering(tcp)
		l.shared = append(l.shared, tcp)
	}
	return []*net.TCPListener{tcp}, nil
}

// passedAt returns the name of a socket that has been passed and listens at the place; "" if there
// is none.
func (l *Listeners) passedAt(p Place) string {
	for _, name := range slices.Sorted(maps.Keys(l.passed)) {
		if slices.ContainsFunc(l.passed[name], func(at *net.TCPListener) bool { return p.is(at.Addr()) }) {
			return name
		}
	}
	return ""
}

// is reports whether a listener's address is that of the place.
func (p Place) is(listening net.Addr) bool {
	wanted, err := net.ResolveTCPAddr("tcp", p.Address)
	if err != nil {
		return false
	}
	is := listening.(*net.TCPAddr)
	samePort := wanted.Port == 0 || wanted.Port == is.Port
	isAny := func(ip net.IP) bool { return ip == nil || ip.IsUnspecified() }
	return samePort && (wanted.IP.Equal(is.IP) || isAny(wanted.IP) && isAny(is.IP))
}

// CheckTaken returns an error, and closes the sockets concerned, if a supervisor has passed
// sockets that no Listen has taken. known are the keys of all places.
func (l *Listeners) CheckTaken(known []string) error {
	defer l.Close()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(l.passed)) {
		if slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("systemd passes a socket for %s, which the configuration leaves empty: write %s there, or stop the .socket unit", name, l.passed[name][0].Addr()))
			continue
		}
		errs = append(errs, fmt.Errorf("systemd passes a socket called %s: write FileDescriptorName= in its .socket unit, with one of %s", name, strings.Join(known, ", ")))
	}
	return errors.Join(errs...)
}

// Close closes what a supervisor has passed and no Listen has taken.
func (l *Listeners) Close() {
	for _, passed := range l.passed {
		for _, listener := range passed {
			listener.Close()
		}
	}
	clear(l.passed)
}

// handshakeTime is how long a client may take to complete the handshake of a connection.
// Whoever takes longer, over a very slow network, gets a reset at the end of Yield.
const handshakeTime = 500 * time.Millisecond

// Yield leaves the connections that clients open from now on to another process that listens
// at the same addresses. It returns when the connections that clients have begun to open
// before can be accepted; the listeners must be accepting meanwhile, and may be closed then.
// Without such a process, they get the new connections too until they are closed. Yield does
// nothing unless ports are shared.
//
// The kernel would otherwise reset what a closed listener has not accepted. Yield takes for
// granted that this process began to listen before the other one. If it did not, some three
// connections are reset under load, as without Yield.
func (l *Listeners) Yield() error {
	var errs []error
	for _, listener := range l.shared {
		if err := steer(listener, 1); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fmt.Errorf("leaving %v to the next process: %w", listener.Addr(), err))
		}
	}
	if len(l.shared) > 0 {
		time.Sleep(handshakeTime)
	}
	return errors.Join(errs...)
}
