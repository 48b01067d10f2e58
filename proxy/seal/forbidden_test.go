//go:build linux

package seal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() {
	// nomore runs a sealer where no further user namespace can be made.
	programs["nomore"] = func(args []string) error {
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			return err
		}
		return programs["sealer"](args)
	}
	// filtered runs a sealer under a seccomp filter like a container's.
	programs["filtered"] = func(args []string) error {
		if err := forbid(unix.SYS_CLONE, 0, hasFlags, unix.CLONE_NEWUSER, refuse); err != nil {
			return err
		}
		return programs["sealer"](args)
	}
	// withoutmount runs a sealer where the process inside can't mount.
	programs["withoutmount"] = func(args []string) error {
		if err := forbid(unix.SYS_MOUNT, 0, isAtLeast, 0, refuse); err != nil {
			return err
		}
		return programs["sealer"](args)
	}
	// killed runs a sealer where a signal ends the process inside early.
	programs["killed"] = func(args []string) error {
		if err := forbid(unix.SYS_MOUNT, 0, isAtLeast, 0, unix.SECCOMP_RET_KILL_PROCESS); err != nil {
			return err
		}
		_, err := Start(context.Background(), exec.Command(args[0], args[1:]...), Options{})
		signal, _ := errors.AsType[Signaled](err)
		fmt.Println(syscall.Signal(signal) == syscall.SIGSYS)
		return nil
	}
}

// refuse makes a system call fail with EPERM.
const refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)

// These compare an argument of a system call with a value.
const (
	isEqual   = unix.BPF_JEQ
	isAtLeast = unix.BPF_JGE
	hasFlags  = unix.BPF_JSET
)

// forbid applies an action to a system call if the comparison of one of its arguments,
// counted from 0, with value holds.
func forbid(call, argument uint32, comparison uint16, value, action uint32) error {
	const callOffset = 0              // in struct seccomp_data
	argumentOffset := 16 + 8*argument // its lower half, on little-endian machines
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callOffset},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: argumentOffset},
		{Code: unix.BPF_JMP | comparison | unix.BPF_K, K: value, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: action},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

// namespaced makes cmd run as root of a user namespace of its own.
func namespaced(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	return cmd
}

func TestForbiddenNamespaces(t *testing.T) {
	needNamespaces(t)
	for _, c := range []struct {
		program  string
		prepare  func(*exec.Cmd) *exec.Cmd
		step     string
		obstacle Obstacle
	}{
		{"nomore", namespaced, "making the namespaces", "this system allows no new namespaces: raise user.max_user_namespaces with sysctl"},
		{"filtered", func(cmd *exec.Cmd) *exec.Cmd { return cmd }, "making the namespaces", Seccomp},
		{"withoutmount", func(cmd *exec.Cmd) *exec.Cmd { return cmd }, "covering files", Seccomp},
	} {
		t.Run(c.program, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "started")
			output, err := c.prepare(program(c.program, "touch", file)).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			for _, want := range []string{"cannot be sealed, so it was not started: " + string(c.obstacle) + " (" + c.step + ": ", "\n" + string(c.obstacle) + "\n"} {
				if !strings.Contains(string(output), want) {
					t.Errorf("got %s, want %q", output, want)
				}
			}
			if _, err := os.Stat(file); err == nil {
				t.Error("the command was started although the seal failed")
			}
		})
	}
}

func TestSignalBeforeTheCommandRuns(t *testing.T) {
	needNamespaces(t)
	file := filepath.Join(t.TempDir(), "started")
	output, err := program("killed", "touch", file).CombinedOutput()
	if err != nil || string(output) != "true\n" {
		t.Errorf("got %q, %v", output, err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command was started although the seal failed")
	}
}

func TestSealedInAnotherUserNamespace(t *testing.T) {
	needNamespaces(t)
	output, err := namespaced(program("sealer", "echo", "started")).CombinedOutput()
	if err != nil || string(output) != "started\n" {
		t.Errorf("got %q, %v", output, err)
	}
}

func TestSealedInASealedCommand(t *testing.T) {
	got := outputOf(t, program("sealer", "echo", "started"), Options{})
	if os.Getuid() == 0 {
		// The kernel lets nobody pass root on without CAP_SETFCAP.
		if !strings.Contains(got, string(RootWithoutRights)) {
			t.Errorf("got %q", got)
		}
	} else if got != "started\n" {
		t.Errorf("got %q", got)
	}
}

func TestObstacle(t *testing.T) {
	const (
		clone    = "/proc/sys/kernel/unprivileged_userns_clone"
		appArmor = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
		status   = "/proc/thread-self/status"
		net      = "/proc/sys/user/max_net_namespaces"
		mnt      = "/proc/sys/user/max_mnt_namespaces"
	)
	for _, c := range []struct {
		errno syscall.Errno
		files map[string]string
		root  bool
		want  Obstacle
	}{
		{syscall.ENOSPC, nil, false, NoNamespaces},
		{syscall.ENOSPC, map[string]string{net: "0", mnt: "0"}, false, "this system allows no new namespaces: raise user.max_net_namespaces and user.max_mnt_namespaces with sysctl"},
		{syscall.ENOENT, nil, false, NoProc},
		{syscall.ENOENT, map[string]string{status: "Name:\tx\n"}, false, ""},
		{syscall.EUSERS, nil, false, NoNamespaces},
		{syscall.EINVAL, nil, false, NoKernelSupport},
		{syscall.ENOSYS, map[string]string{status: "Name:\tx\nSeccomp:\t2\n"}, false, Seccomp},
		{syscall.EPERM, map[string]string{clone: "0", appArmor: "1"}, false, NoUserNamespaces},
		{syscall.EPERM, map[string]string{clone: "1", appArmor: "1"}, false, AppArmor},
		{syscall.EACCES, map[string]string{appArmor: "1"}, false, AppArmor},
		{syscall.EPERM, nil, true, ChangedRoot},
		{syscall.EACCES, map[string]string{status: "Seccomp:\t2"}, false, SecurityModule},
		{syscall.EPERM, map[string]string{status: "Seccomp:\t2"}, false, Seccomp},
		{syscall.EPERM, map[string]string{status: "Seccomp:\t0"}, false, ""},
		{syscall.EPERM, map[string]string{status: "Uid:\t5\t0\t0\t0\nCapEff:\t000001ff7fffffff\nSeccomp:\t0"}, false, RootWithoutRights},
		{syscall.EPERM, map[string]string{status: "Uid:\t0\t0\t0\t0\nCapEff:\t0000000080000000\n"}, false, ""},
		{syscall.EPERM, map[string]string{status: "Uid:\t0\t5\t0\t0\nCapEff:\t0000000000000000\n"}, false, ""},
		{syscall.EMFILE, map[string]string{clone: "0"}, false, TooFewFiles},
		{syscall.EIO, map[string]string{clone: "0"}, false, ""},
	} {
		read := func(path string) string { return c.files[path] }
		if got := obstacle(c.errno, read, c.root); got != c.want {
			t.Errorf("%v, %v: got %q, want %q", c.errno, c.files, got, c.want)
		}
	}
	if inChroot() {
		t.Error("the tests are not in a chroot")
	}
	if text := fmt.Sprint(&Error{Step: "x", Err: errors.New("y"), Obstacle: "z"}); text != "the command cannot be sealed, so it was not started: z (x: y)" {
		t.Errorf("got %q", text)
	}
}
