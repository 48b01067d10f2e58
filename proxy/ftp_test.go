package proxy_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"robotsproxy/internal/conntest"
	"robotsproxy/internal/loopback"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/upstream"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/preference"
)

// ftpServer is a running vsftpd that serves files from a folder of its own.
type ftpServer struct {
	t         *testing.T
	url       string // without a path
	root, log string
}

// newFTPServer starts vsftpd. lines are added to its configuration.
func newFTPServer(t *testing.T, lines ...string) *ftpServer {
	t.Helper()
	program, err := exec.LookPath("vsftpd")
	if err != nil {
		program = "/usr/sbin/vsftpd" // where not everybody looks
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("there is no FTP server; install the package vsftpd, as make deps does")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	dir := t.TempDir()
	s := &ftpServer{t: t, url: "ftp://" + addr, root: filepath.Join(dir, "root"), log: filepath.Join(dir, "log")}
	must(t, os.Mkdir(s.root, 0o755))
	must(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	lines = append(lines, "listen=YES", "background=NO", "listen_address=127.0.0.1", "listen_port="+port,
		"anonymous_enable=YES", "anon_root="+s.root, "seccomp_sandbox=NO", "isolate=NO", "isolate_network=NO",
		"xferlog_enable=YES", "log_ftp_protocol=YES", "vsftpd_log_file="+s.log)
	if os.Geteuid() == 0 {
		lines = append(lines, "ftp_username=ftp", "secure_chroot_dir="+filepath.Join(dir, "empty"))
	} else {
		lines = append(lines, "run_as_launching_user=YES")
	}
	config := filepath.Join(dir, "vsftpd.conf")
	must(t, os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	command := exec.Command(program, config)
	must(t, command.Start())
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			greeting, _ := bufio.NewReader(conn).ReadString('\n')
			conn.Close()
			if strings.HasPrefix(greeting, "220 ") {
				return s
			}
			t.Fatalf("vsftpd says %q", greeting)
		}
	}
	t.Fatal("vsftpd does not listen")
	return nil
}

// put creates a file that everybody may read.
func (s *ftpServer) put(name, text string) {
	s.t.Helper()
	file := filepath.Join(s.root, name)
	must(s.t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(s.t, os.WriteFile(file, []byte(text), 0o644))
}

// said returns the commands that the server has logged.
func (s *ftpServer) said() string {
	text, err := os.ReadFile(s.log)
	must(s.t, err)
	var commands strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "FTP command") {
			commands.WriteString(line)
		}
	}
	return commands.String()
}

// ask sends a request in absolute form, as HTTP clients do for ftp URLs.
func (w *world) ask(method, url string) (*http.Response, string) {
	w.t.Helper()
	c := w.dial()
	defer c.Close()
	c.send(method + " " + url + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	return c.response(method)
}

// exempt turns judging off.
func exempt(s *settings) { s.gate.Identities.Default.Mode = identity.Off }

// curl gets a URL through the proxy.
func (w *world) curl(args ...string) (string, error) {
	w.t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		w.t.Skip("curl is missing: install curl")
	}
	out, err := exec.Command("curl", append([]string{"-sS", "--max-time", "120", "--noproxy", "", "-x", "http://" + w.addr}, args...)...).Output()
	return string(out), err
}

// A robots.txt on an FTP server says what its files may be used for, as one on the web does.
func TestFTPPreferences(t *testing.T) {
	s := newFTPServer(t)
	s.put("robots.txt", "User-agent: *\nDisallow: /never/\nContent-Usage: train-ai=n\nContent-Usage: /ai-ok/ train-ai=y\n")
	for _, file := range []string{"test", "ai-ok/test", "never/test"} {
		s.put(file, "text")
	}
	w := newWorld(t, func(s *settings) {
		s.gate.Identities.Default.Purposes = []preference.Purpose{preference.AITrain}
		s.gate.Preferences = gate.Preferences{Mode: identity.Enforce, Sources: []preference.Source{preference.ContentUsage}}
	})
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/test":       {403, "content-usage: train-ai=n on line 3 of " + s.url + "/robots.txt"},
		"/ai-ok/test": {200, "text"},
		"/never/test": {403, "Disallow: /never/"},
	} {
		if resp, body := w.ask("GET", s.url+path); resp.StatusCode != want.status || !strings.Contains(body, want.body) {
			t.Errorf("GET %s: %s, %q, want %d, %q", path, resp.Status, body, want.status, want.body)
		}
	}
	if said := s.said(); strings.Count(said, "RETR") != 2 || !strings.Contains(said, "ai-ok/test") {
		t.Errorf("the server was asked for more than its robots.txt and what passes:\n%s", said)
	}
}

