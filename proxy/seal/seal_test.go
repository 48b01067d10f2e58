//go:build linux

package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// programVariable makes this test binary run one of programs instead of the tests.
const programVariable = "SEAL_TEST_PROGRAM"

func TestMain(m *testing.M) {
	Main()
	if name := os.Getenv(programVariable); name != "" {
		os.Unsetenv(programVariable)
		if err := programs[name](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// programs are the commands that the tests start, most of them sealed.
var programs = map[string]func(args []string) error{}

// namespacesError says why the tests' user can't make namespaces on this system; nil if
// they can.
var namespacesError = sync.OnceValue(func() error {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS}
	return cmd.Run()
})

func needNamespaces(t testing.TB) {
	t.Helper()
	if err := namespacesError(); err != nil {
		t.Skip("needs user, network and mount namespaces:", err)
	}
}

// program is a command that runs one of programs.
func program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Path, _ = os.Executable()
	cmd.Env = append(os.Environ(), programVariable+"="+name, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// inBothModes runs a test twice: with all ports caught, and with a list of ports.
func inBothModes(t *testing.T, test func(t *testing.T, o Options)) {
	t.Run("all ports", func(t *testing.T) { test(t, Options{Ports: []uint16{80, 443}}) })
	t.Run("list of ports", func(t *testing.T) { test(t, Options{Ports: []uint16{80, 443}, onlyPorts: true}) })
}

// start starts cmd sealed. Its output is in the buffer once cmd.Wait has returned.
func start(t testing.TB, cmd *exec.Cmd, o Options) (*Network, *bytes.Buffer) {
	t.Helper()
	needNamespaces(t)
	output := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = output, output
	network, err := Start(t.Context(), cmd, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, w := range network.Warnings {
		t.Error(w)
	}
	return network, output
}

// outputOf runs cmd sealed and returns its output.
func outputOf(t *testing.T, cmd *exec.Cmd, o Options) string {
	t.Helper()
	_, output := start(t, cmd, o)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %v: %s", cmd.Args, err, output)
	}
	return output.String()
}

// greet answers each connection to the listeners with its local and, if it is one of TCP, its
// remote address, until the listeners are closed.
func greet(listeners ...net.Listener) {
	for _, l := range listeners {
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
				fmt.Fprintf(conn, "%v for %v", conn.LocalAddr(), host)
				conn.Close()
			}
		}()
	}
}

func init() {
	dial := func(dialer net.Dialer, addresses []string) error {
		for _, a := range addresses {
			conn, err := dialer.Dial("tcp", a)
			if err != nil {
				fmt.Println(a, errors.Unwrap(err.(*net.OpError).Err))
				continue
			}
			text, err := io.ReadAll(conn)
			fmt.Printf("%s\n", text)
			if err != nil {
				fmt.Println(a, err)
			}
			conn.Close()
		}
		return nil
	}
	// dial prints what each address sends. dialmptcp does the same over Multipath TCP, if the
	// kernel supports it.
	programs["dial"] = func(addresses []string) error {
		return dial(net.Dialer{Timeout: 10 * time.Second}, addresses)
	}
	programs["dialmptcp"] = func(addresses []string) error {
		dialer := net.Dialer{Timeout: 10 * time.Second}
		dialer.SetMultipathTCP(true)
		return dial(dialer, addresses)
	}
}

func TestConnectionsArriveWithTheirDestination(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) {
		addresses := []string{"192.0.2.1:80", "10.0.0.5:443", "8.8.8.8:80", "[2001:db8::1]:443", "[fd00::1]:80"}
		if !o.onlyPorts {
			addresses = append(addresses, "192.0.2.1:1", "169.254.169.254:65535", "[2606:4700::1]:22", "10.0.0.5:8080")
		}
		cmd := program("dial", addresses...)
		network, output := start(t, cmd, o)
		greet(network.Caught...)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if network.AllPorts == o.onlyPorts {
			t.Errorf("AllPorts is %v", network.AllPorts)
		}
		var want strings.Builder
		for _, a := range addresses {
			client := "127.0.0.1"
			if a[0] == '[' {
				client = "::1"
			}
			fmt.Fprintf(&want, "%s for %s\n", a, client)
		}
		if output.String() != want.String() {
			t.Errorf("got\n%swant\n%s", output, want.String())
		}
	})
}

