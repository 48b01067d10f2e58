//go:build unix

// Package redistest starts Redis servers for tests, and breaks them.
package redistest

import (
	"bufio"
	"context"
	"net"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"robotsproxy/internal/redisclient"
)

// A Server is a redis-server that one test has for itself.
type Server struct {
	Address string // host:port

	t       testing.TB
	args    []string
	ready   string // what it writes when it is
	command *exec.Cmd
}

// Start starts a server on a free port, which ends with the test. It skips the test where
// redis-server is not installed. Further args are redis-server's own; PORT in them stands
// for the port, and by default they are --port PORT. With --appendonly yes, what the server
// knows outlives Kill.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	if !slices.Contains(args, "--port") {
		args = append(args, "--port", "PORT")
	}
	// Redis says "Ready" of a port and "ready" of a socket.
	args = append(args, append([]string{"--user", user, "on", ">" + user}, Rights(t)...)...)
	return startReady(t, "eady to accept connections", append([]string{"--save", "", "--appendonly", "no"}, args...)...)
}

// startReady starts a server that writes something when it is ready.
func startReady(t testing.TB, ready string, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("this machine has no redis-server; install Debian's package redis-server")
	}
	s := &Server{t: t, ready: ready, args: append(args, "--bind", "127.0.0.1", "--dir", t.TempDir())}
	t.Cleanup(s.Kill)
	for range 5 { // another program may take the port meanwhile
		s.Address = net.JoinHostPort("127.0.0.1", freePort(t))
		if s.start() {
			return s
		}
	}
	t.Fatal("redis-server does not start")
	return nil
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// Restart starts a server again, at the same address, after Kill. Without --appendonly yes, it
// has forgotten everything.
func (s *Server) Restart() {
	s.t.Helper()
	if !s.start() {
		s.t.Fatal("redis-server does not start again")
	}
}

// start returns true when the server is ready, or false when it has ended.
func (s *Server) start() bool {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(s.Address)
	args := slices.Clone(s.args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "PORT", port)
	}
	s.command = exec.Command("redis-server", args...)
	out, err := s.command.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		s.t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), s.ready) {
			return true
		}
	}
	s.command.Wait()
	return false
}

// Kill ends the server at once, even a paused one.
func (s *Server) Kill() {
	if s.command != nil && s.command.ProcessState == nil {
		s.command.Process.Kill()
		s.command.Wait()
	}
}

// Pause stops the server until Continue, and returns when it has stopped. Its connections
// stay open, and nothing is answered.
func (s *Server) Pause() {
	s.command.Process.Signal(syscall.SIGSTOP)
	for {
		_, err := syscall.Wait4(s.command.Process.Pid, nil, syscall.WUNTRACED, nil)
		if err != syscall.EINTR {
			return
		}
	}
}

// Continue ends a Pause.
func (s *Server) Continue() { s.command.Process.Signal(syscall.SIGCONT) }

// Flush has the server forget everything.
func (s *Server) Flush() {
	s.t.Helper()
	if err := s.Inspect().FlushAll(context.Background()).Err(); err != nil {
		s.t.Fatal(err)
	}
}

// user is the name and the password of a user on each server, who has the [Rights] alone.
const user = "robotsproxy"

// URL is the server's address for a configuration, with a user who may do no more than docs/deploy.md
// says is needed.
func (s *Server) URL() string { return "redis://" + user + ":" + user + "@" + s.Address + "/0" }

// Client opens a client of the server as the program uses it, but with more time for slow
// machines. It is closed at the end of the test.
func (s *Server) Client() *redisclient.Client {
	s.t.Helper()
	return Open(s.t, redisclient.Options{URL: s.URL()})
}

// Open opens a client as the program uses it, but with more time for slow machines. It is
// closed at the end of the test.
func Open(t testing.TB, opts redisclient.Options) *redisclient.Client {
	t.Helper()
	c, err := redisclient.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	c.Timeout = 3 * time.Second
	t.Cleanup(func() { c.Close() })
	return c
}

// Inspect opens a plain client, by which the test itself looks at the keys or changes
// them. It is closed at the end of the test.
func (s *Server) Inspect() *redis.Client {
	r := redis.NewClient(&redis.Options{Addr: s.Address, DisableIdentity: true})
	s.t.Cleanup(func() { r.Close() })
	return r
}