func TestFTP(t *testing.T) {
	s := newFTPServer(t)
	s.put("robots.txt", someDisallowed)
	s.put("hello.txt", "hello\n")
	s.put("empty", "")
	s.put("pub/a name with ü.bin", "\x00\r\n\xff")
	s.put("pub/what?.HTML", "<p>")
	s.put("pub/deeper/file", "")
	s.put("private/secret.txt", "secret")
	w := newWorld(t)
	listing := "a name with ü.bin\ndeeper/\nwhat?.HTML\n"
	for _, c := range []struct {
		path, shape, body, contentType string
	}{
		{"/hello.txt", "200 ", "hello\n", "text/plain"},
		{"/hello.txt;type=i", "200 ", "hello\n", "text/plain"},
		{"/%68ello%2Etxt", "200 ", "hello\n", "text/plain"},
		{"/pub/./deeper/%2e%2E/../hello.txt#part", "200 ", "hello\n", "text/plain"},
		{"/../../hello.txt", "200 ", "hello\n", "text/plain"},
		{"/robots.txt", "200 ", someDisallowed, "text/plain"},
		{"/empty", "200 ", "", "application/octet-stream"},
		{"/pub/a%20name%20with%20%C3%BC.bin", "200 ", "\x00\r\n\xff", "application/octet-stream"},
		{"/pub/what%3F.HTML", "200 ", "<p>", "text/html"},
		{"/pub/", "200 ", listing, "text/plain; charset=utf-8"},
		{"/pub/deeper/..", "200 ", listing, "text/plain; charset=utf-8"},
		{"/pub", "301 ", "a directory\n", "text/plain; charset=utf-8"},
		{"/missing.txt", "404 ", "the FTP server says: 550 Failed to open file.\n", "text/plain; charset=utf-8"},
		{"/missing/", "404 ", "the FTP server says: 550 Failed to change directory.\n", "text/plain; charset=utf-8"},
		{"/hello.txt/", "404 ", "the FTP server says: 550 Failed to change directory.\n", "text/plain; charset=utf-8"},
		{"/-R", "404 ", "the FTP server says: 550 Failed to open file.\n", "text/plain; charset=utf-8"},
		{"/p*/", "404 ", "the FTP server says: 550 Failed to change directory.\n", "text/plain; charset=utf-8"},
	} {
		resp, body := w.ask("GET", s.url+c.path)
		if shape(resp) != c.shape || body != c.body || resp.Header.Get("Content-Type") != c.contentType || resp.ContentLength != int64(len(c.body)) {
			t.Errorf("GET %s: %s, %d octets of %s: %q", c.path, shape(resp), resp.ContentLength, resp.Header.Get("Content-Type"), body)
		}
		head, _ := w.ask("HEAD", s.url+c.path)
		if head.StatusCode != resp.StatusCode && !strings.Contains(c.path, "*") || head.Header.Get("Last-Modified") != resp.Header.Get("Last-Modified") {
			t.Errorf("HEAD %s: %s, %v", c.path, head.Status, head.Header)
		}
	}
	resp, _ := w.ask("GET", s.url+"/hello.txt")
	modified, err := http.ParseTime(resp.Header.Get("Last-Modified"))
	if err != nil || time.Since(modified).Abs() > time.Hour {
		t.Errorf("Last-Modified: %q", resp.Header.Get("Last-Modified"))
	}
	if resp, _ := w.ask("GET", s.url+"/pub"); resp.Header.Get("Location") != "/pub/" {
		t.Errorf("a directory without a final slash redirects to %q", resp.Header.Get("Location"))
	}
	// A login is never passed on.
	if body, err := w.curl(strings.Replace(s.url, "://", "://member:sesame@", 1) + "/hello.txt"); err != nil || body != "hello\n" {
		t.Errorf("curl with a login: %q, %v", body, err)
	}
	if said := s.said(); strings.Contains(said, "member") || !strings.Contains(said, "USER anonymous") {
		t.Errorf("the server logged these commands:\n%s", said)
	}

	for _, path := range []string{"/private/secret.txt", "/private", "/private/", "/pub/../private/secret.txt", "/%70rivate/secret.txt", "/private/secret.txt;type=i"} {
		if resp, body := w.ask("GET", s.url+path); shape(resp) != "403 http_request_denied" || !strings.Contains(body, s.url+"/robots.txt") {
			t.Errorf("%s: %s %s", path, shape(resp), body)
		}
	}
	if body, _ := w.curl(s.url + "/private/secret.txt"); !strings.Contains(body, "Disallow: /private") {
		t.Errorf("curl gets %q", body)
	}
	for line := range strings.Lines(s.said()) {
		if strings.Contains(line, "private") {
			t.Errorf("the server got the command %s", line)
		}
	}
	w.log.WaitLine(t, nil, `"message":"request"`, `"url":"`+s.url+`/private/secret.txt"`, `"verdict":"disallowed"`)
}

