package seal

import (
	"fmt"
	"syscall"
)

// An Error says why a command could not be sealed. The command was then not started.
type Error struct {
	Step     string   // what was being done, as "making the namespaces"
	Err      error    // often a syscall.Errno
	Obstacle Obstacle // what is known to be in the way
}

// Error gives the obstacle and what to do about it, if that is known, and the step with its
// error.
func (e *Error) Error() string {
	reason := fmt.Sprintf("%s: %v", e.Step, e.Err)
	if e.Obstacle != "" {
		reason = fmt.Sprintf("%s (%s)", e.Obstacle, reason)
	}
	return "the command cannot be sealed, so it was not started: " + reason
}

func (e *Error) Unwrap() error { return e.Err }

// An Obstacle is a sentence that says what keeps a command from being sealed on this
// machine, and what to do; "" if that is not known.
type Obstacle string

const (
	UnsupportedSystem Obstacle = "only Linux can do that: without --sealed, clients that heed proxy variables are judged everywhere"
	NoNamespaces      Obstacle = "this system allows no more namespaces: raise user.max_user_namespaces, user.max_net_namespaces and user.max_mnt_namespaces with sysctl"
	NoUserNamespaces  Obstacle = "this system keeps user namespaces for root: set kernel.unprivileged_userns_clone to 1 with sysctl"
	AppArmor          Obstacle = "AppArmor keeps programs without a profile from using user namespaces: install a profile for robotsproxy that has the rule \"userns,\", as configs/apparmor/robotsproxy has"
	Seccomp           Obstacle = "a seccomp filter, as containers have, forbids it: start the container with a profile that allows user namespaces and mounts, as --security-opt seccomp=unconfined does"
	SecurityModule    Obstacle = "a security module, as containers have, forbids it: start the container with --security-opt apparmor=unconfined or, with SELinux, label=disable"
	RootWithoutRights Obstacle = "root needs the capability CAP_SETFCAP for it, which is missing here, as inside another sealed command: start it as another user, or with that capability"
	ChangedRoot       Obstacle = "a program in a chroot can't have user namespaces: start it outside"
	NoKernelSupport   Obstacle = "this kernel was built without user, network or mount namespaces: use another"
	NoProc            Obstacle = "/proc is not mounted: mount it"
	TooFewFiles       Obstacle = "this process may not open enough files: raise that limit, as ulimit -n 1024 does"
)

// Signaled is the error of a command that a signal ended before its network was ready.
type Signaled syscall.Signal

func (s Signaled) Error() string {
	return fmt.Sprintf("ended by signal %d", int(s))
}
