package seal

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"robotsproxy/proxy/seal/cover"
)

func init() {
	if isStart() {
		// The signal that the kernel sends at the parent's death is set for the main thread
		// alone, so that thread has to execute the command.
		runtime.LockOSThread()
	}
}

func isStart() bool { return len(os.Args) > 0 && os.Args[0] == startName }

// mainCalled reports whether this program calls Main. One that doesn't would do its own
// work again in place of a command.
var mainCalled atomic.Bool

// Main turns this process into the sealed command if [Start] has started it, and then
// doesn't return. Otherwise it returns at once. Programs call it first in main.
func Main() {
	mainCalled.Store(true)
	if !isStart() {
		return
	}
	conn, err := parentConn()
	if err != nil {
		fmt.Fprintln(os.Stderr, "a name that begins a sealed command was used outside of one:", err)
		os.Exit(1)
	}
	// The parent says what went wrong. If it has ended, nobody needs to know.
	send(conn, failure(become(conn, os.Args[2], os.Args[3:])))
	os.Exit(1)
}

// parentConn is the socket that enclose has made.
func parentConn() (*net.UnixConn, error) {
	if len(os.Args) < 4 {
		return nil, errors.New("there is no command")
	}
	descriptor, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(descriptor), "parent")
	if file == nil {
		return nil, unix.EBADF
	}
	defer file.Close()
	conn, err := net.FileConn(file) // a duplicate that the command doesn't get
	if err != nil {
		return nil, err
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, unix.ENOTSOCK
	}
	return unixConn, nil
}

// A stepError is an error with the step that failed.
type stepError struct {
	step string
	error
}

func (e *stepError) Unwrap() error { return e.error }

func atStep(step string, err error) error {
	if err == nil {
		return nil
	}
	return &stepError{step, err}
}

// failure is the report of err.
func failure(err error) report {
	r := report{Step: "preparing the command", Error: err.Error()}
	if step, ok := errors.AsType[*stepError](err); ok {
		r.Step = step.step
	}
	r.Errno, _ = errors.AsType[syscall.Errno](err)
	return r
}

// become seals this process and executes the command. It returns only if that fails.
func become(parent *net.UnixConn, path string, args []string) error {
	var s settings
	if _, err := receive(parent, &s); err != nil {
		return atStep("receiving the settings", err)
	}
	if networkNamespace() == s.Outside {
		return atStep("making the namespaces", errors.New("this process has no network of its own"))
	}
	r := report{}
	descriptors, err := r.seal(s)
	if err == nil {
		err = atStep("sending the sockets", send(parent, r, descriptors...))
	}
	if err != nil {
		return err
	}
	if _, err := receive(parent, &struct{}{}); err != nil {
		return atStep("waiting for the parent", err)
	}
	if err := dropPrivileges(); err != nil {
		return atStep("dropping capabilities", err)
	}
	return atStep(stepExec, syscall.Exec(path, args, os.Environ()))
}

// seal makes the network, covers the files, and returns the descriptors of the report's
// sockets. They stay open until this process executes the command.
func (r *report) seal(s settings) (descriptors []int, err error) {
	// Covering takes as long as making the network, and needs nothing of it.
	covered := make(chan error, 1)
	go func() {
		var err error
		r.Warnings, err = cover.Files(s.Trust)
		covered <- atStep("covering files", err)
	}()
	descriptors, err = r.makeNetwork(s)
	if coverErr := <-covered; err == nil { // it has ended in any case: the report is the caller's now
		err = coverErr
	}
	return descriptors, err
}

// makeNetwork makes the network, and returns the descriptors of the report's sockets.
func (r *report) makeNetwork(s settings) (descriptors []int, err error) {
	if err := loopbackUp(); err != nil {
		return nil, atStep("bringing the loopback interface up", err)
	}
	if err := makeAddressesLocal(); err != nil {
		return nil, atStep("making every address local", err)
	}
	var sockets sockets
	if err := sockets.open(s.Options); err != nil {
		return nil, atStep("listening", err)
	}
	// Without nf_tables, for whatever reason, the list of ports is as tight.
	r.AllPorts = !s.OnlyPorts && sockets.redirectAll() == nil
	if !r.AllPorts {
		if err := sockets.openPorts(s.Ports); err != nil {
			return nil, atStep("listening", err)
		}
	}
	r.Sockets = sockets.roles
	return sockets.descriptors, nil
}

// dropPrivileges leaves the calling thread no capability, and no way to get one in its
// user namespace.
func dropPrivileges() error {
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) && c > 0 {
			break // the kernel knows no more capabilities
		}
		if err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}