func TestFTPWithoutRobotsTxt(t *testing.T) {
	s := newFTPServer(t)
	s.put("private", "free")
	w := newWorld(t)
	if resp, body := w.ask("GET", s.url+"/private"); shape(resp) != "200 " || body != "free" {
		t.Errorf("%s %q", shape(resp), body)
	}
	w.log.WaitLine(t, nil, `"message":"request"`, `"reason":"unavailable"`)
}

// The proxy sends no path that an FTP server might read in another way than robots.txt
// does, and no method that FTP has no command for.
func TestRequestsThatNoFTPServerGets(t *testing.T) {
	s := newFTPServer(t)
	s.put("private/secret.txt", "secret")
	s.put("robots.txt", someDisallowed)
	w := newWorld(t)
	for _, path := range []string{
		"/a%0D%0ADELE%20b", "/a%0Ab", "/a%00", "/%2Fprivate/secret.txt", "/x%2F..%2Fprivate%2Fsecret.txt", "/x/..%2fprivate/secret.txt",
		"//private/secret.txt", "/pub//private", "/x%5C..%5Cprivate/secret.txt", `/x\private`, "/pri%FF%F1vate/secret.txt", "/%7Fprivate",
		"/private%20", "/private%20/secret.txt", "/file?query", "/file?", "?", "/file;type=a", "/pub;type=d", "/file;TYPE=I;type=i", "/100%", "/%zz",
	} {
		if resp, body := w.ask("GET", s.url+path); resp.StatusCode != 400 || strings.Contains(body, "secret\n") {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "PROPFIND", "PATCH"} {
		if resp, _ := w.ask(method, s.url+"/file"); shape(resp) != "405 http_request_error" || resp.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %s, Allow %q", method, shape(resp), resp.Header.Get("Allow"))
		}
	}
	if said := s.said(); said != "" {
		t.Errorf("the server got these commands:\n%s", said)
	}
}

// A large file arrives whole, and takes constant memory on the way.
func TestFTPStreams(t *testing.T) {
	s := newFTPServer(t)
	const size = 256 << 20
	s.put("big", "")
	must(t, os.Truncate(filepath.Join(s.root, "big"), size))
	must(t, exec.Command("sh", "-c", `printf end | dd of="$0" conv=notrunc bs=1 seek=`+strconv.Itoa(size-3)+` 2>/dev/null`, filepath.Join(s.root, "big")).Run())
	w := newWorld(t)
	w.ask("GET", s.url+"/robots.txt")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out := filepath.Join(t.TempDir(), "out")
	if _, err := w.curl("-o", out, s.url+"/big"); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > size/16 {
		t.Errorf("%d MiB were allocated to transfer %d MiB", used>>20, size>>20)
	}
	if got, want := sum(t, out), sum(t, filepath.Join(s.root, "big")); got != want {
		t.Error("the file was altered in transfer")
	}
}

