//go:build !linux

package seal

import (
	"context"
	"errors"
	"os/exec"
)

// Main does nothing: this system can't seal a command.
func Main() {}

// Likely returns false: this system can't seal a command.
func Likely() bool { return false }

// Start fails: this system can't seal a command.
func Start(context.Context, *exec.Cmd, Options) (*Network, error) {
	return nil, &Error{Step: "making the namespaces", Err: errors.ErrUnsupported, Obstacle: UnsupportedSystem}
}
