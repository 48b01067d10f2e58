//go:build linux

package seal

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"robotsproxy/proxy/seal/cover"
	"robotsproxy/proxy/seal/names"
)

// listenAt opens a Unix socket.
func listenAt(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	greet(l)
}

func init() {
	programs["dialunix"] = func(paths []string) error {
		for _, p := range paths {
			conn, err := net.Dial("unix", p)
			fmt.Println(p, errno(err))
			if err == nil {
				conn.Close()
			}
		}
		return nil
	}
}

func TestSocketsThatLeadOutAreCovered(t *testing.T) {
	folder, err := os.MkdirTemp("", "seal") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	in := func(name string) string { return filepath.Join(folder, name) }
	covered := []string{in("bus"), in("podman/podman.sock"), in("my-docker"), in("my-bus"), in("my-tmux"), in(fmt.Sprintf("tmux-%d/default", os.Getuid())), in("gnupg/S.dirmngr")}
	other := in("other")
	for _, path := range append(covered, other) {
		listenAt(t, path)
	}
	t.Setenv("XDG_RUNTIME_DIR", folder)
	t.Setenv("DOCKER_HOST", "unix://"+in("my-docker"))
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/no/such/file;unix:path="+in("my-bus")+",guid=1")
	t.Setenv("TMUX", in("my-tmux")+",1234,0")
	t.Setenv("TMUX_TMPDIR", folder)
	got := outputOf(t, program("dialunix", append(covered, other)...), Options{})
	for _, path := range covered {
		if want := path + " connection refused\n"; !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
		if conn, err := net.Dial("unix", path); err != nil {
			t.Errorf("outside: %v", err)
		} else {
			conn.Close()
		}
	}
	if want := other + " <nil>\n"; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	unmount := exec.Command("sh", "-c", "umount "+covered[0]+" || unshare -Urm umount "+covered[0])
	_, output := start(t, unmount, Options{})
	if unmount.Wait() == nil {
		t.Errorf("the socket can be uncovered: %s", output)
	}
}

// writeTrust writes files for Options.Trust.
func writeTrust(t testing.TB) cover.Trust {
	t.Helper()
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("octets")})
	return cover.Trust{CA: write("ca.pem", string(ca)), Bundle: write("bundle.pem", "the bundle"), Store: write("store", "the store")}
}

