package seal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"robotsproxy/internal/redirected"
)

// startName is the name (argv[0]) by which a process knows that it is to become a sealed
// command. Its arguments are the descriptor of its socket, and the command's path, name
// and arguments.
const startName = "robotsproxy: sealing"

// The parent and the process that becomes the command speak over a socket pair, in one
// JSON message each: the parent sends settings, the process a report with the sockets,
// the parent a ready. The socket's end then says that the command runs; otherwise a second report
// says why it doesn't.
type (
	settings struct {
		Options
		OnlyPorts bool
		Outside   uint64 // the parent's network namespace, in which nothing may be changed
	}
	report struct {
		Sockets  []socket // in the order of their descriptors
		AllPorts bool
		Warnings []string

		// Of a failure:
		Step  string // exec if the command could not be executed
		Error string
		Errno syscall.Errno
	}
	// A socket is a descriptor's role.
	socket struct {
		Role role
		Port uint16 // of a forward
	}
	role string
)

const (
	roleCaught       role = "caught"        // accepts what the kernel redirects
	rolePort         role = "port"          // accepts connections to one port of all addresses
	roleProxy        role = "proxy"         // of Options.Proxy
	roleForward      role = "forward"       // of one of Options.Forwards
	roleNameSocket   role = "name socket"   // UDP port 53
	roleNameListener role = "name listener" // TCP port 53
)

// stepExec is a report's step if only the command is at fault.
const stepExec = "executing the command"

// maxMessage bounds a message. It is what a socket buffers where no sysctl says otherwise.
const maxMessage = 200 << 10

// Start starts cmd sealed, in place of cmd.Start, and returns once the command itself
// runs. Callers must call cmd.Wait, and Close on the network. If ctx ends before the
// command runs, the command isn't started.
//
// Start changes cmd's Path, Args and ExtraFiles, and adds to its SysProcAttr. The first
// descriptor after cmd's own ExtraFiles is closed in the command.
//
// If the command can't be sealed, it isn't started, and the error is an [*Error], which may
// wrap any system error. Otherwise, if the command can't be executed, the error is like
// cmd.Start's: it wraps [exec.ErrNotFound], [fs.ErrNotExist], [fs.ErrPermission],
// ENOEXEC and so on. After an error there is nothing to wait for or to close.
func Start(ctx context.Context, cmd *exec.Cmd, options Options) (*Network, error) {
	if cmd.Err != nil {
		return nil, cmd.Err // as cmd.Start does
	}
	if err := options.validate(); err != nil {
		return nil, err
	}
	if !mainCalled.Load() {
		return nil, newError("starting", errors.New("this program doesn't call seal.Main"))
	}
	inside, conn, err := socketPair()
	if err != nil {
		return nil, newError("making a socket pair", err)
	}
	defer conn.Close()
	path := cmd.Path
	enclose(cmd, inside)
	err = send(conn, settings{Options: options, OnlyPorts: options.onlyPorts, Outside: networkNamespace()})
	if err == nil {
		err = cmd.Start()
	}
	inside.Close()
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err // its path is this program's, which is not at fault
	}
	if err != nil {
		return nil, newError("making the namespaces", err)
	}

	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	network, err := receiveNetwork(conn)
	if err == nil {
		err = awaitExec(conn, path)
	}
	if err == nil {
		return network, nil
	}
	if network != nil {
		network.Close()
	}
	if errors.Is(err, io.EOF) {
		err = nil // how the process has ended says more
	} else {
		cmd.Process.Kill()
	}
	cmd.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil {
		err = &Error{Step: "starting", Err: ending(cmd.ProcessState)}
	}
	return nil, err
}

// ending is the error of a process that has ended before it became the command.
func ending(state *os.ProcessState) error {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Signaled(status.Signal())
	}
	return fmt.Errorf("ended with %v", state)
}

// enclose has cmd start this program in namespaces of its own, with a socket over which
// it is told what to do.
func enclose(cmd *exec.Cmd, inside *os.File) {
	descriptor := 3 + len(cmd.ExtraFiles) // as os/exec numbers them
	cmd.ExtraFiles = append(cmd.ExtraFiles[:len(cmd.ExtraFiles):len(cmd.ExtraFiles)], inside)
	cmd.Args = append([]string{startName, fmt.Sprint(descriptor), cmd.Path}, cmd.Args...)
	cmd.Path = "/proc/self/exe"
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	attr := cmd.SysProcAttr
	attr.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
}

