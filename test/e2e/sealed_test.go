package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// bare asks for one page by what Python has besides the web, without a word to proxies:
// a socket, and http.client. It prints each status.
const bare = `
import http.client, socket, sys
host, port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with socket.create_connection((host, port), 60) as s:
    s.sendall(("GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (path, "[%s]" % host if ":" in host else host)).encode())
    print(s.makefile("rb").readline().split()[1].decode())
c = http.client.HTTPConnection(host, port, timeout=60)
c.request("GET", path)
print(c.getresponse().status)
`

// sealedWorld is a world in which a sealed command can ask for https pages by address too.
func sealedWorld(t *testing.T) *world {
	t.Helper()
	needsSealing(t)
	return newWorld(t, `upstream: {ca_file: ORIGINS, insecure: ["192.0.2.*", "2001:*"]}`)
}

// sealed prepares a run of a sealed command. args are flags of run and, after --, the command.
func (w *world) sealed(env []string, args ...string) *errand {
	return w.errand(env, append([]string{"--sealed"}, args...)...)
}

// asUser has an errand run by another user, who then owns the world's folders.
func (w *world) asUser(t *testing.T, e *errand, uid int) {
	t.Helper()
	must(t, os.MkdirAll(w.dir, 0o755))
	for _, path := range []string{w.dir, w.temp, w.config, w.origins} {
		must(t, os.Chown(path, uid, uid))
	}
	for _, path := range []string{w.dir, w.temp, w.config, w.origins} {
		for folder := filepath.Dir(path); folder != os.TempDir() && folder != "/"; folder = filepath.Dir(folder) {
			must(t, os.Chmod(folder, 0o755))
		}
	}
	e.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
}

// inEnvironment has a command run with no variable but PATH.
func inEnvironment(command ...string) []string {
	return append([]string{"--", "env", "-i", "PATH=" + os.Getenv("PATH")}, command...)
}

// A sealed command obeys robots.txt although its clients know of no proxy: on every port, to
// names and addresses of both families, in clear and by TLS, whoever runs it.
func TestSealedCommandObeys(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	var urls []string
	var origins []*origin
	for _, port := range []int{80, 8080, 7654} {
		for _, host := range []string{"192.0.2.1", "2001:db8::1"} {
			origins = append(origins, newOriginAt(t, net.JoinHostPort(host, fmt.Sprint(port)), "http", shop(), nil))
			urls = append(urls, "http://"+net.JoinHostPort(host, fmt.Sprint(port)))
		}
		urls = append(urls, fmt.Sprintf("http://shop.example.com:%d", port), fmt.Sprintf("http://dns.example.com:%d", port))
	}
	for _, port := range []int{443, 8443, 7655} {
		for _, host := range []string{"192.0.2.1", "2001:db8::1"} {
			origins = append(origins, newOriginAt(t, net.JoinHostPort(host, fmt.Sprint(port)), "h2", shop(), nil))
			urls = append(urls, "https://"+net.JoinHostPort(host, fmt.Sprint(port)))
		}
		urls = append(urls, fmt.Sprintf("https://shop.example.com:%d", port), fmt.Sprintf("https://dns.example.com:%d", port))
	}
	for _, uid := range []int{0, 65534} {
		w := sealedWorld(t)
		var pages []string
		for _, url := range urls {
			pages = append(pages, url+"/products/1", url+"/checkout/")
		}
		e := w.sealed(nil, inEnvironment(append(curlCommand(pages...)[1:], "--noproxy", "*")...)...)
		w.asUser(t, e, uid)
		if got, want := e.must(t), strings.Repeat("200 403 ", len(urls)); got != want {
			t.Errorf("user %d: statuses\n%s, want\n%s\n%s", uid, got, want, &e.err)
		}
		if want := fmt.Sprintf("robotsproxy: %d requests, %d refused\n", len(pages), len(urls)); !strings.HasSuffix(e.err.String(), want) {
			t.Errorf("the summary is\n%s", &e.err)
		}
		for _, target := range []string{"192.0.2.1 80", "192.0.2.1 7654", "2001:db8::1 8080", "2001:db8::1 7654", "shop.example.com 80", "dns.example.com 7654"} {
			host, port, _ := strings.Cut(target, " ")
			for path, want := range map[string]string{"/products/1": "200\n200\n", "/checkout/": "403\n403\n"} {
				e := w.sealed(nil, inEnvironment("python3", "-c", bare, host, port, path)...)
				w.asUser(t, e, uid)
				if got := e.must(t); got != want {
					t.Errorf("user %d, Python, %s%s: %q", uid, target, path, got)
				}
			}
		}
	}
	for _, o := range origins {
		if slices.ContainsFunc(o.pages(), func(page string) bool { return page != "/products/1" }) {
			t.Errorf("%s was asked for %q", o.URL, o.pages())
		}
	}
}