func sum(t *testing.T, file string) string {
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	must(t, err)
	return hex.EncodeToString(h.Sum(nil))
}

// When a client leaves, its control connection is closed: a server with room for one
// client then serves the next.
func TestFTPEndsWithItsClient(t *testing.T) {
	s := newFTPServer(t, "max_clients=1")
	s.put("big", "")
	must(t, os.Truncate(filepath.Join(s.root, "big"), 1<<30))
	s.put("small", "small")
	all := &policy.Policy{Outcome: policy.Unavailable, AllowAll: true}
	w := newWorld(t, func(set *settings) {
		set.policies = gate.OnePolicy(all)
	})
	const pause = 100 * time.Millisecond // the server counts those that it turns away until they have gone
	until := func(status int) {
		t.Helper()
		for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); time.Sleep(pause) {
			resp, _ := w.ask("GET", s.url+"/small")
			if resp.StatusCode == status {
				return
			}
		}
		t.Errorf("the server never answered %d", status)
	}
	until(200)
	var c *rawConn
	for status := 0; status != 200; { // the server may not have seen the last one go
		c = w.dial()
		c.send("GET " + s.url + "/big HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(c.r, nil)
		must(t, err)
		if status = resp.StatusCode; status != 200 {
			c.Close()
			time.Sleep(pause)
		}
	}
	_, err := io.CopyN(io.Discard, c.r, 1<<20)
	must(t, err)
	until(503)
	c.Close()
	until(200)
}

func TestFTPServerThatIsDown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	down := "ftp://" + l.Addr().String()
	l.Close()
	w := newWorld(t)
	resp, body := w.ask("GET", down+"/file")
	if shape(resp) != "403 http_request_denied" || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, "refused") {
		t.Errorf("%s, Retry-After %q: %s", shape(resp), resp.Header.Get("Retry-After"), body)
	}
	if resp, _ := w.ask("GET", down+"/robots.txt"); shape(resp) != "502 connection_refused" {
		t.Errorf("its robots.txt: %s", shape(resp))
	}
}

// script is an FTP server whose replies a test chooses. A command without a reply of its
// own succeeds.
type script struct {
	replies map[string]string // by verb; "" for the greeting; "-" for none
	file    string            // for every RETR and LIST
	control atomic.Int64      // connections that are open

	password atomic.Value // the last
}

func (s *script) start(t *testing.T) (url string) {
	return "ftp://" + conntest.Serve(t, "127.0.0.1:0", func(conn net.Conn) {
		s.control.Add(1)
		defer s.control.Add(-1)
		s.serve(conn)
	})
}

func (s *script) serve(conn net.Conn) {
	data, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return
	}
	defer data.Close()
	port := data.Addr().(*net.TCPAddr).Port
	reply := func(verb, usual string) {
		if other, given := s.replies[verb]; given {
			usual = other
		}
		if usual != "-" {
			usual = strings.NewReplacer("HIGH", strconv.Itoa(port/256), "LOW", strconv.Itoa(port%256)).Replace(usual)
			io.WriteString(conn, usual+"\r\n")
		}
	}
	reply("", "220 ready")
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		verb, arg, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "USER":
			reply(verb, "331 password")
		case "PASS":
			s.password.Store(arg)
			reply(verb, "230 welcome")
		case "TYPE":
			reply(verb, "200 so be it")
		case "PWD":
			reply(verb, `257 "/"`)
		case "CWD":
			reply(verb, "250 there")
		case "SIZE":
			reply(verb, "213 "+strconv.Itoa(len(s.file)))
		case "EPSV":
			reply(verb, fmt.Sprintf("229 here (|||%d|)", port))
		case "PASV":
			reply(verb, "227 here (127,0,0,1,HIGH,LOW)")
		case "RETR", "LIST":
			if arg == "/robots.txt" {
				io.WriteString(conn, "550 none\r\n")
				continue
			}
			reply(verb, "150 it comes")
			if s.replies[verb] == "-" {
				continue
			}
			if d, err := data.Accept(); err == nil {
				io.WriteString(d, s.file)
				d.Close()
			}
			reply("end", "226 done")
		case "QUIT":
			return
		default:
			reply(verb, "502 not here")
		}
	}
}

