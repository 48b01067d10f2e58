package cli

import (
	"errors"
	"syscall"
	"testing"

	"robotsproxy/proxy/seal"
)

// Ctrl-C ends a run quietly while its command is being sealed. Any other end is a failure.
func TestNotSealed(t *testing.T) {
	for _, c := range []struct {
		err     error
		code    int
		isError bool
	}{
		{seal.Signaled(syscall.SIGINT), 130, false},
		{seal.Signaled(syscall.SIGSEGV), 125, true},
		{errors.New("ended with exit status 1"), 125, true},
	} {
		code, err := notSealed(&seal.Error{Step: "starting", Err: c.err})
		if code != c.code || (err != nil) != c.isError {
			t.Errorf("%v: exit code %d, %v", c.err, code, err)
		}
	}
}