// The kernel can't say where a Multipath TCP connection was meant to go.
func TestMultipathTCPIsCaughtAsTCP(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) {
		cmd := program("dialmptcp", "192.0.2.1:80", "[2001:db8::1]:443")
		network, output := start(t, cmd, o)
		greet(network.Caught...)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if want := "192.0.2.1:80 for 127.0.0.1\n[2001:db8::1]:443 for ::1\n"; output.String() != want {
			t.Errorf("got\n%swant\n%s", output, want)
		}
	})
}

func init() {
	// withoutipv6 seals one of programs where no IPv6 socket can be opened.
	programs["withoutipv6"] = func(args []string) error {
		if err := forbid(unix.SYS_SOCKET, 0, isEqual, unix.AF_INET6, refuse); err != nil {
			return err
		}
		return programs["greeter"](args)
	}
	// withoutnftables seals one of programs where the rules of nf_tables can't be set.
	programs["withoutnftables"] = func(args []string) error {
		const protocol = 2 // argument of socket(2)
		if err := forbid(unix.SYS_SOCKET, protocol, isEqual, unix.NETLINK_NETFILTER, refuse); err != nil {
			return err
		}
		return programs["greeter"](args)
	}
	// greeter seals one of programs, and greets those who connect.
	programs["greeter"] = func(args []string) error {
		cmd := program(args[0], args[1:]...)
		cmd.Stdout = os.Stdout
		network, err := Start(context.Background(), cmd, Options{Ports: []uint16{80}})
		if err != nil {
			return err
		}
		defer network.Close()
		greet(network.Caught...)
		if err := cmd.Wait(); err != nil {
			return err
		}
		fmt.Println("all ports:", network.AllPorts)
		return nil
	}
}

func TestEndedConnectionsAreForgotten(t *testing.T) {
	if got := outputOf(t, exec.Command("cat", endedConnections), Options{}); got != "1\n" {
		t.Errorf("got %q", got)
	}
}

func TestWithoutAKernelFeature(t *testing.T) {
	needNamespaces(t)
	for _, c := range []struct{ program, address, want string }{
		{"withoutipv6", "192.0.2.1:80", "192.0.2.1:80 for 127.0.0.1\nall ports: true\n"},
		{"withoutipv6", "[2001:db8::1]:80", "[2001:db8::1]:80 operation not permitted\nall ports: true\n"},
		{"withoutnftables", "192.0.2.1:80", "192.0.2.1:80 for 127.0.0.1\nall ports: false\n"},
		{"withoutnftables", "[2001:db8::1]:80", "[2001:db8::1]:80 for ::1\nall ports: false\n"},
		{"withoutnftables", "192.0.2.1:8080", "192.0.2.1:8080 connection refused\nall ports: false\n"},
	} {
		output, err := program(c.program, "dial", c.address).CombinedOutput()
		if err != nil || string(output) != c.want {
			t.Errorf("%s, %s: got %q, %v", c.program, c.address, output, err)
		}
	}
}

func TestProxyAndForwardedPortsAreThere(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) {
		o.Ports = append(o.Ports, 8081)
		o.Proxy = netip.MustParseAddrPort("127.0.0.1:3128")
		o.Forwards = []uint16{5432, 8081}
		cmd := program("dial", "127.0.0.1:3128", "127.0.0.1:5432", "127.0.0.1:8081", "192.0.2.1:8081")
		network, output := start(t, cmd, o)
		greet(network.Proxy, network.Forwards[5432], network.Forwards[8081])
		greet(network.Caught...)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		want := "127.0.0.1:3128 for 127.0.0.1\n127.0.0.1:5432 for 127.0.0.1\n127.0.0.1:8081 for 127.0.0.1\n192.0.2.1:8081 for 127.0.0.1\n"
		if output.String() != want {
			t.Errorf("got\n%swant\n%s", output, want)
		}
	})
}