// Whatever the server replies, the client gets the whole file or none of it.
func TestFTPServersThatMisbehave(t *testing.T) {
	file := strings.Repeat("text ", 1000)
	endless := strings.Repeat("230-and welcome\r\n", 1<<16) + "230 now"
	for name, c := range map[string]struct {
		replies map[string]string
		file    string
		path    string // else /file
		want    string // shape, and what is cut
	}{
		"well":                         {file: file, want: "200 "},
		"no size":                      {file: file, replies: map[string]string{"SIZE": "500 what?"}, want: "200 "},
		"no size, ends by 250":         {file: file, replies: map[string]string{"SIZE": "500 what?", "end": "250 done"}, want: "200 "},
		"shorter than stated":          {file: file, replies: map[string]string{"SIZE": "213 6000"}, want: "200  cut"},
		"longer than stated":           {file: file, replies: map[string]string{"SIZE": "213 4999"}, want: "200 "},
		"broken off":                   {file: file, replies: map[string]string{"SIZE": "500 what?", "end": "426 broken off"}, want: "200  cut"},
		"end not confirmed":            {file: file, replies: map[string]string{"SIZE": "500 what?", "end": "-"}, want: "200  cut"},
		"size is none":                 {file: file, replies: map[string]string{"SIZE": "213 -5"}, want: "200 "},
		"passive mode without EPSV":    {file: file, replies: map[string]string{"EPSV": "500 what?"}, want: "200 "},
		"leads elsewhere":              {file: file, replies: map[string]string{"EPSV": "500 what?", "PASV": "227 there (169,254,1,1,HIGH,LOW)"}, want: "200 "},
		"leads to no port":             {replies: map[string]string{"EPSV": "229 there (|||70000|)"}, want: "502 http_response_incomplete"},
		"leads to nowhere":             {replies: map[string]string{"EPSV": "229 there (|||1|)"}, want: "502 connection_refused"},
		"no FTP":                       {replies: map[string]string{"": "HTTP/1.1 400 Bad Request"}, want: "502 http_protocol_error"},
		"silent":                       {replies: map[string]string{"": "-"}, want: "504 http_response_timeout"},
		"silent later":                 {replies: map[string]string{"RETR": "-"}, want: "504 http_response_timeout"},
		"endless":                      {replies: map[string]string{"PASS": endless}, want: "502 http_response_incomplete"},
		"malformed, to PWD":            {replies: map[string]string{"PWD": `257 "`}, want: "502 http_protocol_error"},
		"malformed, to PASV":           {replies: map[string]string{"EPSV": "500 what?", "PASV": "227 x )("}, want: "502 http_protocol_error"},
		"full":                         {replies: map[string]string{"": "421 too many"}, want: "503 "},
		"lets nobody in":               {replies: map[string]string{"USER": "530 members only"}, want: "503 "},
		"refuses the password":         {replies: map[string]string{"PASS": "550 members only"}, want: "503 "},
		"busy":                         {replies: map[string]string{"RETR": "450 busy"}, want: "503 "},
		"has it not":                   {replies: map[string]string{"RETR": "550 none", "CWD": "550 none"}, want: "404 "},
		"can't":                        {replies: map[string]string{"RETR": "502 no"}, want: "502 "},
		"a list in an unknown form":    {path: "/dir/", file: "total 1\r\n", want: "200 "},
		"a list with names above":      {path: "/dir/", file: "drwxr-xr-x 2 0 0 4096 Jan 1 12:22 ..\r\n-rw-r--r-- 1 0 0 1 Jan 1 12:22 /etc/passwd\r\n", want: "200 "},
		"a list that is broken off":    {path: "/dir/", replies: map[string]string{"end": "426 broken off"}, want: "503 "},
		"a list that is never to end":  {path: "/dir/", replies: map[string]string{"end": "-"}, want: "504 http_response_timeout"},
		"a list of too many names":     {path: "/dir/", file: strings.Repeat("-rw-r--r-- 1 0 0 1 Jan 1 12:22 x\r\n", 128<<10+1000), want: "502 http_response_incomplete"},
		"a list that is one long line": {path: "/dir/", file: strings.Repeat("x", 1<<20), want: "502 http_response_incomplete"},
		"a list that is much too long": {path: "/dir/", file: strings.Repeat("-rw-r--r-- 1 0 0 1 Jan 1 12:22 "+strings.Repeat("name", 1<<10)+"\r\n", 1<<12+1), want: "502 http_response_incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{replies: c.replies, file: c.file}
			w := newWorld(t, exempt, func(set *settings) {
				for _, reply := range c.replies {
					if reply == "-" {
						set.upstream.ResponseHeaderTimeout = 300 * time.Millisecond
					}
				}
			})
			path := c.path
			if path == "" {
				path = "/file"
			}
			conn := w.dial()
			conn.send("GET " + s.start(t) + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			resp, err := http.ReadResponse(conn.r, nil)
			must(t, err)
			body, err := io.ReadAll(resp.Body)
			got := shape(resp)
			if err != nil {
				got += " cut"
			}
			if got != c.want {
				t.Errorf("%s, want %s; %.200s", got, c.want, body)
			}
			if got == "200 " && path == "/file" && !strings.HasPrefix(file, string(body)) || path != "/file" && resp.StatusCode == 200 && len(body) > 0 {
				t.Errorf("the client got %.100q", body)
			}
			for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
				if s.control.Load() == 0 {
					return
				}
			}
			t.Error("the control connection was left open")
		})
	}
}

