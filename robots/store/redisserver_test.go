//go:build unix

package store

import (
	"bufio"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// RedisServer is a redis-server of a test's own.
type RedisServer struct {
	Address string

	t       testing.TB
	args    []string
	command *exec.Cmd
}

// StartRedis starts a server on a free port, or skips the test if there is
// none on this machine. More arguments are Redis' own; PORT in them is the port.
func StartRedis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("this machine has no redis-server; install Debian's package redis-server")
	}
	if len(args) == 0 {
		args = []string{"--port", "PORT"}
	}
	s := &RedisServer{t: t, args: append(args, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())}
	t.Cleanup(s.Kill)
	for range 5 { // another program may take the port meanwhile
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.Address = l.Addr().String()
		l.Close()
		if s.start() {
			return s
		}
	}
	t.Fatal("redis-server does not start")
	return nil
}

// Restart starts a server that was killed again, at the same address.
func (s *RedisServer) Restart() {
	s.t.Helper()
	if !s.start() {
		s.t.Fatal("redis-server does not start again")
	}
}

// start returns when the server serves, or when it has ended.
func (s *RedisServer) start() bool {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(s.Address)
	args := strings.Split(strings.ReplaceAll(strings.Join(s.args, "\n"), "PORT", port), "\n")
	s.command = exec.Command("redis-server", args...)
	out, err := s.command.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		s.t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			return true
		}
	}
	s.command.Wait()
	return false
}

// Kill ends the server at once, also one that is paused.
func (s *RedisServer) Kill() {
	if s.command != nil && s.command.ProcessState == nil {
		s.command.Process.Kill()
		s.command.Wait()
	}
}

// Pause stops the server without an end of its connections, until Continue.
func (s *RedisServer) Pause()    { s.command.Process.Signal(syscall.SIGSTOP) }
func (s *RedisServer) Continue() { s.command.Process.Signal(syscall.SIGCONT) }

// Flush has it forget everything.
func (s *RedisServer) Flush() {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.Address)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "FLUSHALL\r\n"); err != nil {
		s.t.Fatal(err)
	}
	if reply, err := bufio.NewReader(conn).ReadString('\n'); reply != "+OK\r\n" {
		s.t.Fatalf("FLUSHALL: %q, %v", reply, err)
	}
}

// URL is its address for a configuration.
func (s *RedisServer) URL() string { return "redis://" + s.Address + "/0" }
