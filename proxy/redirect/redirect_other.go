//go:build !linux

package redirect

import "errors"

var errUnsupported = &Error{
	Step: "redirecting connections", Err: errors.ErrUnsupported,
	Next: "only Linux can do it; elsewhere, point the clients at the proxy (robotsproxy env)",
}

// Install fails: this system can't do it.
func Install(Rules) error { return errUnsupported }

// Remove fails: this system can't do it.
func Remove() error { return errUnsupported }

// Installed fails: this system can't do it.
func Installed() (Status, error) { return Status{}, errUnsupported }
