//go:build !unix

package dbfile

import "context"

// lock does nothing: these systems do not let a file be renamed that another
// process has open, which is what the lock is there to prevent.
func lock(context.Context, string) (unlock func(), err error) { return func() {}, nil }
