package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// A test of sealed commands needs origins that are not on a loopback address, since those
// are the command's own. So it runs in a network of its own, which has no way out and
// leaves the machine's network alone, and sees other files of names there:
//
//	func TestX(t *testing.T) {
//		if !inOwnNetwork(t) {
//			return
//		}
//		w := newWorld(t)
//		newOriginAt(t, "192.0.2.1:80", "http", shop(), nil)
//		e := w.errand(nil, append([]string{"--sealed"}, curlCommand("http://shop.example.com/products/1")...)...)
//		…
//
// All addresses of 192.0.2.0/24, and 2001:db8::1 to 2001:db8::4, are the network's. Names are
// those in ownHosts and, by a name server at 192.0.2.53, in ownNames. The certificate of https
// origins holds for those names.
const (
	ownHosts = `127.0.0.1 localhost
::1 localhost
192.0.2.1 shop.example.com
2001:db8::1 shop.example.com
192.0.2.2 four.example.com
2001:db8::3 six.example.com
127.0.0.1 inside.example.com
`
	ownResolver = "nameserver 192.0.2.53\noptions timeout:1 attempts:1\n"
)

// ownNames are the names that the name server knows, with a dot at their end.
var ownNames = map[string][4]byte{
	"dns.example.com.":   {192, 0, 2, 1},
	"cache.example.com.": {192, 0, 2, 7},
}

// programVariable tells a test that it is in a network of its own, and where the built
// program is.
const programVariable = "ROBOTSPROXY_TEST_PROGRAM"

// inOwnNetwork reports whether the test runs in a network of its own. If it doesn't,
// inOwnNetwork runs it there, in another process, and tells t what became of it.
func inOwnNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(programVariable) != "" {
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("only root may give a test a network of its own")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs ip, of iproute2: ", err)
	}
	t.Parallel()
	test, err := os.Executable()
	must(t, err)
	timeout := testTimeout
	if deadline, ok := t.Deadline(); ok {
		timeout = time.Until(deadline)
	}
	cmd := exec.Command(test, "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.v", "-test.timeout="+timeout.String())
	cmd.Env = append(os.Environ(), programVariable+"="+program)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	output, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, fs.ErrPermission):
		t.Skip("this system lets no test have a network of its own: ", err)
	case err != nil:
		t.Errorf("in a network of its own: %v\n%s", err, output)
	case bytes.Contains(output, []byte("--- SKIP: "+t.Name()+" ")):
		t.Skipf("in a network of its own:\n%s", output)
	case !bytes.Contains(output, []byte("--- PASS: "+t.Name()+" ")):
		t.Errorf("in a network of its own, the test did not run:\n%s", output)
	}
	return false
}

// openOwnNetwork makes the network of a process that inOwnNetwork has started, and its files
// of names. Callers must call close.
func openOwnNetwork() (close func(), err error) {
	folder, err := os.MkdirTemp("", "robotsproxy-network-")
	if err != nil {
		return nil, err
	}
	// The files stay for as long as they are mounted: what was removed can't be mounted once
	// more, as sealing does.
	defer func() {
		if err != nil {
			os.RemoveAll(folder)
		}
	}()
	if err := os.Chmod(folder, 0o755); err != nil {
		return nil, err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, err
	}
	for path, text := range map[string]string{"/etc/hosts": ownHosts, "/etc/resolv.conf": ownResolver} {
		file := filepath.Join(folder, filepath.Base(path))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return nil, err
		}
		if err := unix.Mount(file, path, "", unix.MS_BIND, ""); err != nil {
			return nil, fmt.Errorf("covering %s: %w", path, err)
		}
	}
	commands := []string{"link set lo up", "addr add 192.0.2.1/24 dev lo"}
	for i := range 4 {
		commands = append(commands, fmt.Sprintf("addr add 2001:db8::%d/128 dev lo nodad", i+1))
	}
	for _, command := range commands {
		if output, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ip %s: %w\n%s", command, err, output)
		}
	}
	end, err := serveOwnNames()
	if err != nil {
		return nil, err
	}
	return func() { end(); os.RemoveAll(folder) }, nil
}

// serveOwnNames answers queries for the A records of ownNames.
func serveOwnNames() (close func(), err error) {
	conn, err := net.ListenPacket("udp", "192.0.2.53:53")
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer func() { ended <- struct{}{} }()
		packet := make([]byte, 512)
		for {
			n, client, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			if answer := answerOwnName(packet[:n]); answer != nil {
				conn.WriteTo(answer, client)
			}
		}
	}()
	return func() { conn.Close(); <-ended }, nil
}

func answerOwnName(packet []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(packet) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	address, known := ownNames[strings.ToLower(q.Name.String())]
	answer := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions}
	switch {
	case !known:
		answer.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		answer.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60},
			Body:   &dnsmessage.AResource{A: address},
		}}
	}
	text, _ := answer.Pack()
	return text
}

// newOriginAt is newOrigin at an address of the test's own network.
func newOriginAt(t *testing.T, address, scheme string, robots, page http.HandlerFunc) *origin {
	t.Helper()
	l, err := net.Listen("tcp", address)
	must(t, err)
	return newOriginOn(t, l, scheme, robots, page)
}

// The test's own network has the addresses and names that it should have.
func TestOwnNetwork(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	for name, address := range map[string]string{"shop.example.com": "192.0.2.1:80", "six.example.com": "[2001:db8::3]:80", "cache.example.com": "192.0.2.7:80"} {
		newOriginAt(t, address, "http", shop(), nil)
		output, err := exec.Command("curl", "--disable", "--silent", "--noproxy", "*", "http://"+name+"/products/1").CombinedOutput()
		if err != nil || string(output) != "the page /products/1" {
			t.Errorf("%s: %s, %v", name, output, err)
		}
	}
	if conn, err := net.Dial("tcp", "198.51.100.1:80"); err == nil {
		conn.Close()
		t.Error("there is a way out of the network")
	}
}