func socketPair() (inside *os.File, outside *net.UnixConn, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	inside = os.NewFile(uintptr(pair[0]), "inside")
	file := os.NewFile(uintptr(pair[1]), "outside")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		inside.Close()
		return nil, nil, err
	}
	return inside, conn.(*net.UnixConn), nil
}

// networkNamespace is the number of this process's own.
func networkNamespace() uint64 {
	var stat unix.Stat_t
	unix.Stat("/proc/self/ns/net", &stat)
	return stat.Ino
}

func send(conn *net.UnixConn, message any, descriptors ...int) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	var rights []byte
	if len(descriptors) > 0 {
		rights = unix.UnixRights(descriptors...)
	}
	_, _, err = conn.WriteMsgUnix(text, rights, nil)
	return err
}

// receive fills message, which must be zero, and returns the descriptors that came with
// it. The error is io.EOF if the other side has ended.
func receive(conn *net.UnixConn, message any) ([]*os.File, error) {
	text := make([]byte, maxMessage)
	control := make([]byte, unix.CmsgSpace(4*253)) // as many as the kernel lets one message carry
	n, controlN, flags, _, err := conn.ReadMsgUnix(text, control)
	if err != nil {
		return nil, err
	}
	files, err := filesOf(control[:controlN])
	switch {
	case err != nil:
	case n == 0:
		err = io.EOF
	case flags&unix.MSG_CTRUNC != 0:
		err = syscall.EMFILE
	default:
		err = json.Unmarshal(text[:n], message)
	}
	if err != nil {
		closeAll(files)
		return nil, err
	}
	return files, nil
}

func filesOf(control []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	for _, m := range messages {
		descriptors, rightsErr := unix.ParseUnixRights(&m)
		for _, d := range descriptors {
			unix.CloseOnExec(d)
			files = append(files, os.NewFile(uintptr(d), "socket"))
		}
		err = errors.Join(err, rightsErr)
	}
	return files, err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// receiveNetwork receives the report that all is ready.
func receiveNetwork(conn *net.UnixConn) (*Network, error) {
	var r report
	files, err := receive(conn, &r)
	if err != nil {
		return nil, receiveError(err)
	}
	defer closeAll(files) // the network has duplicates
	if r.Step != "" {
		return nil, r.failure()
	}
	if len(files) != len(r.Sockets) {
		return nil, newError("receiving the sockets", syscall.EMFILE)
	}
	network := &Network{AllPorts: r.AllPorts, Warnings: r.Warnings, Forwards: map[uint16]net.Listener{}}
	for i, s := range r.Sockets {
		if err := network.add(s, files[i]); err != nil {
			return network, newError("receiving the sockets", err)
		}
	}
	return network, nil
}

func (n *Network) add(s socket, file *os.File) error {
	if s.Role == roleNameSocket {
		conn, err := net.FilePacketConn(file)
		if err == nil {
			n.NameSockets = append(n.NameSockets, conn.(*net.UDPConn))
		}
		return err
	}
	l, err := net.FileListener(file)
	if err != nil {
		return err
	}
	tcp := l.(*net.TCPListener)
	switch s.Role {
	case roleCaught:
		n.Caught = append(n.Caught, redirected.Listener{TCPListener: tcp, Destination: redirected.Original, AllHere: true})
	case rolePort:
		n.Caught = append(n.Caught, redirected.Listener{TCPListener: tcp, Destination: localDestination, AllHere: true})
	case roleProxy:
		n.Proxy = l
	case roleForward:
		n.Forwards[s.Port] = l
	case roleNameListener:
		n.NameListeners = append(n.NameListeners, l)
	}
	return nil
}

// awaitExec has the command executed, and waits until it is.
func awaitExec(conn *net.UnixConn, path string) error {
	if err := send(conn, struct{}{}); err != nil {
		return receiveError(err)
	}
	var r report
	_, err := receive(conn, &r)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return receiveError(err)
	case r.Step == stepExec:
		return &fs.PathError{Op: "exec", Path: path, Err: r.Errno}
	}
	return r.failure()
}

// receiveError keeps io.EOF as it is.
func receiveError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return io.EOF
	}
	return newError("speaking with the process inside", err)
}

func (r report) failure() error {
	if r.Errno != 0 {
		e := newError(r.Step, r.Errno)
		e.Err = &reported{r.Error, r.Errno}
		return e
	}
	return newError(r.Step, errors.New(r.Error))
}

// A reported error is one of the process inside.
type reported struct {
	text  string
	errno syscall.Errno
}

func (e *reported) Error() string { return e.text }
func (e *reported) Unwrap() error { return e.errno }
