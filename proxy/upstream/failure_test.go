package upstream

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"robotsproxy/internal/loopback"
	"robotsproxy/internal/shortage"
)

// What this proxy must not dial, and what its machine lacks, is not the origin's fault.
func TestIsOriginsFault(t *testing.T) {
	dial := func(err error) error { return fmt.Errorf("asking: %w", &net.OpError{Op: "dial", Err: err}) }
	for err, want := range map[error]bool{
		dial(syscall.ECONNREFUSED):          true,
		dial(syscall.EHOSTUNREACH):          true,
		dial(&net.DNSError{Err: "no host"}): true,
		errors.New("unexpected EOF"):        true,
		dial(errDenied):                     false,
		errors.New("http2: request header list larger than peer's advertised limit"): false,
		dial(errUnspecified):          false,
		dial(errOwn):                  false,
		dial(loopback.ErrElsewhere):   false,
		dial(shortage.ErrConnections): false,
		dial(syscall.ENETUNREACH):     false,
	} {
		if got := IsOriginsFault(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