// A request that a client sends to the proxy by its variables, and one that it sends past
// them, are one and the same.
func TestSealedCommandWithVariables(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	w := sealedWorld(t)
	newOriginAt(t, "192.0.2.1:80", "http", shop(), nil)
	newOriginAt(t, "192.0.2.1:443", "https", shop(), nil)
	here := newOrigin(t, "http", shop(), nil)
	urls := []string{"http://shop.example.com/products/1", "http://shop.example.com/checkout/",
		"https://shop.example.com/products/1", "https://shop.example.com/checkout/", here.URL + "/products/1", here.URL + "/checkout/"}
	e := w.sealed(nil, curlCommand(urls...)...)
	if got := e.must(t); got != "200 403 200 403 200 403 " {
		t.Errorf("statuses %s\n%s", got, &e.err)
	}
	// no_proxy is no way past.
	e = w.sealed([]string{"no_proxy=shop.example.com"}, curlCommand(urls[:4]...)...)
	if got := e.must(t); got != "200 403 200 403 " {
		t.Errorf("with no_proxy: statuses %s", got)
	}
	want := "robotsproxy: hosts in no_proxy were judged like all others: shop.example.com; --allow HOST:PORT lets a destination pass\n"
	if !strings.Contains(e.err.String(), want) || !strings.HasSuffix(e.err.String(), "robotsproxy: 4 requests, 2 refused\n") {
		t.Errorf("the summary is\n%s", &e.err)
	}
	e = w.sealed([]string{"no_proxy=shop.example.com"}, append([]string{"--allow", "shop.example.com:80"}, curlCommand(urls[:4]...)...)...)
	if got := e.must(t); got != "200 200 200 403 " {
		t.Errorf("with --allow: statuses %s", got)
	}
}

// netcat asks for a line of text at an address.
func netcat(host, port string) []string {
	return []string{"--", "python3", "-c", `
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 60) as s:
        s.sendall(b"SSH-2.0-test\r\n")
        print(s.makefile().readline().strip() or "closed")
except OSError as e:
    print(type(e).__name__)`, host, port}
}