// A server's reply reaches the client as text of bounded length.
func TestFTPReplyIsSafeToShow(t *testing.T) {
	s := &script{replies: map[string]string{"USER": "530-\x1b[2Jmembers\r\n530 \u202eonly " + strings.Repeat("x", 10_000)}}
	w := newWorld(t, exempt)
	resp, body := w.ask("GET", s.start(t)+"/file")
	if resp.StatusCode != 503 || !strings.HasPrefix(body, "the FTP server says: 530 \\x1b[2Jmembers\n\\u202eonly xx") || len(body) > 2000 {
		t.Errorf("%s: %d octets: %.100q", resp.Status, len(body), body)
	}
}

// The From field becomes the password of the anonymous login only if it is a valid one.
func TestFTPPassword(t *testing.T) {
	for from, want := range map[string]string{
		"":                                  "anonymous@",
		"bot@example.org":                   "bot@example.org",
		"The Bot <bot@example.org>":         "The Bot <bot@example.org>",
		"bot@example.org\xff\xf4":           "anonymous@", // a Telnet command: interrupt
		"bot\t@example.org":                 "anonymous@",
		"b\u00f6t@example.org":              "anonymous@",
		strings.Repeat("b", 300) + "@x.org": "anonymous@",
	} {
		s := &script{}
		w := newWorld(t, exempt)
		c := w.dial()
		c.send("GET " + s.start(t) + "/file HTTP/1.1\r\nHost: x\r\nFrom: " + from + "\r\nConnection: close\r\n\r\n")
		if resp, _ := c.response("GET"); resp.StatusCode != 200 {
			t.Errorf("From %q: %s", from, resp.Status)
		}
		if got, _ := s.password.Load().(string); got != want {
			t.Errorf("From %q: the password is %q, want %q", from, got, want)
		}
	}
}

// A server that refuses the login may be full. That does not mean that it has no robots.txt.
func TestFTPLoginRefusedIsUnreachable(t *testing.T) {
	s := &script{replies: map[string]string{"PASS": "530 too many users"}}
	url := s.start(t)
	w := newWorld(t)
	if resp, _ := w.ask("GET", url+"/file"); shape(resp) != "403 http_request_denied" || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a file: %s", shape(resp))
	}
	if resp, body := w.ask("GET", url+"/robots.txt"); shape(resp) != "503 " || !strings.Contains(body, "530 too many users") {
		t.Errorf("robots.txt itself: %s %s", shape(resp), body)
	}
}

