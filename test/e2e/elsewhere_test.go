//go:build linux

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// machine is another machine as far as the network is concerned: a network namespace,
// joined to this one by a pair of virtual interfaces.
type machine struct {
	t    *testing.T
	name string
	to   string // this machine's address on that link
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	ip, err := exec.LookPath("ip")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("a network namespace needs root and the program ip; install Debian's package iproute2")
	}
	m := &machine{t: t, name: fmt.Sprintf("rp%d", os.Getpid()), to: "198.51.100.1"}
	command := func(args string) {
		t.Helper()
		if out, err := exec.Command(ip, strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Skipf("ip %s: %v: %s; this machine allows no network namespace", args, err, out)
		}
	}
	command("netns add " + m.name)
	t.Cleanup(func() { exec.Command(ip, "netns", "delete", m.name).Run() }) // deletes both interfaces
	command("link add " + m.name + " type veth peer name far netns " + m.name)
	command("address add " + m.to + "/30 dev " + m.name)
	command("link set " + m.name + " up")
	command("-n " + m.name + " address add 198.51.100.2/30 dev far")
	command("-n " + m.name + " link set far up")
	return m
}

// curl gets a URL through a proxy. It returns the status and the status of CONNECT.
func (m *machine) curl(proxy string, args ...string) string {
	m.t.Helper()
	all := append([]string{"netns", "exec", m.name, "curl", "-sS", "-k", "--max-time", "20", "--noproxy", "", "-x", proxy, "-o", "/dev/null", "-w", "%{http_code} %{http_connect}"}, args...)
	out, err := exec.Command("ip", all...).CombinedOutput()
	if err != nil {
		return err.Error() + ": " + string(out)
	}
	return string(out)
}

// A client on another machine cannot reach what listens on this machine's loopback, such as
// the admin server. A client on this machine can, whichever of the machine's addresses it
// comes from.
func TestOtherMachinesCannotReachLoopback(t *testing.T) {
	t.Parallel()
	far := newMachine(t)
	w := newWorld(t, "clients: {allow: [0.0.0.0/0]}", "https: {mode: tunnel}")
	w.runWith("--listen", far.to+":0", "--admin-listen", "127.0.0.1:0")
	t.Cleanup(w.stop)
	o := newOrigin(t, "http", says(""), nil)
	_, port, _ := net.SplitHostPort(o.Listener.Addr().String())
	_, admin, _ := net.SplitHostPort(w.admin)

	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]", "[::ffff:0.0.0.0]", "[::]", "[::1]"} {
		for _, port := range []string{port, admin} {
			for _, path := range []string{"/api/v1/policies", "/robots.txt"} {
				if got := far.curl(w.proxy, "http://"+host+":"+port+path); got != "502 000" {
					t.Errorf("http://%s:%s%s: %s", host, port, path, got)
				}
			}
			if got := far.curl(w.proxy, "https://"+host+":"+port+"/"); !strings.HasSuffix(got, "502") {
				t.Errorf("a tunnel to %s:%s: %s", host, port, got)
			}
		}
	}
	if n := o.robotsFetches() + len(o.pages()); n > 0 {
		t.Errorf("the site on loopback was asked %d times", n)
	}
	get := func(url string) (int, string) { // through the address on the link
		resp, err := w.client(false).Get(url)
		must(t, err)
		defer resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Proxy-Status")
	}
	if status, why := get(o.URL + "/page"); status != 200 {
		t.Errorf("a client on this machine: %d %s", status, why)
	}
	// The other machine still cannot, now that there is an open connection to the site.
	if got := far.curl(w.proxy, o.URL+"/page"); got != "502 000" {
		t.Errorf("after a client on this machine: %s", got)
	}
	l, err := net.Listen("tcp", far.to+":0")
	must(t, err)
	public := newOriginOn(t, l, "http", http.RedirectHandler("http://"+w.admin+"/api/v1/policies", http.StatusFound).ServeHTTP, nil)
	if got := far.curl(w.proxy, public.URL+"/page"); got != "403 000" {
		t.Errorf("a robots.txt that leads to the admin server: %s", got)
	}
	open := httptest.NewUnstartedServer(http.NotFoundHandler())
	open.Listener.Close()
	open.Listener, err = net.Listen("tcp", far.to+":0")
	must(t, err)
	open.Start()
	t.Cleanup(open.Close)
	if got := far.curl(w.proxy, open.URL+"/page"); got != "404 000" {
		t.Errorf("another address of this machine: %s", got)
	}
}