// What is not HTTP is refused, and the summary says how it may pass: by --allow.
func TestSealedCommandReachesWhatIsAllowed(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	w := sealedWorld(t)
	echo(t, "192.0.2.1:22")
	echo(t, "192.0.2.7:22")
	echo(t, "[2001:db8::3]:22")
	for _, c := range []struct{ allow, host, named string }{
		{"192.0.2.1:22", "192.0.2.1", "192.0.2.1:22"},
		{"shop.example.com:22", "192.0.2.1", "192.0.2.1:22"},                   // by /etc/hosts
		{"Cache.Example.com.:22", "cache.example.com", "cache.example.com:22"}, // by a name server
		{"[2001:db8::3]:22", "six.example.com", "[2001:db8::3]:22"},
	} {
		refused := w.sealed(nil, append([]string{"--allow", "192.0.2.9:22"}, netcat(c.host, "22")...)...)
		if got := refused.must(t); got != "closed\n" && got != "ConnectionResetError\n" {
			t.Errorf("%s: without --allow: %q", c.host, got)
		}
		want := fmt.Sprintf("robotsproxy: 1 connection to %s was refused: only HTTP leads out; --allow %s lets it pass\n", c.named, c.named)
		if !strings.Contains(refused.err.String(), want) {
			t.Errorf("%s: the summary is\n%s", c.host, &refused.err)
		}
		e := w.sealed(nil, append([]string{"--allow", c.allow}, netcat(c.host, "22")...)...)
		if got := e.must(t); got != "SSH-2.0-test\n" {
			t.Errorf("--allow %s: %q\n%s", c.allow, got, &e.err)
		}
		if !strings.Contains(e.err.String(), ":22 passed without being judged, because of --allow\n") {
			t.Errorf("--allow %s: the summary is\n%s", c.allow, &e.err)
		}
		e = w.sealed(nil, append([]string{"--allow", strings.Replace(c.allow, ":22", ":23", 1)}, netcat(c.host, "22")...)...)
		if got := e.must(t); got == "SSH-2.0-test\n" {
			t.Errorf("--allow %s lets port 22 pass too", strings.Replace(c.allow, ":22", ":23", 1))
		}
	}
}

// The summary counts a connection as passed only if it was made: not one to an address that
// upstream.deny names, nor one to a server that is down.
func TestSummaryOfAllowedConnectionsThatWereNotMade(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	needsSealing(t)
	w := newWorld(t, "upstream: {ca_file: ORIGINS, deny: [192.0.2.1]}")
	echo(t, "192.0.2.1:22")
	for host, want := range map[string]string{
		"192.0.2.1": "robotsproxy: 1 connection to 192.0.2.1:22 refused: upstream.deny holds whatever --allow names\n",
		"192.0.2.7": "robotsproxy: 1 connection to 192.0.2.7:22 failed, though --allow names it; --log-level warn says why\n",
	} {
		e := w.sealed(nil, append([]string{"--allow", host + ":22"}, netcat(host, "22")...)...)
		if got := e.must(t); got == "SSH-2.0-test\n" {
			t.Errorf("%s was reached", host)
		}
		if got := e.err.String(); !strings.Contains(got, want) || strings.Contains(got, "passed") {
			t.Errorf("%s: got the summary\n%s\nwant in it\n%s", host, got, want)
		}
	}
}

// A real Redis is reached by --allow at its own address, and by --forward on loopback.
func TestSealedCommandReachesRedis(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	w := sealedWorld(t)
	server, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("needs redis-server: ", err)
	}
	redis := exec.Command(server, "--port", "6379", "--bind", "127.0.0.1", "192.0.2.7", "--protected-mode", "no", "--save", "", "--dir", t.TempDir())
	must(t, redis.Start())
	t.Cleanup(func() { redis.Process.Kill(); redis.Wait() })
	waitFor(t, func() bool {
		conn, err := net.Dial("tcp", "192.0.2.7:6379")
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, func() string { return "Redis does not start" })

	ask := func(host string, flags ...string) *errand {
		return w.sealed(nil, append(flags, "--", "redis-cli", "-h", host, "ping")...)
	}
	for _, e := range []*errand{ask("cache.example.com", "--allow", "cache.example.com:6379"), ask("127.0.0.1", "--forward", "6379"), ask("localhost", "--forward", "6379")} {
		if got := e.must(t); got != "PONG\n" {
			t.Errorf("%v: %q\n%s", e.Args, got, &e.err)
		}
	}
	for _, e := range []*errand{ask("cache.example.com"), ask("127.0.0.1"), ask("127.0.0.1", "--allow", "cache.example.com:6379")} {
		if err := e.Run(); err == nil || strings.Contains(e.out.String(), "PONG") {
			t.Errorf("%v: %q\n%s", e.Args, &e.out, &e.err)
		}
	}
}