// A reply that the library cannot parse fails one request, at whichever step it comes,
// and is logged.
func TestMalformedFTPReplies(t *testing.T) {
	url := (&script{replies: map[string]string{"PWD": `257 "`}}).start(t)
	w := newWorld(t)
	if resp, _ := w.ask("GET", url+"/robots.txt"); shape(resp) != "502 http_protocol_error" {
		t.Errorf("robots.txt itself: %s", shape(resp))
	}
	w.log.WaitLine(t, nil, `"message":"request"`, "malformed FTP reply")
	if resp, body := w.ask("GET", url+"/file"); shape(resp) != "403 http_request_denied" || !strings.Contains(body, "malformed FTP reply") {
		t.Errorf("a file: %s %s", shape(resp), body)
	}
}

// FuzzFTPServer has a server send arbitrary octets, a piece after each command. The request
// must end with either a response or an error, and leave no connection open.
func FuzzFTPServer(f *testing.F) {
	const login = "220 ready\n%331 password\n%230 welcome\n%500 no FEAT\n%200 type\n%257 \"/\"\n%"
	for _, replies := range []string{
		"", "220", "%%", login,
		login + "213 4\n%229 (|||PORT|)\n%150 comes\n226 done\n",
		login + "550 no size\n%229 (|||PORT|)\n%150 comes\n226 done\n",
		login + "250 there\n%500 no\n%227 x (1,2,3,4,HIGH,LOW)\n%150 comes\n226 done\n",
		login + "213 4\n%500 no\n%227 x )(\n", login + "213 4\n%229 |||\n", login + "213 4\n%500 no\n%227 ()\n",
		"220 ready\n%331 password\n%230 welcome\n%211-features\n MDTM\n MLST\n PRET\n UTF8\n211 end\n%200 type\n%202 always\n%257 \"\n",
		"220-" + strings.Repeat("x", 1<<10), "999 \n", "100 \n", "220 ready\n%230 in\n%211-\n\n211 \n%200\n",
	} {
		f.Add(replies, "text", false)
		f.Add(replies, "drwxr-xr-x 2 0 0 4096 Jan 1 12:22 ..\r\n-rw-r--r-- 1 0 0 1 Jan 1 12:22 name\r\n", true)
		f.Add(replies, "Type=file;Size=1; name\n;  \n= ;\n01-02-06  03:04PM <DIR> x\n", true)
	}
	opts := upstream.Defaults()
	opts.ResponseHeaderTimeout = 20 * time.Millisecond // for a server that waits for a command while its reply lacks an end
	transport, err := upstream.NewTransport(opts)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, replies, data string, list bool) {
		s := newSayer(t, replies, data)
		path := "/file"
		if list {
			path = "/list/"
		}
		r, err := http.NewRequestWithContext(loopback.With(t.Context(), loopback.Here), http.MethodGet, "ftp://"+s.control.Addr().String()+path, nil)
		must(t, err)
		resp, err := transport.RoundTrip(r)
		if (resp == nil) == (err == nil) {
			t.Fatalf("want either a response or an error, got %v and %v", resp, err)
		}
		if err == nil {
			n, err := io.Copy(io.Discard, resp.Body)
			if err == nil && resp.ContentLength >= 0 && n != resp.ContentLength {
				t.Errorf("got %d octets, want %d", n, resp.ContentLength)
			}
			must(t, resp.Body.Close())
		}
		s.left(t)
	})
}

// sayer is an FTP server for one client. It sends a piece of one text after each command,
// and another text on its data connections.
type sayer struct {
	control, data net.Listener
	ended         sync.WaitGroup // when the client has closed what it opened
}

