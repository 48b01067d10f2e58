package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// The users of the tests of redirect.
const (
	proxyUser    uint32 = 4001
	exceptedUser uint32 = 4002
	anyUser      uint32 = 4003
)

// redirectedWorld runs the program as proxyUser, with a transparent door at port 15001.
func redirectedWorld(t *testing.T, config ...string) *world {
	t.Helper()
	w := newWorld(t, append(config, "transparent: 127.0.0.1:15001")...)
	w.user = proxyUser
	for _, path := range []string{w.dir, w.config, w.origins} {
		folder := filepath.Dir(path)
		must(t, os.Chmod(filepath.Dir(folder), 0o755))
		for _, given := range []string{folder, w.config, w.origins} {
			must(t, os.Chown(given, int(proxyUser), int(proxyUser)))
		}
	}
	w.run()
	t.Cleanup(w.stop)
	return w
}

// doneBy runs a command that knows of no proxy as a user, and returns its output.
func (w *world) doneBy(user uint32, args ...string) string {
	w.t.Helper()
	command := exec.Command(args[0], args[1:]...)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	command.Env, command.Dir = []string{"PATH=" + os.Getenv("PATH")}, "/"
	output, err := command.CombinedOutput()
	if len(output) == 0 && err != nil {
		w.t.Errorf("%q: %v", args, err)
	}
	return string(output)
}

// curlBy gets a URL as a user, past any proxy.
func (w *world) curlBy(user uint32, url string, flags ...string) string {
	w.t.Helper()
	return w.doneBy(user, append([]string{"curl", "--disable", "--silent", "--show-error", "--noproxy", "*", "--max-time", "100", url}, flags...)...)
}

// redirect runs the command redirect, as root.
func redirect(t *testing.T, wantCode int, args ...string) (output string) {
	t.Helper()
	var stdout bytes.Buffer
	command := exec.Command(program, append([]string{"redirect"}, args...)...)
	command.Stdout = &stdout
	if err := command.Run(); command.ProcessState.ExitCode() != wantCode {
		t.Fatalf("%q: %v", args, err)
	}
	return stdout.String()
}

// python is one that every user may start.
const python = "/usr/bin/python3"

// dialer is a Python program that dials HOST PORT by udp, tcp or mptcp, sends a request, and prints
// what comes back: the first line, "closed", or why there is none.
const dialer = `
import errno, socket, sys
kind, host, port = sys.argv[1:]
family = socket.AF_INET6 if ":" in host else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM, 262 if kind == "mptcp" else 0)
s.settimeout(60)
try:
    s.connect((host, int(port)))
    s.send(b"GET /cart/1 HTTP/1.1\r\nHost: shop.example.com\r\n\r\n")
    print(s.recv(100).split(b"\r\n")[0].decode() or "closed")
except OSError as e:
    print(type(e).__name__, e.errno and errno.errorcode[e.errno])
`

func (w *world) dialBy(user uint32, kind, host string, port int) string {
	w.t.Helper()
	return strings.TrimSpace(w.doneBy(user, python, "-c", dialer, kind, host, fmt.Sprint(port)))
}

// want checks that a text holds another.
func want(t *testing.T, what, got, part string) {
	t.Helper()
	if !strings.Contains(got, part) {
		t.Errorf("%s: got %q, want %q", what, got, part)
	}
}