// A client that dials the proxy's listener by its own address would make the proxy connect
// to itself.
func TestConnectionThatWasNotRedirectedIsClosed(t *testing.T) {
	dial := program("dial")
	cmd := exec.Command("sh", "-c", `read address; exec "$0" "$address"`, dial.Path)
	cmd.Env = dial.Env
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	network, output := start(t, cmd, Options{})
	greet(network.Caught...)
	fmt.Fprintln(stdin, network.Caught[0].Addr())
	stdin.Close()
	if err := cmd.Wait(); err != nil || strings.Contains(output.String(), " for ") {
		t.Errorf("%v: got %s", err, output)
	}
}

func init() {
	// own listens at loopback addresses and connects to itself.
	programs["own"] = func([]string) error {
		for _, address := range []string{"127.0.0.1:0", "127.5.5.5:0", "[::1]:0", "0.0.0.0:0", "[::]:0"} {
			l, err := net.Listen("tcp", address)
			if err != nil {
				return err
			}
			defer l.Close()
			greet(l)
			_, port, _ := net.SplitHostPort(l.Addr().String())
			host, _, _ := net.SplitHostPort(address)
			conn, err := net.Dial("tcp", net.JoinHostPort(host, port)) // the wildcard address leads to loopback
			if err != nil {
				return err
			}
			text, err := io.ReadAll(conn)
			if err != nil || len(text) == 0 {
				return fmt.Errorf("%s: %q, %v", address, text, err)
			}
			conn.Close()
		}
		return nil
	}
}

func TestCommandReachesItsOwnServers(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) { outputOf(t, program("own"), o) })
}

// With a list of ports, the proxy listens at the loopback addresses too.
func TestConnectionToLoopbackIsNotCaught(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) {
		cmd := program("dial", "127.0.0.1:80", "[::1]:443")
		network, output := start(t, cmd, o)
		greet(network.Caught...)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if strings.Contains(output.String(), " for ") {
			t.Errorf("got %s", output)
		}
	})
}

func init() {
	// asknames asks servers by UDP and TCP, and prints the answers.
	programs["asknames"] = func(servers []string) error {
		for _, network := range []string{"udp", "tcp"} {
			for _, server := range servers {
				conn, err := net.Dial(network, server) // gets answers from this address alone
				if err != nil {
					return err
				}
				fmt.Fprint(conn, "query")
				answer := make([]byte, 100)
				n, err := conn.Read(answer)
				if err != nil {
					return err
				}
				fmt.Println(network, server, string(answer[:n]))
				conn.Close()
			}
		}
		return nil
	}
}

func TestAnyNameserverIsOurs(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) {
		servers := []string{"192.0.2.53:53", "127.0.0.53:53", "127.0.0.1:53", "8.8.8.8:53", "[2001:db8::53]:53", "[::1]:53"}
		cmd := program("asknames", servers...)
		network, output := start(t, cmd, o)
		for _, s := range network.NameSockets {
			go func() {
				packet, control := make([]byte, 100), make([]byte, 100)
				for {
					n, controlN, _, client, err := s.ReadMsgUDPAddrPort(packet, control)
					if err != nil {
						return
					}
					s.WriteMsgUDPAddrPort(append([]byte("answer to "), packet[:n]...), control[:controlN], client)
				}
			}()
		}
		greet(network.NameListeners...)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		for _, server := range servers {
			if want := "udp " + server + " answer to query\n"; !strings.Contains(output.String(), want) {
				t.Errorf("got %s, want %s", output, want)
			}
			if want := "tcp " + server + " " + server; !strings.Contains(output.String(), want) {
				t.Errorf("got %s, want %s", output, want)
			}
		}
	})
}