func newSayer(t *testing.T, replies, data string) *sayer {
	s := &sayer{}
	for _, l := range []*net.Listener{&s.control, &s.data} {
		var err error
		*l, err = net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
	}
	port := s.data.Addr().(*net.TCPAddr).Port
	replies = strings.NewReplacer("PORT", strconv.Itoa(port), "HIGH", strconv.Itoa(port/256), "LOW", strconv.Itoa(port%256)).Replace(replies)
	s.ended.Go(func() {
		conn, err := s.control.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		lines := bufio.NewScanner(conn)
		for piece := range strings.SplitSeq(replies, "%") {
			io.WriteString(conn, piece)
			if !lines.Scan() {
				return
			}
		}
	})
	s.ended.Go(func() {
		for {
			conn, err := s.data.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, data)
			conn.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, conn)
			conn.Close()
		}
	})
	return s
}

// left waits until the client has closed all its connections.
func (s *sayer) left(t *testing.T) {
	t.Helper()
	s.control.Close()
	s.data.Close()
	left := make(chan struct{})
	go func() { s.ended.Wait(); close(left) }()
	select {
	case <-left:
	case <-time.After(testTimeout):
		t.Fatal("a connection was left open")
	}
}

func TestFTPDestinations(t *testing.T) {
	var transport *upstream.Transport
	w := newWorld(t, func(s *settings) { s.onTransport = func(tr *upstream.Transport) { transport = tr } })
	own, err := net.ResolveTCPAddr("tcp", w.addr)
	must(t, err)
	transport.SetOwnAddresses(own)
	if resp, _ := w.ask("GET", "ftp://"+w.addr+"/file"); shape(resp) != "502 proxy_loop_detected" {
		t.Errorf("to the proxy itself: %s", shape(resp))
	}
	s := &script{replies: map[string]string{"EPSV": fmt.Sprintf("229 there (|||%d|)", own.Port)}}
	if resp, _ := w.ask("GET", s.start(t)+"/robots.txt"); shape(resp) != "502 proxy_loop_detected" {
		t.Errorf("redirected to the proxy itself: %s", shape(resp))
	}
	w = newWorld(t, func(s *settings) { s.upstream.Deny = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	for _, path := range []string{"/file", "/robots.txt"} {
		if resp, _ := w.ask("GET", s.start(t)+path); shape(resp) != "502 destination_ip_prohibited" {
			t.Errorf("denied, %s: %s", path, shape(resp))
		}
	}
	if resp, _ := w.ask("GET", "ftp://no.such.host.invalid/robots.txt"); shape(resp) != "502 dns_error" {
		t.Errorf("no such host: %s", shape(resp))
	}
}

// A parent proxy for HTTP gets ftp URLs in absolute form. One for SOCKS gets none.
func TestFTPByParents(t *testing.T) {
	asked := make(chan string, 10)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.RequestURI
		if strings.HasSuffix(r.RequestURI, "/robots.txt") {
			io.WriteString(w, someDisallowed)
		}
	})}
	go server.Serve(l)
	defer server.Close()
	for _, c := range []struct {
		parent, path, want string
		asked              []string
	}{
		{"http", "/file%20name", "200 ", []string{"/robots.txt", "/file%20name"}},
		{"http", "/private", "403 http_request_denied", []string{"/robots.txt"}},
		{"socks5", "/file", "502 http_response_incomplete", nil},
		{"socks5", "/robots.txt", "502 http_response_incomplete", nil},
	} {
		w := newWorld(t, func(s *settings) {
			s.upstream.Proxy = (&url.URL{Scheme: c.parent, Host: l.Addr().String()}).String()
		})
		resp, body := w.ask("GET", "ftp://ftp.example:2121"+c.path)
		if shape(resp) != c.want || c.parent == "socks5" && !strings.Contains(body, "SOCKS5") {
			t.Errorf("%s, %s: %s %s", c.parent, c.path, shape(resp), body)
		}
		for _, path := range c.asked {
			if got := <-asked; got != "ftp://ftp.example:2121"+path {
				t.Errorf("the parent was asked for %s", got)
			}
		}
		if len(asked) > 0 {
			t.Errorf("the parent was also asked for %s", <-asked)
		}
	}
}
