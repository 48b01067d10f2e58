package shortage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
)

func TestWhoseFaultItIs(t *testing.T) {
	dial := func(call string, errno syscall.Errno) error {
		return fmt.Errorf("asking: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError(call, errno)})
	}
	for _, test := range []struct {
		err      error
		machines bool
	}{
		{dial("socket", syscall.EMFILE), true},
		{dial("socket", syscall.ENFILE), true},
		{dial("socket", syscall.ENOBUFS), true},
		{dial("socket", syscall.ENOMEM), true},
		{dial("connect", syscall.EADDRNOTAVAIL), true},
		{dial("connect", syscall.ENETUNREACH), true},
		{dial("connect", syscall.ENETDOWN), true},
		{fmt.Errorf("dialling: %w", ErrConnections), true},
		{dial("connect", syscall.EHOSTUNREACH), false},
		{dial("connect", syscall.ECONNREFUSED), false},
		{dial("connect", syscall.ETIMEDOUT), false},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, false},
		{&net.DNSError{Err: "server misbehaving"}, false},
		{&net.DNSError{Err: "read udp 127.0.0.1:53: i/o timeout", IsTimeout: true}, false},
		{context.DeadlineExceeded, false},
		{io.ErrUnexpectedEOF, false},
		{errors.New("an origin's own words: too many open files"), false},
		{nil, false},
	} {
		if got := Is(test.err); got != test.machines {
			t.Errorf("%v: %v", test.err, got)
		}
	}
}

// A resolver's failure has lost its errno.
func TestShortageOfAResolver(t *testing.T) {
	for errno, machines := range map[syscall.Errno]bool{syscall.EMFILE: true, syscall.ENETUNREACH: true, syscall.ECONNREFUSED: false} {
		resolver := net.Resolver{PreferGo: true, Dial: func(_ context.Context, network, _ string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("socket", errno)}
		}}
		_, err := resolver.LookupHost(t.Context(), "example.com")
		if err == nil || Is(err) != machines {
			t.Errorf("%v: %v", err, Is(err))
		}
	}
}