// A forwarded port at which nobody listens fails as it would on this machine.
func TestSealedCommandMeetsADeadForward(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	w := sealedWorld(t)
	if got := w.sealed(nil, append([]string{"--forward", "2222"}, netcat("127.0.0.1", "2222")...)...).must(t); got != "ConnectionResetError\n" {
		t.Errorf("got %q", got)
	}
}

// Clients that ask for addresses of one family if this machine has such (AI_ADDRCONFIG), as
// aiohttp does for socket.AF_INET, find them in a network that has loopback alone.
func TestSealedCommandResolvesForOneFamily(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	w := sealedWorld(t)
	e := w.sealed(nil, "--", "python3", "-c", `
import socket
for family, name in ((socket.AF_INET, "dns.example.com"), (socket.AF_INET6, "six.example.com")):
    print(socket.getaddrinfo(name, 80, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)[0][4][0])`)
	if got := e.must(t); got != "192.0.2.1\n2001:db8::3\n" {
		t.Errorf("got %q\n%s", got, &e.err)
	}
}

// What serves HTTP on this machine's loopback is reached by the proxy, whether or not the client
// knows of it, unless the operator denies that. A forwarded port is reached all the same.
func TestSealedCommandAsksTheProxyForLoopback(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	needsSealing(t)
	newOriginAt(t, "127.0.0.1:2375", "http", shop(), nil)
	echo(t, "127.0.0.1:22")
	ask := []string{"--forward", "22", "--", "sh", "-c", `
		curl --silent --output /dev/null --write-out '%{http_code} ' http://127.0.0.1:2375/products/1
		curl --silent --output /dev/null --write-out '%{http_code} ' --noproxy '*' --header 'Host: 127.0.0.1:2375' http://192.0.2.1/products/1
		"$@"`}
	ask = append(ask, netcat("127.0.0.1", "22")...)
	for deny, want := range map[string]string{"[169.254.0.0/16]": "200 200 SSH-2.0-test\n", "[127.0.0.0/8]": "502 502 SSH-2.0-test\n"} {
		w := newWorld(t, "upstream: {ca_file: ORIGINS, deny: "+deny+"}")
		if e := w.sealed(nil, ask...); e.must(t) != want {
			t.Errorf("upstream.deny %s: got %q, want %q\n%s", deny, &e.out, want, &e.err)
		}
	}
}

// A name of /etc/hosts that leads to loopback is the command's own machine.
func TestSealedCommandHasItsOwnLoopback(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	w := sealedWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:80")
	must(t, err)
	here := newOriginOn(t, l, "http", shop(), nil)
	e := w.sealed(nil, inEnvironment("sh", "-c", `
		curl --silent --output /dev/null --write-out '%{http_code} ' http://inside.example.com/products/1
		python3 -c 'import http.server, threading, urllib.request
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(299); self.end_headers()
    def log_message(self, *args): pass
server = http.server.HTTPServer(("127.0.0.1", 8000), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen("http://inside.example.com:8000/").status)'`)...)
	if got := e.must(t); got != "000 299\n" {
		t.Errorf("got %q\n%s", got, &e.err)
	}
	if n := len(here.pages()); n > 0 {
		t.Errorf("this machine was asked %d times", n)
	}
}

// escapes asks name servers of its own choice for an address, by UDP and by TCP. Then it
// tries what else might lead out, and prints what becomes of that.
const escapes = `
import socket, struct, sys
def query(name): return struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0" + struct.pack(">2H", 1, 1)
def address(answer): return socket.inet_ntoa(answer[-4:])
for family, server in ((socket.AF_INET, "8.8.8.8"), (socket.AF_INET6, "2001:4860:4860::8888")):
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(60); s.connect((server, 53))
    s.send(query("dns.example.com")); print("UDP", address(s.recv(512)))
    s = socket.create_connection((server, 53), 60)
    q = query("dns.example.com"); s.sendall(struct.pack(">H", len(q)) + q)
    answers = s.makefile("rb"); print("TCP", address(answers.read(struct.unpack(">H", answers.read(2))[0])))
for what in ("udp 443", "udp 123", "icmp", "raw"):
    try:
        if what.startswith("udp"):
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60); s.connect(("192.0.2.1", int(what[4:])))
            s.send(b"x"); s.recv(10); print(what, "answered")
        elif what == "icmp": socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); print(what, "opened")
        else: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3); print(what, "opened")
    except OSError as e: print(what, type(e).__name__)
`