func init() {
	// escape tries ways out, and prints the result of each.
	programs["escape"] = func(addresses []string) error {
		say := func(what string, err error) { fmt.Printf("%s: %v\n", what, err) }
		for _, a := range addresses {
			conn, err := net.Dial("udp", a)
			if err == nil {
				conn.Write([]byte("x"))
				_, err = conn.Read(make([]byte, 1))
			}
			say("UDP to "+a, errno(err))
		}
		for _, s := range []struct {
			name                string
			family, kind, proto int
		}{
			{"raw socket", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
			{"raw IPv6 socket", unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6},
			{"ping socket", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP},
			{"packet socket", unix.AF_PACKET, unix.SOCK_RAW, 0},
		} {
			_, err := unix.Socket(s.family, s.kind, s.proto)
			say(s.name, err)
		}
		conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
		if err == nil {
			err = addLocalRoute(conn, unix.AF_INET, unix.RT_SCOPE_HOST)
		}
		say("route", errno(err))
		say("interface", loopbackUp())
		say("nf_tables", errno(addRedirectRules(1, 1)))
		parent := fmt.Sprintf("/proc/%d/", os.Getppid())
		_, err = os.Open(parent + "ns/net")
		say("the parent's network", errno(err))
		_, err = os.Open(parent + "ns/user")
		say("the parent's user namespace", errno(err))
		_, err = os.Open(parent + "root/etc")
		say("the parent's files", errno(err))
		_, err = os.Readlink(parent + "fd/0")
		say("the parent's descriptors", errno(err))
		say("the parent's memory", unix.PtraceAttach(os.Getppid()))
		say("mount", unix.Mount("/dev/null", "/etc/hostname", "", unix.MS_BIND, ""))
		say("port 80", func() error { _, err := net.Listen("tcp", "127.0.0.1:81"); return errno(err) }())
		return nil
	}
}

// errno returns the system's error number in err.
func errno(err error) error {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	return err
}

func TestNothingElseLeadsOut(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) {
		got := outputOf(t, program("escape", "192.0.2.1:443", "[2001:db8::1]:443", "10.0.0.5:123"), o)
		want := `UDP to 192.0.2.1:443: connection refused
UDP to [2001:db8::1]:443: connection refused
UDP to 10.0.0.5:123: connection refused
raw socket: operation not permitted
raw IPv6 socket: operation not permitted
ping socket: permission denied
packet socket: operation not permitted
route: operation not permitted
interface: operation not permitted
nf_tables: operation not permitted
the parent's network: permission denied
the parent's user namespace: permission denied
the parent's files: permission denied
the parent's descriptors: permission denied
the parent's memory: operation not permitted
mount: operation not permitted
port 80: permission denied
`
		if got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		dial := outputOf(t, program("dial", "127.0.0.1:22"), o)
		if o.onlyPorts {
			dial += outputOf(t, program("dial", "10.0.0.5:22", "[2001:db8::1]:8080"), o)
		}
		for line := range strings.Lines(dial) {
			if !strings.Contains(line, "connection refused") {
				t.Errorf("got %s", line)
			}
		}
	})
}

func TestPrograms(t *testing.T) {
	for _, p := range []struct {
		command string
		succeed bool
	}{
		// Chromium's sandbox does the same. The kernel lets nobody pass root on without
		// CAP_SETFCAP.
		{"unshare -Urn true", os.Getuid() != 0},
		{"unshare -Un true", true},
		{"unshare -n true", false},
		{"nsenter -t PARENT -n true", false},
		{"nsenter -t PARENT -U true", false},
		{"unshare -Ur nsenter -t PARENT -n true", false},
	} {
		t.Run(p.command, func(t *testing.T) {
			words := strings.Fields(strings.ReplaceAll(p.command, "PARENT", fmt.Sprint(os.Getpid())))
			cmd := exec.Command(words[0], words[1:]...)
			if cmd.Err != nil {
				t.Skip("needs util-linux:", cmd.Err)
			}
			_, output := start(t, cmd, Options{})
			if err := cmd.Wait(); (err == nil) != p.succeed {
				t.Errorf("%v: %s", err, output)
			}
		})
	}
}