func TestRedirect(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	if _, err := os.Stat(python); err != nil {
		t.Skip("needs python3: ", err)
	}
	for _, address := range []string{"192.0.2.1:80", "[2001:db8::1]:80", "192.0.2.2:9999", "127.0.0.1:9998"} {
		newOriginAt(t, address, "http", shop(), nil)
	}
	newOriginAt(t, "192.0.2.1:443", "https", shop(), nil)
	w := redirectedWorld(t)
	const page, refused = "the page /cart/1", `"Disallow: /cart`
	redirect(t, 1, "show")
	want(t, "before", w.curlBy(anyUser, "http://shop.example.com/cart/1"), page)

	redirect(t, 0, "install", "--to", "1", "--except-uid", "1")
	redirect(t, 0, "install", "--config", w.config, "--except-uid", fmt.Sprint(proxyUser), "--except-uid", fmt.Sprint(exceptedUser))
	if got, want := redirect(t, 0, "show"), "connections lead to port 15001\nexcept those of user 4001\nexcept those of user 4002\n0 connections redirected\n0 packets rejected\n"; got != want {
		t.Errorf("show prints %q, want %q", got, want)
	}

	for _, url := range []string{"http://192.0.2.1", "http://[2001:db8::1]", "http://four.example.com:9999", "http://dns.example.com", "http://shop.example.com", "https://shop.example.com"} {
		want(t, url+" by an excepted user", w.curlBy(exceptedUser, url+"/cart/1", "--insecure"), page)
		trust := []string{"--insecure"}
		for _, user := range []uint32{anyUser, 0} {
			want(t, url+" by another user", w.curlBy(user, url+"/cart/1", trust...), refused)
			want(t, url+" by another user", w.curlBy(user, url+"/products/1", trust...), "the page /products/1")
		}
	}
	want(t, "a bare socket", w.dialBy(anyUser, "tcp", "192.0.2.1", 80), "HTTP/1.1 403 Forbidden")
	want(t, "a bare socket, IPv6", w.dialBy(anyUser, "tcp", "2001:db8::1", 80), "HTTP/1.1 403 Forbidden")
	if got := w.dialBy(anyUser, "mptcp", "192.0.2.1", 80); got != "HTTP/1.1 403 Forbidden" && !strings.Contains(got, "EPROTONOSUPPORT") {
		t.Errorf("MPTCP: got %s", got) // a kernel without MPTCP does not support the protocol
	}
	want(t, "loopback", w.curlBy(anyUser, "http://127.0.0.1:9998/cart/1"), page)
	want(t, "the door itself", w.dialBy(anyUser, "tcp", "127.0.0.1", 15001), "ECONNRESET")
	want(t, "the door itself, IPv6", w.dialBy(anyUser, "tcp", "::1", 15001), "ECONNRESET")

	for _, host := range []string{"192.0.2.1", "2001:db8::1"} {
		if got := w.dialBy(anyUser, "udp", host, 443); got != "ConnectionRefusedError ECONNREFUSED" && got != "PermissionError EPERM" {
			t.Errorf("UDP to %s: got %s, want an error at once", host, got)
		}
	}
	udp, err := net.ListenPacket("udp", "192.0.2.1:443")
	must(t, err)
	defer udp.Close()
	answer(udp)
	want(t, "UDP by an excepted user", w.dialBy(exceptedUser, "udp", "192.0.2.1", 443), "an answer")
	dns, err := net.Listen("tcp", "192.0.2.53:53")
	must(t, err)
	defer dns.Close()
	go func() {
		if conn, err := dns.Accept(); err == nil {
			conn.Write([]byte("an answer"))
			conn.Close()
		}
	}()
	want(t, "TCP to port 53", w.dialBy(anyUser, "tcp", "192.0.2.53", 53), "an answer")

	if got := redirect(t, 0, "show"); !regexp.MustCompile(`\n[1-9]\d+ connections redirected\n[1-9]\d* packets rejected\n$`).MatchString(got) {
		t.Errorf("show prints %q", got)
	}
	redirect(t, 0, "remove")
	redirect(t, 1, "show")
	redirect(t, 0, "remove")
	want(t, "after", w.curlBy(anyUser, "http://shop.example.com/cart/1"), page)
}

// answer answers each packet until conn is closed.
func answer(conn net.PacketConn) {
	go func() {
		packet := make([]byte, 100)
		for {
			_, client, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			conn.WriteTo([]byte("an answer"), client)
		}
	}()
}

// A proxy whose user is not excepted has its own connections led back to it.
func TestRedirectOfTheProxyItself(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	newOriginAt(t, "192.0.2.1:80", "http", shop(), nil)
	newOriginAt(t, "192.0.2.1:443", "https", shop(), nil)
	w := redirectedWorld(t)
	redirect(t, 0, "install", "--except-uid", fmt.Sprint(exceptedUser))
	for _, url := range []string{"http://shop.example.com", "https://shop.example.com"} {
		want(t, url, w.curlBy(anyUser, url+"/products/1", "--insecure"), "cannot be had")
	}
	w.stop()
	back := strings.Count(w.log.String(), "it is the proxy's own, and was led back here; except the user that the proxy runs as")
	if dialled := 4; back < 2 || back > dialled { // an address of IPv4 and one of IPv6 for each origin
		t.Errorf("the log tells of %d own connections:\n%s", back, w.log)
	}
}
