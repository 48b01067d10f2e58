package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A network is where the origins are.
type network struct {
	// own says that the run has a network and mounts of its own, which only root can have. Then
	// connections can be led to the transparent door, commands be sealed and disks be filled.
	own bool
}

// ownVariable tells a process that it is in a network of its own.
const ownVariable = "SOAK_OWN_NETWORK"

// The users of a run in a network of its own. Connections of all but these are led to the
// transparent door.
const (
	proxyUser  = 4001
	sealedUser = 4002
)

// enterNetwork runs this program once more in a network of its own, and returns its exit code.
// It returns false where this process is to go on.
func enterNetwork() (code int, entered bool) {
	if os.Getenv(ownVariable) != "" || os.Getuid() != 0 {
		return 0, false
	}
	self, err := os.Executable()
	if err != nil {
		return 0, false
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), ownVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, false // not allowed here: the run goes on without
	}
	go func() {
		for s := range signals {
			if s != os.Interrupt { // which a terminal sends to both
				cmd.Process.Signal(s)
			}
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, true
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return exit.ExitCode(), true
	}
	fmt.Fprintln(os.Stderr, "soak:", err)
	return 1, true
}

// openNetwork sets up the network that enterNetwork has made; without one, the origins are on
// the machine's loopback.
func openNetwork() (network, error) {
	if os.Getenv(ownVariable) == "" {
		return network{}, nil
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return network{}, fmt.Errorf("keeping mounts from others: %w", err)
	}
	for _, command := range []string{"link set lo up", "addr add 192.0.2.1/24 dev lo"} {
		if output, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			return network{}, fmt.Errorf("ip %s (of Debian's package iproute2): %w: %s", command, err, output)
		}
	}
	return network{own: true}, nil
}

// address is that of an origin. An own network has the default ports, and addresses that are
// not loopback ones, which are never led to the transparent door. Elsewhere it is any that is
// free.
func (n network) address(number int, secure bool) string {
	switch host := fmt.Sprintf("192.0.2.%d:", number+10); {
	case !n.own:
		return "127.0.0.1:0"
	case secure:
		return host + "443"
	default:
		return host + "80"
	}
}

// freeAddress is one of loopback on which nobody listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