func TestSystemTrustsTheCA(t *testing.T) {
	trust := writeTrust(t)
	home := t.TempDir() // of a JDK
	java := filepath.Join(home, "lib/security/cacerts")
	if err := errors.Join(os.MkdirAll(filepath.Dir(java), 0o755), os.WriteFile(java, []byte("roots"), 0o644)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("JAVA_HOME", home)
	for file, want := range map[string]string{
		"/etc/ssl/certs/ca-certificates.crt": "the bundle",
		"/etc/pki/tls/certs/ca-bundle.crt":   "the bundle",
		"/etc/ssl/ca-bundle.pem":             "the bundle",
		"/etc/ssl/cert.pem":                  "the bundle",
		"/etc/ssl/certs/java/cacerts":        "the store",
		java:                                 "the store",
	} {
		before, err := os.ReadFile(file)
		if err != nil {
			continue // this system has no such file
		}
		if got := outputOf(t, exec.Command("cat", file), Options{Trust: trust}); got != want {
			t.Errorf("%s: got %.100q", file, got)
		}
		if got := outputOf(t, exec.Command("cat", file), Options{}); got != string(before) {
			t.Errorf("%s was changed although no CA was to be trusted", file)
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
			t.Errorf("%s was changed outside the seal", file)
		}
	}
}

func TestBrowsersGetPolicies(t *testing.T) {
	trust := writeTrust(t)
	list := func(cmd *exec.Cmd) string {
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		return string(output)
	}
	before := list(exec.Command("find", "/etc", "-maxdepth", "1"))
	const firefox = "/etc/firefox/policies/policies.json"
	for _, file := range []string{
		firefox,
		"/etc/chromium/policies/managed/robotsproxy.json",
		"/etc/opt/chrome/policies/managed/robotsproxy.json",
		"/etc/opt/chrome_for_testing/policies/managed/robotsproxy.json",
	} {
		if _, err := os.Stat(file); err == nil {
			continue // this system has policies of its own
		}
		got := outputOf(t, exec.Command("cat", file), Options{Trust: trust})
		want := `{"CACertificates":["b2N0ZXRz"],"HttpsUpgradesEnabled":false}`
		if file == firefox {
			want = `{"policies":{"Certificates":{"Install":["` + trust.CA + `"]}}}`
		}
		if got != want {
			t.Errorf("%s: got %s", file, got)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s appeared outside the seal", file)
		}
	}
	inside := strings.Fields(outputOf(t, exec.Command("find", "/etc", "-maxdepth", "1"), Options{Trust: trust}))
	for _, entry := range strings.Fields(before) {
		if !slices.Contains(inside, entry) {
			t.Errorf("%s is missing inside the seal", entry)
		}
	}
	if after := list(exec.Command("find", "/etc", "-maxdepth", "1")); after != before {
		t.Errorf("outside the seal, /etc is now\n%s, and was\n%s", after, before)
	}
	compare := "cat /etc/passwd /etc/hosts /etc/resolv.conf /etc/ssl/openssl.cnf"
	if got, want := outputOf(t, exec.Command("sh", "-c", compare), Options{Trust: trust}), list(exec.Command("sh", "-c", compare)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func init() {
	// removedfile mounts a file over /etc/hostname, removes the file from where it was, and
	// prints what a sealed command sees there.
	programs["removedfile"] = func(args []string) error {
		file, ca := args[0], args[1]
		if err := errors.Join(
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			os.WriteFile(file, []byte("removed\n"), 0o644),
			unix.Mount(file, "/etc/hostname", "", unix.MS_BIND, ""),
			os.Remove(file),
		); err != nil {
			return err
		}
		cmd := exec.Command("cat", "/etc/hostname")
		cmd.Stdout = os.Stdout
		network, err := Start(context.Background(), cmd, Options{Trust: cover.Trust{CA: ca}})
		if err != nil {
			return err
		}
		defer network.Close()
		fmt.Print(strings.Join(network.Warnings, "\n"))
		return cmd.Wait()
	}
}

// A container's files in /etc may have been replaced outside since they were mounted.
func TestFileThatWasRemovedOutside(t *testing.T) {
	needNamespaces(t)
	if os.Getuid() != 0 {
		t.Skip("only root may mount a file outside a seal")
	}
	cmd := program("removedfile", filepath.Join(t.TempDir(), "hostname"), writeTrust(t).CA)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if output, err := cmd.CombinedOutput(); err != nil || string(output) != "removed\n" {
		t.Errorf("%v: got %s", err, output)
	}
}

// nowhere makes a resolver find no name.
func nowhere(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("there is no network")
}

// Programs that use the system's own resolver find names by package names.
func TestNamesResolve(t *testing.T) {
	text, err := os.ReadFile("/etc/resolv.conf")
	if err != nil || names.Nameservers(string(text)) == nil {
		t.Skip("this system has no nameserver in /etc/resolv.conf:", err)
	}
	standIns := &names.StandIns{}
	server := &names.Server{Resolver: &net.Resolver{PreferGo: true, Dial: nowhere}, StandIns: standIns}
	cmd := exec.Command("getent", "ahosts", "some.example")
	if cmd.Err != nil {
		t.Skip("needs getent:", cmd.Err)
	}
	network, output := start(t, cmd, Options{})
	for _, s := range network.NameSockets {
		go server.ServePackets(t.Context(), s)
	}
	for _, l := range network.NameListeners {
		go server.ServeConns(t.Context(), l)
	}
	if err := cmd.Wait(); err != nil || !strings.HasPrefix(output.String(), "198.18.0.0 ") {
		t.Errorf("%v: got %s", err, output)
	}
}