// Every name server is the proxy's, and nothing but TCP and names leads anywhere.
func TestSealedCommandCannotEscape(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	w := sealedWorld(t)
	quic, err := net.ListenPacket("udp", "192.0.2.1:443")
	must(t, err)
	defer quic.Close()
	want := strings.Repeat("UDP 192.0.2.1\nTCP 192.0.2.1\n", 2) +
		"udp 443 ConnectionRefusedError\nudp 123 ConnectionRefusedError\nicmp PermissionError\nraw PermissionError\n"
	e := w.sealed(nil, "--", "python3", "-c", escapes)
	if got := e.must(t); got != want {
		t.Errorf("got\n%swant\n%s%s", got, want, &e.err)
	}
	for _, command := range [][]string{
		{"ip", "route", "add", "192.0.2.0/24", "dev", "lo"},
		{"ip", "link", "add", "out", "type", "dummy"},
		{"nsenter", "--net", "--target", fmt.Sprint(os.Getpid()), "true"},
		{"mount", "-t", "tmpfs", "none", "/mnt"},
	} {
		if e := w.sealed(nil, append([]string{"--"}, command...)...); e.Run() == nil {
			t.Errorf("%v succeeds", command)
		}
	}
}

// sockets tries to connect to Unix sockets, and prints what becomes of that.
const sockets = `
import socket, sys
for path in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path.replace("@", "\0"))
        print("connected")
    except OSError as e: print(type(e).__name__)
`

// The sockets of programs that would do for a command what it can't do itself are not there:
// neither that of Docker, nor any without a path.
func TestSealedCommandMeetsNobodyElse(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	w := sealedWorld(t)
	folder, err := os.MkdirTemp("", "") // the path of a socket must be short
	must(t, err)
	defer os.RemoveAll(folder)
	docker, abstract := filepath.Join(folder, "docker.sock"), "@robotsproxy-test"
	for _, path := range []string{docker, abstract} {
		l, err := net.Listen("unix", path)
		must(t, err)
		defer l.Close()
	}
	for flag, want := range map[string]string{"--sealed": "ConnectionRefusedError\nConnectionRefusedError\n", "--sealed=false": "connected\nconnected\n"} {
		e := w.errand([]string{"DOCKER_HOST=unix://" + docker}, flag, "--", "python3", "-c", sockets, docker, abstract)
		if got := e.must(t); got != want {
			t.Errorf("%s: got %q", flag, got)
		}
	}
}

// later waits until it may read a file, then asks for a page and writes what becomes of that.
const later = `
import sys, urllib.request
open(sys.argv[1]).read()
try: result = str(urllib.request.build_opener(urllib.request.ProxyHandler({})).open("http://192.0.2.1/products/1").status)
except OSError as e: result = str(e)
open(sys.argv[2], "w").write(result + "\n")
`

// What a sealed command leaves behind has no network when the run is over.
func TestSealedProcessLeftBehind(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	w := sealedWorld(t)
	site := newOriginAt(t, "192.0.2.1:80", "http", shop(), nil)
	begin, result := filepath.Join(w.temp, "begin"), filepath.Join(w.temp, "result")
	must(t, unix.Mkfifo(begin, 0o600))
	w.sealed(nil, "--", "sh", "-c", `python3 -c "$0" "$@" </dev/null >/dev/null 2>&1 &`, later, begin, result).must(t)
	must(t, os.WriteFile(begin, nil, 0))
	var text []byte
	waitFor(t, func() bool { text, _ = os.ReadFile(result); return bytes.HasSuffix(text, []byte("\n")) }, func() string { return "the process says nothing" })
	if !strings.Contains(string(text), "refused") || len(site.pages()) > 0 {
		t.Errorf("the process says %q; the site was asked for %q", text, site.pages())
	}
}

