package seal

import (
	"cmp"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// newError is the error of a step, with the obstacle that err and this machine's settings
// point to.
func newError(step string, err error) *Error {
	e := &Error{Step: step, Err: err}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		e.Obstacle = obstacle(errno, readSetting, inChroot())
	}
	return e
}

// obstacle tells what has caused errno from the files under /proc, which read reads.
func obstacle(errno syscall.Errno, read func(path string) string, inChroot bool) Obstacle {
	switch errno {
	case syscall.ENOSPC, syscall.EUSERS:
		return noNamespaces(read)
	case syscall.EMFILE:
		return TooFewFiles
	case syscall.ENOENT:
		if read("/proc/thread-self/status") == "" {
			return NoProc
		}
		return ""
	case syscall.EINVAL, syscall.ENOSYS:
		return cmp.Or(seccomp(read), NoKernelSupport)
	case syscall.EPERM, syscall.EACCES:
	default:
		return ""
	}
	switch {
	case read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return NoUserNamespaces
	case read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return AppArmor
	case inChroot:
		return ChangedRoot
	case errno == syscall.EACCES:
		return SecurityModule
	}
	return cmp.Or(seccomp(read), rootWithoutRights(read))
}

// namespaceLimits are the files in /proc/sys/user, and the names of the settings, that limit
// how many namespaces there are.
var namespaceLimits = []string{"max_user_namespaces", "max_net_namespaces", "max_mnt_namespaces"}

// noNamespaces is NoNamespaces. If limits are 0, it names these alone.
func noNamespaces(read func(path string) string) Obstacle {
	var zero []string
	for _, name := range namespaceLimits {
		if read("/proc/sys/user/"+name) == "0" {
			zero = append(zero, "user."+name)
		}
	}
	if len(zero) == 0 {
		return NoNamespaces // too many are in use, or too few are allowed further out
	}
	return Obstacle("this system allows no new namespaces: raise " + strings.Join(zero, " and ") + " with sysctl")
}

// Likely reports whether nothing in this machine's settings speaks against sealing. It
// starts nothing, so only [Start] knows.
func Likely() bool {
	for _, name := range namespaceLimits {
		if limit := readSetting("/proc/sys/user/" + name); limit == "" || limit == "0" {
			return false
		}
	}
	return obstacle(syscall.EPERM, readSetting, inChroot()) == ""
}

// seccomp reports whether this process has a seccomp filter.
func seccomp(read func(path string) string) Obstacle {
	for line := range strings.Lines(read("/proc/thread-self/status")) {
		if name, value, _ := strings.Cut(line, ":"); name == "Seccomp" && strings.TrimSpace(value) == "2" {
			return Seccomp
		}
	}
	return ""
}

// rootWithoutRights reports whether this process is root, and lacks what the kernel wants of
// one who maps user 0 into a user namespace (user_namespaces(7)).
func rootWithoutRights(read func(path string) string) Obstacle {
	status := map[string]string{}
	for line := range strings.Lines(read("/proc/thread-self/status")) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.TrimSpace(value)
	}
	users := strings.Fields(status["Uid"]) // real, effective, saved, file system
	capabilities, err := strconv.ParseUint(status["CapEff"], 16, 64)
	if err == nil && len(users) > 1 && users[1] == "0" && capabilities&(1<<unix.CAP_SETFCAP) == 0 {
		return RootWithoutRights
	}
	return ""
}

// readSetting is a file's text; "" if it can't be read.
func readSetting(path string) string {
	text, _ := os.ReadFile(path)
	return strings.TrimSpace(string(text))
}

// inChroot reports whether the root of this process is another than that of its mount
// namespace. The kernel then lets it make no user namespace.
func inChroot() bool {
	// The mount of / is in the list if the root is its namespace's.
	for line := range strings.Lines(readSetting("/proc/self/mountinfo")) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == "/" {
			return false
		}
	}
	return true
}
