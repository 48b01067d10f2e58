package configs

import (
	"errors"
	"io/fs"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inNewNetwork has the rest of the test use a network without a way out, whose addresses are
// loopback and 192.0.2.0/24. What is started there stays there.
func inNewNetwork(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs ip, of iproute2: ", err)
	}
	runtime.LockOSThread() // for good: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); errors.Is(err, unix.EPERM) {
		t.Skip("only root may make a network namespace: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"link set lo up", "addr add 192.0.2.1/24 dev lo"} {
		if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", command, err, out)
		}
	}
}

// as has a command run as another user, who is in no other group.
func as(user string, command *exec.Cmd) *exec.Cmd {
	uid, _ := strconv.ParseUint(user, 10, 32)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	return command
}

// giveTo makes a user the owner of all files, in folders that everybody may read.
func (p *place) giveTo(user string) {
	p.t.Helper()
	uid, err := strconv.Atoi(user)
	must(p.t, err)
	must(p.t, filepath.WalkDir(p.root, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, uid, uid))
	}))
	must(p.t, os.Chmod(filepath.Dir(p.root), 0o755))
	must(p.t, os.Chmod(filepath.Dir(program), 0o755))
}

// moveTo has a server listen at an address of this network.
func moveTo(t *testing.T, address string, server *httptest.Server, tls bool) *httptest.Server {
	t.Helper()
	l, err := net.Listen("tcp", address)
	must(t, err)
	moved := httptest.NewUnstartedServer(server.Config.Handler)
	moved.Listener.Close()
	if moved.Listener = l; tls {
		moved.TLS = server.TLS.Clone()
		moved.StartTLS()
	} else {
		moved.Start()
	}
	t.Cleanup(moved.Close)
	return moved
}

func TestRedirectingSetupsWork(t *testing.T) {
	for _, s := range setups(t) {
		if s.redirect == nil {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			plain, secure := origin(t, nil)
			inNewNetwork(t)
			plain, secure = moveTo(t, "192.0.2.1:80", plain, false), moveTo(t, "192.0.2.1:8443", secure, true)
			// The certificate of the origin is for other addresses.
			s.files[s.config] += "\nupstream: {insecure: [192.0.2.1]}\n"
			p := s.place(t)
			if out, err := p.command(s.redirect...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", s.redirect, err, out)
			}
			p.giveTo(s.excepted)
			p.serve()

			curl := func(user, url string) string {
				command := as(user, exec.Command("curl", "--disable", "--silent", "--show-error", "--cacert", p.path(s.trust+"/ca-bundle.pem"), "--max-time", "120", url))
				command.Env, command.Dir = []string{"PATH=" + os.Getenv("PATH")}, "/"
				out, _ := command.CombinedOutput()
				return string(out)
			}
			for _, url := range []string{plain.URL, secure.URL} {
				if got := curl("65534", url+"/open"); got != "page /open" {
					t.Errorf("%s/open: %s", url, got)
				}
				if got := curl("65534", url+"/private"); !strings.Contains(got, `"Disallow: /private" on line 2`) {
					t.Errorf("%s/private: %s", url, got)
				}
			}
			if got := curl(s.excepted, plain.URL+"/private"); got != "page /private" {
				t.Errorf("as the proxy's user: %s", got)
			}
		})
	}
}