// Behind a parent proxy, a sealed command asks for names that resolve there alone.
func TestSealedCommandBehindAParent(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	needsSealing(t)
	plain, secure := newOriginAt(t, "192.0.2.2:80", "http", shop(), nil), newOriginAt(t, "192.0.2.2:443", "https", shop(), nil)
	var asked []string
	parent := newOriginAt(t, "192.0.2.3:3128", "http", shop(), nil)
	parent.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.Host)
		address := "192.0.2.2:80"
		if r.Method == http.MethodConnect {
			address = "192.0.2.2:443"
		}
		target, err := net.Dial("tcp", address)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer target.Close()
		conn, rw, _ := w.(http.Hijacker).Hijack()
		defer conn.Close()
		if r.Method == http.MethodConnect {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
			go io.Copy(target, rw)
		} else {
			r.Header.Set("Connection", "close")
			r.Write(target)
		}
		io.Copy(conn, target)
	})
	for name, setup := range map[string]struct {
		config string
		env    []string
	}{
		"configuration": {`upstream: {ca_file: ORIGINS, proxy: "http://192.0.2.3:3128"}`, nil},
		"variables":     {"upstream: {ca_file: ORIGINS}", []string{"http_proxy=http://192.0.2.3:3128", "https_proxy=http://192.0.2.3:3128"}},
	} {
		asked = nil
		w := newWorld(t, setup.config)
		e := w.sealed(setup.env, inEnvironment(append(curlCommand(
			"http://elsewhere.example.com/products/1", "http://elsewhere.example.com/checkout/",
			"https://elsewhere.example.com/products/1", "https://elsewhere.example.com/checkout/")[1:], "--noproxy", "*")...)...)
		if got := e.must(t); got != "200 403 200 403 " {
			t.Errorf("%s: statuses %s\n%s", name, got, &e.err)
		}
		if len(asked) == 0 || slices.ContainsFunc(asked, func(line string) bool { return !strings.Contains(line, "elsewhere.example.com") }) {
			t.Errorf("%s: the parent was asked for %q", name, asked)
		}
	}
	wantSame(t, "pages", slices.Concat(plain.pages(), secure.pages()), slices.Repeat([]string{"/products/1"}, 4))
}

// Where a command can't be sealed, run says what to do and does not start it.
func TestSealedWhereNamespacesAreForbidden(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	w := sealedWorld(t)
	file := filepath.Join(t.TempDir(), "started")
	for _, c := range []struct{ prepare, want string }{
		{"echo 0 > /proc/sys/user/max_user_namespaces", "raise user.max_user_namespaces with sysctl"},
		{"echo 0 > /proc/sys/user/max_net_namespaces", "raise user.max_net_namespaces with sysctl"},
	} {
		e := w.sealed(nil, "--", "touch", file)
		// The limit is that of a user namespace of the test's own.
		e.Args = append([]string{"unshare", "--user", "--map-root-user", "sh", "-c", c.prepare + ` && exec "$@"`, "sh"}, e.Args...)
		var err error
		e.Path, err = exec.LookPath("unshare")
		must(t, err)
		e.Run()
		if code := e.ProcessState.ExitCode(); code != 125 || isFile(file) {
			t.Errorf("%s: exit code %d, started: %t", c.prepare, code, isFile(file))
		}
		want := "robotsproxy: the command cannot be sealed, so it was not started: this system allows no new namespaces: " + c.want + " (making the namespaces: no space left on device)\n"
		if got := e.err.String(); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.prepare, got, want)
		}
	}
}
