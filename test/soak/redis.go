package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A redis is the server in which one of the proxies keeps its policies and turns. It listens
// on a Unix socket, and has forgotten everything when it is started again.
type redis struct {
	folder string
	cmd    *exec.Cmd
}

func (r *redis) socket() string { return filepath.Join(r.folder, "redis.sock") }

func (r *redis) start() error {
	r.cmd = exec.Command("redis-server", "--port", "0", "--unixsocket", r.socket(), "--unixsocketperm", "777",
		"--save", "", "--appendonly", "no", "--dir", r.folder)
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		return fmt.Errorf("starting Redis: %w", err)
	}
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("unix", r.socket())
		if err == nil {
			conn.Close()
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting for Redis: %w", err)
		}
	}
}

// clients returns how many connections the server has, of which one is this question's.
func (r *redis) clients() (int, error) {
	conn, err := net.Dial("unix", r.socket())
	if err != nil {
		return 0, fmt.Errorf("asking Redis for its clients: %w", err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(startTimeout))
	fmt.Fprint(conn, "INFO clients\r\n")
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if n, found := strings.CutPrefix(lines.Text(), "connected_clients:"); found {
			return strconv.Atoi(n)
		}
	}
	return 0, errors.New("asking Redis for its clients: it does not say")
}

func (r *redis) kill() {
	if r.cmd != nil && r.cmd.Process != nil {
		r.cmd.Process.Kill()
		r.cmd.Wait()
	}
}
