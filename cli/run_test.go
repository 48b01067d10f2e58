package cli

import (
	"errors"
	"syscall"
	"testing"

	"robotsproxy/proxy/seal"
)

// Ctrl-C ends a run quietly while its command is being sealed. Anything else that ends it then
// is a failure.
func TestExitCodeOfACommandThatWasNotSealed(t *testing.T) {
	for _, c := range []struct {
		err     error
		code    int
		isError bool
	}{
		{seal.Signaled(syscall.SIGINT), 130, false},
		{seal.Signaled(syscall.SIGSEGV), 125, true},
		{errors.New("ended with exit status 1"), 125, true},
	} {
		ending, err := notSealed(&seal.Error{Step: "starting", Err: c.err})
		if ending.Code != c.code || (err != nil) != c.isError {
			t.Errorf("%v: got exit code %d and error %v, want %d and an error: %t", c.err, ending.Code, err, c.code, c.isError)
		}
	}
}
